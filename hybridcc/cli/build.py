"""``hybridcc build``: kernels to checked cubins in a folder, and one screen that says what happened."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hybridcc.cli.console import progress_line, stderr_message, stdout_console

if TYPE_CHECKING:
    from hybridcc.building import Planned


class Accept(StrEnum):
    proved = "proved"
    tested = "tested"


class Select(StrEnum):
    measured = "measured"
    proved = "proved"
    transfer = "transfer"


class Region(StrEnum):
    loops = "loops"
    body = "body"


class Require(StrEnum):
    proved = "proved"
    measured = "measured"


class Format(StrEnum):
    bundle = "bundle"
    fatbin = "fatbin"


class Assembler(StrEnum):
    nvjitlink = "nvjitlink"
    ptxas = "ptxas"


def build(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...", help=".py, .ptx, .mlir, .ll, .bc and .cu files, or modules; file:name picks one."
        ),
    ],
    out: Annotated[str, typer.Option("-o", "--out", help="Folder for the bundles, one per kernel.")] = "out",
    arch: Annotated[str, typer.Option(help="Architectures, separated by commas.")] = "sm_80,sm_86,sm_90",
    rewriter: Annotated[
        str | None,
        typer.Option(
            help="rules, replay:FILE, openai:MODEL@URL, transformers:FOLDER or none; "
            "without it the recording beside the target is replayed, if there is one."
        ),
    ] = None,
    accept: Annotated[Accept, typer.Option(help="The weakest verdict that may be selected.")] = Accept.proved,
    select: Annotated[
        Select,
        typer.Option(
            help="measured: only what won a race on a device of that architecture; "
            "proved: also what was accepted and never measured; transfer: what won on another architecture."
        ),
    ] = Select.measured,
    inputs: Annotated[
        str | None, typer.Option(help=".py or .npz with example launches; without it they are made from types.")
    ] = None,
    signature: Annotated[
        str | None, typer.Option(help="Types for a plain function: 'conv1d(float32[::1], float32[::1])'.")
    ] = None,
    entry: Annotated[str | None, typer.Option(help="Which kernel of the file.")] = None,
    include: Annotated[
        list[str] | None, typer.Option("-I", "--include", help="A folder for #include, of .cu files.")
    ] = None,
    instantiate: Annotated[
        list[str] | None, typer.Option(help="A kernel template of a .cu file to build: 'scale<float>'.")
    ] = None,
    assembler: Annotated[Assembler, typer.Option(help="Which assembler makes every cubin.")] = Assembler.nvjitlink,
    flag: Annotated[
        list[str] | None, typer.Option(help="An option of ptxas, for whichever assembler: --flag=-maxrregcount=32.")
    ] = None,
    ptxas: Annotated[str | None, typer.Option(help="Another ptxas than the one of NVIDIA's wheel.")] = None,
    answers: Annotated[int, typer.Option(min=1, max=64, help="How many rewrites to ask for per region.")] = 4,
    rounds: Annotated[int, typer.Option(min=0, max=16, help="How often an answer that fails is asked for again.")] = 3,
    most_answers: Annotated[int, typer.Option(min=1, help="Answers in all, for each kernel.")] = 48,
    most_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens read and written, for each kernel.")] = None,
    most_seconds: Annotated[
        float | None, typer.Option(min=0, help="Ask nothing more so long after the first question, for each kernel.")
    ] = None,
    region: Annotated[
        Region, typer.Option(help="loops: the hottest loops; body: the whole kernel as one region.")
    ] = Region.loops,
    format_: Annotated[
        Format, typer.Option("--format", help="fatbin: also one file with every selected cubin and the baseline's PTX.")
    ] = Format.bundle,
    header: Annotated[bool, typer.Option("--header", help="Also a C header: entry, parameters, launch.")] = False,
    window: Annotated[
        int | None, typer.Option(min=256, help="Tokens the model reads and writes in all; longer regions are cut.")
    ] = None,
    minimise: Annotated[
        int, typer.Option(min=0, help="Reduce each winner to the edits that matter, with at most so many checks.")
    ] = 0,
    single_file: Annotated[bool, typer.Option("--single-file", help="Each bundle as one file, <kernel>.zip.")] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Kernels built at once, each in a process.")] = 1,
    require: Annotated[
        Require | None, typer.Option(help="Fail (1) unless such a rewrite is selected for every kernel.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Build also what was built from the same already.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be built and why, and leave.")] = False,
    dump_stages: Annotated[
        str | None, typer.Option("--dump-stages", help="A folder for what each stage gave, as files for reading.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For the inputs made and for the model.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifests instead of the report.")] = False,
) -> None:
    """Compile, rewrite, check and assemble kernels; write cubins with their evidence."""
    from hybridcc.build_job import Extra
    from hybridcc.building import Request, carry_out, check_required, plan
    from hybridcc.records import Budget
    from hybridcc.work import Options

    asked = Request(
        targets=tuple(targets),
        place=Path(out),
        architectures=tuple(a.strip() for a in arch.split(",") if a.strip()),
        options=Options(
            accept=accept.value,
            select=select.value,
            answers=answers,
            seed=seed,
            assembler="ptxas" if ptxas else assembler.value,
            budget=Budget(rounds, most_answers, most_tokens, most_seconds),
            body=region is Region.body,
            flags=tuple(flag or ()),
            ptxas=Path(ptxas) if ptxas else None,
            minimise=minimise,
            window=window,
        ),
        extra=Extra(format_ is Format.fatbin, header, single_file, Path(dump_stages) if dump_stages else None),
        rewriter=rewriter,
        inputs=inputs,
        signature=signature,
        entry=entry,
        include=tuple(include or ()),
        instantiate=tuple(instantiate or ()),
        jobs=jobs,
        fresh=fresh or dump_stages is not None,
    )
    with progress_line() as progress:
        if dry_run:
            _show_plan(plan(asked, progress), as_json)
            return
        built = carry_out(asked, progress)
    if as_json:
        from hybridcc.runtime.bundle import to_json

        data = {"kernels": [{"folder": str(b.bundle.folder), **b.bundle.manifest} for b in built]}
        typer.echo(to_json(data), nl=False)
    else:
        from hybridcc.report.terminal import show

        console = stdout_console()
        for each in built:
            show(each.bundle.manifest, console, str(each.bundle.folder))
            if each.reused:
                console.print("  [dim]unchanged: it was built from the same already[/dim]\n")
    errors = [each.error for each in built if each.error is not None]
    if errors:
        stderr_message(errors[0], "the baselines were built; no rewrite was")
        raise typer.Exit(errors[0].exit_code)
    if require is not None:
        check_required(built, require.value)


def _show_plan(planned: Sequence[Planned], as_json: bool) -> None:
    from dataclasses import asdict

    from hybridcc.report.words import plural

    if as_json:
        from hybridcc.runtime.bundle import to_json

        typer.echo(to_json({"kernels": [asdict(each) for each in planned]}), nl=False)
        return
    for each in planned:
        why = f" ({', '.join(each.why)})" if each.why else ""
        asked = f", {plural(each.regions, 'region')} for {each.rewriter}" if each.regions else ""
        typer.echo(f"{each.kernel}: {each.state}{why}, {', '.join(each.architectures)}{asked} -> {each.place}")
    count = sum(each.state != "unchanged" for each in planned)
    typer.echo(f"{count} of {plural(len(planned), 'kernel')} would be built")
