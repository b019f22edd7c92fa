"""``hybridcc inspect``: what a bundle holds and why, and whether it still is what was built."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hybridcc.inspecting import Check
    from hybridcc.runtime.bundle import Bundle


def inspect(
    place: Annotated[Path, typer.Argument(help="A bundle (a folder or a .zip), or a folder of bundles.")],
    check: Annotated[
        bool, typer.Option("--check", help="Check every hash, and repeat assembly, proofs and tests from the files.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print manifests, or the checks, as JSON.")] = False,
) -> None:
    """Explain a bundle, or with --check repeat its checks. Exit codes: 0 all hold, 1 one fails, 2 it was altered."""
    from hybridcc.loading import bundles_in

    found = tuple(bundles_in(place))
    if check:
        raise typer.Exit(_checked(found, as_json))
    if as_json:
        from hybridcc.runtime.bundle import to_json

        data = {"kernels": [{"folder": str(each.folder), **each.manifest} for each in found]}
        typer.echo(to_json(data), nl=False)
        return
    for each in found:
        _explain(each)


def _explain(bundle: Bundle) -> None:
    from hybridcc.cli.console import stdout_console
    from hybridcc.report.terminal import show

    console = stdout_console()
    show(bundle.manifest, console)
    calling = bundle.manifest["kernel"].get("calling")
    if calling is not None:
        entry = f"  entry {calling['entry']}, {calling['bytes']} bytes of parameters"
        console.print(entry, markup=False, style="dim", soft_wrap=True)
        for argument in calling["arguments"]:
            console.print(f"    {argument['name']}: {_spelled(argument)}", markup=False, soft_wrap=True)
    names = sorted(bundle.manifest["files"])
    console.print(f"  {len(names)} files in {bundle.folder}: {', '.join(names)}", markup=False, style="dim")


def _spelled(argument: dict[str, Any]) -> str:
    at = ", ".join(f"{field['role']} at {field['offset']}" for field in argument["fields"])
    if argument["ndim"] is None:
        return f"{argument['dtype']} ({at})"
    kept = ", not written" if argument["readonly"] else ""
    return f"{argument['dtype']} array of {argument['ndim']}, layout {argument['layout']}{kept} ({at})"


def _checked(found: tuple[Bundle, ...], as_json: bool) -> int:
    from hybridcc.cli.console import progress_line
    from hybridcc.inspecting import check

    told: dict[str, list[Check]] = {}
    with progress_line() as progress:
        for each in found:
            told[str(each.folder)] = list(check(each, progress))
    if as_json:
        from dataclasses import asdict

        from hybridcc.runtime.bundle import to_json

        data = [{"folder": folder, "checks": [asdict(c) for c in checks]} for folder, checks in told.items()]
        typer.echo(to_json({"kernels": data}), nl=False)
    else:
        for folder, checks in told.items():
            typer.echo(folder)
            for c in checks:
                detail = f": {c.detail}" if c.detail else ""
                typer.echo(f"  {c.state.replace('_', ' '):12}  {c.what:14}  {c.where}{detail}")
    return int(any(c.state == "fails" for checks in told.values() for c in checks))
