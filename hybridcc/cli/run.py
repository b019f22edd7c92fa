"""``hybridcc run``: a kernel on the executor, with no GPU."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hybridcc.cli.files import write_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.verify.launch import Launch
    from hybridcc.sources import Source


class Schedule(StrEnum):
    lowest = "lowest"
    random = "random"
    reversed = "reversed"


@dataclass(frozen=True, slots=True)
class _Finished:
    launch: Launch
    names: tuple[str, ...]
    changed: tuple[bool, ...]
    result: Any


def run(
    target: Annotated[str, typer.Argument(help="A .py, .ptx, .mlir, .ll, .bc or .cu file; file:name picks one.")],
    grid: Annotated[str, typer.Option(help="Blocks: 4 or 4,2 or 4,2,1.")] = "1",
    block: Annotated[str, typer.Option(help="Threads in a block, in the same form.")] = "32",
    arg: Annotated[
        list[str] | None,
        typer.Option(help="One argument, in order: f32:2.5, f32[1024]=random, s64:7, @x.npy. Repeat for each."),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(help=".py or .npz with a launch, in place of --arg; without both, the kernel's examples."),
    ] = None,
    entry: Annotated[str | None, typer.Option(help="Which entry of the file.")] = None,
    signature: Annotated[str | None, typer.Option(help="Types for a plain function in a .py file.")] = None,
    shared_bytes: Annotated[int, typer.Option(min=0, help="Dynamic shared memory per block.")] = 0,
    schedule: Annotated[Schedule, typer.Option(help="Which warp goes first.")] = Schedule.lowest,
    seed: Annotated[int, typer.Option(min=0, help="For random values and the random schedule.")] = 0,
    out: Annotated[str | None, typer.Option("-o", "--out", help=".npz for the arguments after the run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a kernel on the CPU; every access, race and barrier is checked."""
    from hybridcc.sources import load

    source = only_source(load(target, ["sm_90"], signature=signature, entry=entry), target)
    kernel, launch = launch_of(source, target, grid, block, arg, inputs, shared_bytes, seed)
    finished = _run(kernel, launch, schedule.value, seed)
    if out is not None:
        from hybridcc.passes.verify import stored

        write_bytes(out, stored.to_bytes(finished.launch))
    _tell(finished, as_json)


def only_source(found: Sequence[Source], target: str) -> Source:
    """The one kernel of a target. Raises InputError where there are several."""
    from hybridcc.errors import InputError

    source, *others = found
    if others:
        names = ", ".join(s.name for s in found)
        raise InputError(f"several kernels: {names}", where=target, next_step="pick one with --entry")
    return source


def launch_of(
    source: Source,
    target: str,
    grid: str,
    block: str,
    arg: list[str] | None,
    inputs: str | None,
    shared_bytes: int,
    seed: int,
) -> tuple[Kernel, Launch]:
    """What the command line describes, or else the kernel's own first example; the kernel with its arguments known."""
    from hybridcc.passes.verify import examples
    from hybridcc.passes.verify.bare import with_arguments

    kernel = source.kernels[0]
    if inputs is not None:
        kernel = with_arguments(kernel)
    if source.examples is not None and not arg and inputs is None:
        return kernel, examples.from_callable(source.examples, kernel, target)[0]
    return kernel, given_launch(kernel, grid, block, arg, inputs, shared_bytes, seed)


def given_launch(
    kernel: Kernel, grid: str, block: str, arg: list[str] | None, inputs: str | None, shared_bytes: int, seed: int
) -> Launch:
    from hybridcc.cli.values import parse_value
    from hybridcc.errors import InputError
    from hybridcc.passes.verify import examples
    from hybridcc.passes.verify.launch import Launch

    if inputs is not None:
        if arg:
            raise InputError("both --arg and --inputs are given", next_step="give one of them")
        return examples.from_file(inputs, kernel)[0]
    values = tuple(parse_value(text, seed + number) for number, text in enumerate(arg or ()))
    return Launch(_shape(grid, "--grid"), _shape(block, "--block"), values, shared_bytes=shared_bytes)


def _shape(text: str, option: str) -> tuple[int, int, int]:
    from hybridcc.errors import InputError
    from hybridcc.passes.verify.launch import as_shape

    try:
        return as_shape(tuple(int(size) for size in text.replace("x", ",").split(",")))
    except ValueError:
        raise InputError(f"{option} {text!r} is no shape", next_step=f"write {option} 4 or {option} 4,2,1") from None


def _run(kernel: Kernel, launch: Launch, schedule: str, seed: int) -> _Finished:
    import numpy as np

    from hybridcc.passes.arguments import flatten
    from hybridcc.passes.execute import execute
    from hybridcc.passes.verify.launch import copy

    done = copy(launch)
    flat = flatten(kernel.arguments, done.values) if kernel.arguments else list(done.values)
    result = execute(
        kernel.ptx,
        kernel.entry,
        launch.grid,
        launch.block,
        flat,
        shared_bytes=launch.shared_bytes,
        schedule=schedule,
        seed=seed,
    )
    names = tuple(a.name for a in kernel.arguments) or tuple(f"arg{i}" for i in range(len(done.values)))
    changed = tuple(
        np.asarray(before).tobytes() != np.asarray(after).tobytes()
        for before, after in zip(launch.values, done.values, strict=True)
    )
    return _Finished(done, names, changed, result)


def _tell(finished: _Finished, as_json: bool) -> None:
    import numpy as np

    arrays = [
        (name, value, changed)
        for name, value, changed in zip(finished.names, finished.launch.values, finished.changed, strict=True)
        if isinstance(value, np.ndarray)
    ]
    if as_json:
        from hybridcc.runtime.bundle import sha256, to_json

        data = {
            "arguments": [
                {"name": n, "dtype": v.dtype.name, "shape": list(v.shape), "changed": c, "sha256": sha256(v.tobytes())}
                for n, v, c in arrays
            ],
            "block_counts": dict(finished.result.block_counts),
            "flags": sorted(finished.result.flags),
        }
        typer.echo(to_json(data), nl=False)
        return
    for name, value, changed in arrays:
        shape = ",".join(map(str, value.shape))
        shown = np.array2string(value, threshold=8, edgeitems=3).replace("\n", " ")
        typer.echo(f"{name} {value.dtype}[{shape}] {'changed' if changed else 'as it was'} {shown}")
    counts = ", ".join(f"{label} {count}" for label, count in finished.result.block_counts.items())
    typer.echo(f"block executions: {counts}")
    for flag in sorted(finished.result.flags):
        typer.echo(f"note: {flag}")
