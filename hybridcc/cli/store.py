"""``hybridcc store``: the decisions that races came to, looked at, taken elsewhere and thinned out."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from hybridcc.cli.files import read_text, write_bytes, write_text
from hybridcc.cli.guard import guarded
from hybridcc.errors import InputError

if TYPE_CHECKING:
    from hybridcc.runtime.store import Decision

SHOWN = 12
"""Digits of a key in a listing; as many as tell it apart are enough to name it."""

app = typer.Typer(
    help="Look at, move and thin out the decisions that are kept in HYBRIDCC_CACHE (else ~/.cache/hybridcc).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print it as data.")]
OfKernel = Annotated[str | None, typer.Option("--kernel", help="Only decisions on kernels of that name.")]


def list_(kernel: OfKernel = None, as_json: AsJson = False) -> None:
    """Every decision, newest first: key, kernel, GPU, what was selected and why."""
    from hybridcc.runtime import store

    found = [each for each in store.decisions() if kernel is None or each.kernel == kernel]
    history = store.history()
    if as_json:
        data = {
            "path": str(store.default_path()),
            "history": [{"made": made, "what": what} for made, what in history],
            "decisions": [_brief(each) for each in found],
        }
        typer.echo(json.dumps(data, indent=1))
        return
    for made, what in history:
        typer.echo(f"{_day(made)}: {what}", err=True)
    if not found:
        typer.echo(f"no decision is kept in {store.default_path()}", err=True)
    for each in found:
        device = _situation(each).get("device", "")
        typer.echo(f"{each.key[:SHOWN]}  {_day(each.made)}  {each.kernel}  {device}  {each.reason}")


def show(
    key: Annotated[str, typer.Argument(help="The key as list prints it, or as much of it as is unique.")],
    as_json: AsJson = False,
    cubin: Annotated[str | None, typer.Option(help="Write the selected machine code to this file.")] = None,
) -> None:
    """One decision: what it rests on, what was measured for it, when it was last checked."""
    from hybridcc.runtime import store

    decision = _named(key)
    if cubin is not None:
        if decision.cubin is None:
            raise InputError("the baseline was selected, so no machine code is kept", next_step="leave --cubin out")
        write_bytes(cubin, decision.cubin)
    situation = store.situation_of(decision.identity)
    measured = [each for each in store.measurements() if store.situation_of(each.identity) == situation]
    if as_json:
        rows = [{"identity": m.identity, "kind": m.kind, "evidence": m.evidence, "made": m.made} for m in measured]
        typer.echo(json.dumps({**_brief(decision), "identity": decision.identity, "measured": rows}, indent=1))
        return
    checked = f"{decision.checked_day} on driver {decision.checked_driver}" if decision.checked_day else "never"
    typer.echo(f"{decision.kernel}: {decision.reason}")
    typer.echo(f"  key      {decision.key}")
    typer.echo(f"  made     {_day(decision.made)}; compared with the baseline again: {checked}")
    typer.echo(f"  code     {decision.code}, {len(decision.cubin or b'')} bytes of machine code")
    for name, value in _flat(decision.identity):
        typer.echo(f"  {name}: {value}")
    for each in measured:
        ratio = each.evidence.get("ratio")
        typer.echo(f"  measured {each.identity.get('variant')}: {each.kind}{f' {ratio:.3f}x' if ratio else ''}")


def export(
    out: Annotated[str, typer.Argument(help="A file, or - for stdout.")] = "-",
) -> None:
    """Write the whole store as lines of JSON."""
    from hybridcc.runtime import store

    write_text(out, "".join(store.dump()))


def import_(
    file: Annotated[str, typer.Argument(help="What export wrote; - for stdin.")],
) -> None:
    """Take in what export wrote. Of two decisions on the same thing the newer stays; machine code that comes in is
    compared with the baseline before it runs."""
    from hybridcc.runtime import store

    text, name = read_text(file)
    try:
        taken, left = store.load(text.splitlines())
    except InputError as error:
        where = f"{name}, {error.where}" if error.where else name
        raise InputError(error.what, where=where, next_step=error.next_step) from None
    typer.echo(f"{taken} rows taken, {left} left out because the store has them as new", err=True)


def prune(
    older_than: Annotated[float | None, typer.Option(min=0, help="Only decisions older than so many days.")] = None,
    kernel: OfKernel = None,
    driver: Annotated[str | None, typer.Option(help="Only decisions for that driver's CUDA, as in 13.0.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every decision.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and leave it.")] = False,
) -> None:
    """Take out the decisions that all the options given are true of, and what was measured for them alone."""
    from hybridcc.runtime import store

    if older_than is None and kernel is None and driver is None and not all_:
        raise InputError("nothing says what to take out", next_step="give --older-than, --kernel, --driver or --all")
    before = time.time() - (older_than or 0) * 86400
    going = [
        each
        for each in store.decisions()
        if (older_than is None or each.made < before)
        and (kernel is None or each.kernel == kernel)
        and (driver is None or _situation(each).get("driver") == driver)
    ]
    for each in going:
        typer.echo(f"{each.key[:SHOWN]}  {each.kernel}  {each.reason}")
    gone = 0 if dry_run or not going else store.forget(each.key for each in going)
    typer.echo(f"{len(going)} would go" if dry_run else f"{gone} taken out", err=True)


def _named(prefix: str) -> Decision:
    from hybridcc.runtime import store

    found = store.starting_with(prefix)
    if len(found) == 1:
        return found[0]
    what = f"no decision's key begins with {prefix}" if not found else f"{len(found)} keys begin with {prefix}"
    raise InputError(what, next_step="see hybridcc store list")


def _brief(decision: Decision) -> dict[str, object]:
    return {
        "key": decision.key,
        "kernel": decision.kernel,
        "situation": _situation(decision),
        "variant": decision.variant,
        "code": decision.code,
        "reason": decision.reason,
        "cubin_bytes": len(decision.cubin or b""),
        "evidence": decision.evidence,
        "made": decision.made,
        "checked_day": decision.checked_day,
        "checked_driver": decision.checked_driver,
    }


def _situation(decision: Decision) -> dict[str, object]:
    situation = decision.identity.get("situation")
    return situation if isinstance(situation, dict) else dict(decision.identity)


def _flat(identity: object, prefix: str = "") -> list[tuple[str, object]]:
    """What it rests on, one line each."""
    if not isinstance(identity, dict):
        return [(prefix, identity)]
    return [pair for name, value in identity.items() for pair in _flat(value, f"{prefix}.{name}" if prefix else name)]


def _day(made: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(made))


app.command("list")(guarded(list_))
app.command("show")(guarded(show))
app.command("export")(guarded(export))
app.command("import")(guarded(import_))
app.command("prune")(guarded(prune))
