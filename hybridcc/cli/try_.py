"""``hybridcc try``: a region file, edited by hand, through every check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hybridcc.cli.build import Accept
from hybridcc.cli.console import progress_line


def try_(
    path: Annotated[str, typer.Argument(help="A file that `hybridcc region` wrote, edited.")],
    accept: Annotated[Accept, typer.Option(help="The weakest verdict that counts as passed.")] = Accept.proved,
    inputs: Annotated[str | None, typer.Option(help=".py or .npz with example launches.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="For the inputs made.")] = 0,
    dump_stages: Annotated[
        str | None, typer.Option("--dump-stages", help="A folder for what each stage gave, as files for reading.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Splice, check, prove and race a rewrite. Exit codes: 0 passed, 1 refuted or refused, 4 unknown or below the
    verdict asked for, 2 bad input."""
    from hybridcc.byhand import attempt_region
    from hybridcc.manifest import manifest_of
    from hybridcc.report.words import verdict_text

    with progress_line() as progress:
        stages = Path(dump_stages) if dump_stages else None
        record, candidate = attempt_region(
            path, accept=accept.value, inputs=inputs, seed=seed, dump_stages=stages, progress=progress
        )
    fate, evidence = candidate.fate, candidate.evidence
    if as_json:
        from hybridcc.runtime.bundle import to_json

        (architecture,) = manifest_of(record)["architectures"]
        typer.echo(to_json(architecture["candidates"][0]), nl=False)
    else:
        passed = fate.kind == "chosen" or fate.code in ("NOT_FASTER", "SAME", "SLOWER")
        typer.echo(f"{candidate.region}: {'passed' if passed else fate.code}")
        for line in (
            verdict_text(evidence.verdict) if evidence is not None else "",
            fate.detail,
            candidate.explanation,
            *(note for note in (evidence.notes if evidence is not None else ()) if note.startswith("not proved")),
            *(str(finding) for finding in candidate.findings),
            f"speed: {candidate.speed.kind} {candidate.speed.reason}".rstrip() if candidate.machine else "",
        ):
            if line:
                typer.echo(f"  {line}".replace("\n", "\n  "))
    raise typer.Exit(_exit_code(fate.kind, fate.code))


def _exit_code(kind: str, code: str) -> int:
    if code in ("UNKNOWN", "BELOW_POLICY"):
        return 4
    return 1 if kind == "failed" or code == "SASS_UNCHANGED" else 0
