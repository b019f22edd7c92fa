"""``hybridcc region``: a region as a file to rewrite by hand."""

from __future__ import annotations

from typing import Annotated

import typer


def region(
    target: Annotated[str, typer.Argument(help="A .py, .ptx, .mlir, .ll, .bc or .cu file; file:name picks one.")],
    out: Annotated[str, typer.Option("-o", "--out", help="Where to write the region; - for stdout.")] = "region.ptx",
    which: Annotated[str, typer.Option("--region", help="r0, r1, … as `hybridcc regions` lists them, or body.")] = "r0",
    arch: Annotated[str, typer.Option(help="Architecture to compile for.")] = "sm_80",
    signature: Annotated[str | None, typer.Option(help="Types for a plain function.")] = None,
    entry: Annotated[str | None, typer.Option(help="Which kernel of the file.")] = None,
    take: Annotated[
        str | None, typer.Option(help="FOLDER:CANDIDATE: take up an answer of a bundle, with what became of it.")
    ] = None,
) -> None:
    """Write a region with its interface and facts, for editing; `hybridcc try` takes it back."""
    from pathlib import Path

    from hybridcc.byhand import Origin, answer_in, region_of, text_of
    from hybridcc.passes.rewrite.extract import code_of
    from hybridcc.passes.rewrite.recording import replace_file
    from hybridcc.sources import load

    kernel = load(target, [arch], signature=signature, entry=entry)[0].kernels[0]
    body, note = "", ""
    if take is not None:
        folder, _, candidate = take.rpartition(":")
        answer, note = answer_in(folder or ".", candidate)
        body, which = code_of(answer), candidate.partition("-")[0]
    found = region_of(kernel, which)
    absolute = str(Path(target).absolute())
    text = text_of(Origin(absolute, signature or "", entry or "", arch, which, found.key), found, body, note)
    if out == "-":
        typer.echo(text, nl=False)
        return
    replace_file(out, text)
    typer.echo(f"{which} of {kernel.name} written to {out}; edit it, then: hybridcc try {out}")
