"""``hybridcc profile``: where a kernel spends its time, and what rewriting each part could bring at most."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.profile.profile import Profile
    from hybridcc.passes.verify.launch import Launch
    from hybridcc.profiling import Profiled


class Source(StrEnum):
    auto = "auto"
    measured = "measured"
    executed = "executed"
    estimated = "estimated"


def profile(
    target: Annotated[str, typer.Argument(help="A .py, .ptx, .mlir, .ll, .bc or .cu file; file:name picks one.")],
    source: Annotated[Source, typer.Option(help="Which evidence: a GPU, the executor, the text; auto takes all.")] = (
        Source.auto
    ),
    arch: Annotated[str, typer.Option(help="Architecture to compile for.")] = "sm_90",
    grid: Annotated[str, typer.Option(help="Blocks: 4 or 4,2 or 4,2,1.")] = "1",
    block: Annotated[str, typer.Option(help="Threads in a block, in the same form.")] = "32",
    arg: Annotated[list[str] | None, typer.Option(help="One argument, in order, as `hybridcc run` reads it.")] = None,
    inputs: Annotated[str | None, typer.Option(help=".py or .npz with a launch, in place of --arg.")] = None,
    entry: Annotated[str | None, typer.Option(help="Which entry of the file.")] = None,
    signature: Annotated[str | None, typer.Option(help="Types for a plain function in a .py file.")] = None,
    shared_bytes: Annotated[int, typer.Option(min=0, help="Dynamic shared memory per block.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="For random values.")] = 0,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Count one thread block in so many (a power of two); default: by length.")
    ] = None,
    use: Annotated[
        str | None, typer.Option("--profile", help="A profile saved before, in place of taking one.")
    ] = None,
    ncu: Annotated[
        str | None,
        typer.Option(help="`run` launches the kernel under Nsight Compute; else a CSV that it exported of it."),
    ] = None,
    save: Annotated[str | None, typer.Option(help="File for the profile, as JSON.")] = None,
    annotate: Annotated[str | None, typer.Option(help="File for the PTX with its regions marked.")] = None,
    html: Annotated[str | None, typer.Option(help="File for a heat map of the PTX, one page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show a kernel's hot regions: share, bound, limiter, source line."""
    from hybridcc.cli.files import write_text
    from hybridcc.cli.run import launch_of, only_source
    from hybridcc.profiling import as_data
    from hybridcc.runtime.bundle import to_json
    from hybridcc.sources import load

    _check_sample(sample)
    found = only_source(load(target, [arch], signature=signature, entry=entry, lineinfo=True), target)
    launch: Launch | None = None
    kernel = found.kernels[0]
    if arg or inputs or found.examples is not None:
        kernel, launch = launch_of(found, target, grid, block, arg, inputs, shared_bytes, seed)
    profiled = _profiled(kernel, launch, source, sample, use)
    if ncu is not None:
        from hybridcc.profiling import with_nsight

        profiled = with_nsight(profiled, launch, ncu)
    if save is not None:
        write_text(save, to_json(profiled.best.to_json()).decode())
    if annotate is not None:
        from hybridcc.passes.profile.marks import marked

        write_text(annotate, marked(kernel, profiled.best, profiled.hot))
    if html is not None:
        from hybridcc.report.heatmap import page

        write_text(html, page(profiled))
    if as_json:
        typer.echo(to_json(as_data(profiled)), nl=False)
    else:
        _tell(profiled)


def _check_sample(sample: int | None) -> None:
    from hybridcc.errors import InputError

    if sample is not None and sample & (sample - 1):
        raise InputError(f"--sample {sample} is no power of two", next_step="give 1, 2, 4, 8, 16, …")


def _profiled(kernel: Kernel, launch: Launch | None, source: Source, sample: int | None, use: str | None) -> Profiled:
    from hybridcc.passes.profile.hot import hot_regions
    from hybridcc.profiling import Profiled, profile

    if use is None:
        return profile(kernel, launch, source.value, every=sample)
    taken = _saved(use)
    hot = hot_regions(kernel, taken)
    return Profiled(kernel, (taken,), hot, (), taken.used_at(launch) if launch is not None else ())


def _saved(path: str) -> Profile:
    import json

    from hybridcc.cli.files import read_text
    from hybridcc.errors import ProfileError
    from hybridcc.passes.profile.profile import from_json

    text, name = read_text(path)
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ProfileError("FORMAT", f"this is no JSON: {error}", where=name, next_step="take it again") from error
    if not isinstance(data, dict):
        raise ProfileError("FORMAT", "this is no profile", where=name, next_step="take it again")
    return from_json(data)


def _tell(found: Profiled) -> None:
    best = found.best
    at = f" at {best.taken_at}" if best.taken_at else ""
    typer.echo(f"{found.kernel.name} for {found.kernel.arch}: {best.origin}{at}")
    if found.measured is not None:
        m = found.measured
        timing = "" if m.timing_overhead is None else f", {m.timing_overhead:.2f}x reading clocks"
        typer.echo(f"  one launch {1e6 * m.seconds:.1f} us; {m.counting_overhead:.2f}x while counting{timing}")
    if not found.hot:
        typer.echo("  no loop, so no region")
    for one in found.hot:
        clocks = "" if one.clocks is None else f" ({100 * one.share:.0f} % by counts and cost model)"
        bound = f"at most {one.bound:.2f}x" if one.bound < 100 else "no bound from the rest"
        line = f", {one.line}" if one.line else ""
        typer.echo(
            f"  {one.region.id}: {100 * one.share:.0f} % of the time{clocks}; {bound}; limited by "
            f"{one.limiter.value}{line}"
        )
        if found.nsight is not None and found.nsight_own is not None:
            region = one.region.id
            typer.echo(
                f"    {100 * found.nsight[region]:.0f} % of Nsight Compute's samples, "
                f"{100 * found.nsight_own[region]:.0f} % of those without contention"
            )
        if one.skipped:
            typer.echo(f"    skipped: {one.skipped}")
    for words in (*best.notes, *found.failures):
        typer.echo(f"  note: {words}")
    for words in found.disagreements:
        typer.echo(f"  sources disagree on {words}")
