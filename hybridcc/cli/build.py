"""``hybridcc build``: kernels to checked cubins in a folder, and one screen that says what happened."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from hybridcc.cli.console import progress_line, stderr_message, stdout_console


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


class Format(StrEnum):
    bundle = "bundle"
    fatbin = "fatbin"


class Assembler(StrEnum):
    nvjitlink = "nvjitlink"
    ptxas = "ptxas"


def build(
    target: Annotated[
        str, typer.Argument(help="A .py, .ptx, .mlir, .ll, .bc or .cu file; file:name picks one.")
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
    seed: Annotated[int, typer.Option(min=0, help="For the inputs made and for the model.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifests instead of the report.")] = False,
) -> None:
    """Compile, rewrite, check and assemble kernels; write cubins with their evidence."""
    from hybridcc.building import build as build_bundles
    from hybridcc.records import Budget

    with progress_line() as progress:
        built = build_bundles(
            target,
            out,
            arch=[a.strip() for a in arch.split(",") if a.strip()],
            rewriter=rewriter,
            accept=accept.value,
            select=select.value,
            inputs=inputs,
            signature=signature,
            entry=entry,
            assembler=assembler.value,
            answers=answers,
            budget=Budget(rounds, most_answers, most_tokens, most_seconds),
            seed=seed,
            body=region is Region.body,
            include=include or (),
            instantiate=instantiate or (),
            fatbin=format_ is Format.fatbin,
            header=header,
            minimise=minimise,
            single_file=single_file,
            window=window,
            progress=progress,
        )
    if as_json:
        from hybridcc.runtime.bundle import to_json

        data = {"kernels": [{"folder": str(b.bundle.folder), **b.bundle.manifest} for b in built]}
        typer.echo(to_json(data), nl=False)
    else:
        from hybridcc.report.terminal import show

        console = stdout_console()
        for each in built:
            show(each.bundle.manifest, console, str(each.bundle.folder))
    errors = [each.error for each in built if each.error is not None]
    if errors:
        stderr_message(errors[0], "the baselines were built; no rewrite was")
        raise typer.Exit(errors[0].exit_code)
