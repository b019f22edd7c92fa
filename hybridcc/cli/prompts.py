"""Prompts out and answers in, for models that are not at hand while hybridcc runs."""

from __future__ import annotations

from typing import Annotated

import typer

from hybridcc.cli.build import Region
from hybridcc.cli.guard import guarded

answers = typer.Typer(
    help="Answers of a language model to exported prompts.", no_args_is_help=True, rich_markup_mode=None
)


def prompts(
    target: Annotated[
        str,
        typer.Argument(
            help="A .py, .ptx, .mlir, .ll, .bc or .cu file; file:name picks one. "
            "Or a bundle: the follow-ups to those of its answers that failed."
        ),
    ],
    out: Annotated[str, typer.Option("-o", "--out", help="Where to write the batch file.")] = "prompts.jsonl",
    signature: Annotated[str | None, typer.Option(help="Types for a plain function.")] = None,
    entry: Annotated[str | None, typer.Option(help="Which kernel of the file.")] = None,
    arch: Annotated[
        str, typer.Option(help="Architectures, with commas; those whose figures agree share a prompt.")
    ] = "sm_80,sm_86,sm_90",
    samples: Annotated[int, typer.Option(min=1, max=64, help="Answers to ask for per prompt.")] = 1,
    region: Annotated[
        Region, typer.Option(help="loops: the hottest loops; body: the whole kernel as one region.")
    ] = Region.loops,
    window: Annotated[
        int | None, typer.Option(min=256, help="Tokens the model reads and writes in all; longer regions are cut.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the prompts as text; write nothing.")] = False,
) -> None:
    """Write the prompts for a target's hot regions, in the OpenAI batch format."""
    from pathlib import Path

    from hybridcc.asking import prompts_of, unanswered_of
    from hybridcc.passes.rewrite import batch
    from hybridcc.runtime import bundle
    from hybridcc.sources import load

    if is_bundle := Path(target).is_dir():
        found = list(unanswered_of(bundle.load(target)))
    else:
        architectures = [a.strip() for a in arch.split(",") if a.strip()]
        found = [
            p
            for source in load(target, architectures, signature=signature, entry=entry)
            for p in prompts_of(source, body=region is Region.body, window=window)
        ]
    if show:
        typer.echo("\n".join(p.text for p in found), nl=False)
        return
    count = batch.export(found, out, samples=samples)
    typer.echo(f"{count} prompt{'s' if count != 1 else ''} written to {out}")
    if not count and is_bundle:
        typer.echo("every answer in it passed, or had its rounds", err=True)
    elif not count:
        typer.echo("no hot region may be rewritten; `hybridcc regions` says why", err=True)


@answers.command("import")
@guarded
def import_(
    results: Annotated[str, typer.Argument(help="The result file of the batch, or lines with custom_id and answer.")],
    prompts: Annotated[str, typer.Option(help="The file that `hybridcc prompts` wrote.")] = "prompts.jsonl",
    out: Annotated[str, typer.Option("-o", "--out", help="The recording to write.")] = "recorded.answers.jsonl",
    model: Annotated[str, typer.Option(help="Which model answered, where the results do not say.")] = "",
    date: Annotated[str, typer.Option(help="When, as YYYY-MM-DD; today if not given.")] = "",
    append: Annotated[bool, typer.Option("--append", help="Keep what the recording holds already.")] = False,
) -> None:
    """Make a recording of a model's answers, for --rewriter replay:FILE."""
    import datetime
    from pathlib import Path

    from hybridcc.passes.rewrite import batch, recording

    day = date or datetime.datetime.now(datetime.UTC).date().isoformat()
    found = batch.import_answers(results, batch.read_prompts(prompts), date=day, model=model)
    kept = recording.read(out) if append and Path(out).exists() else ()
    recording.write(out, (*kept, *found.answers))
    for line in found.skipped:
        typer.echo(line, err=True)
    typer.echo(f"{len(found.answers)} answer{'s' if len(found.answers) != 1 else ''} written to {out}")
