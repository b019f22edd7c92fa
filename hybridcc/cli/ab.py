"""``hybridcc ab``: two cubins or PTX files against each other on this machine's GPU."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hybridcc.cli.console import progress_line, stderr_message
from hybridcc.cli.run import given_launch

if TYPE_CHECKING:
    from hybridcc.contest import Side
    from hybridcc.passes.kernel import Argument
    from hybridcc.passes.verify.launch import Launch
    from hybridcc.runtime.device import Device

UNTESTABLE = 125
SCHEMA_VERSION = 1


class Assembler(StrEnum):
    nvjitlink = "nvjitlink"
    ptxas = "ptxas"


def ab(
    a: Annotated[str | None, typer.Argument(help="The baseline: a .ptx or .cubin file.")] = None,
    b: Annotated[str | None, typer.Argument(help="What is judged: a .ptx or .cubin file; the same PTX may be.")] = None,
    grid: Annotated[str, typer.Option(help="Blocks: 4 or 4,2 or 4,2,1.")] = "1",
    block: Annotated[str, typer.Option(help="Threads in a block, in the same form.")] = "32",
    shared_bytes: Annotated[int, typer.Option("--shared", min=0, help="Dynamic shared memory per block.")] = 0,
    arg: Annotated[
        list[str] | None,
        typer.Option(help="One per PTX parameter, in order: f32:2.5, f32[1024]=random, s64:7, @x.npy."),
    ] = None,
    inputs: Annotated[str | None, typer.Option(help=".py or .npz with a launch, in place of --arg.")] = None,
    entry: Annotated[str | None, typer.Option(help="Which kernel of the files.")] = None,
    entry_b: Annotated[str | None, typer.Option(help="Which kernel of B, where it is called otherwise.")] = None,
    arch: Annotated[str | None, typer.Option(help="To assemble PTX for; the GPU's if not given.")] = None,
    assembler: Annotated[Assembler, typer.Option(help="Which assembler takes PTX.")] = Assembler.nvjitlink,
    ptxas_a: Annotated[Path | None, typer.Option(help="Another ptxas, for A.")] = None,
    ptxas_b: Annotated[Path | None, typer.Option(help="Another ptxas, for B.")] = None,
    flags: Annotated[str, typer.Option(help="Flags of ptxas for both: '-O2 -fmad=false'.")] = "",
    flags_a: Annotated[str, typer.Option(help="Further flags for A.")] = "",
    flags_b: Annotated[str, typer.Option(help="Further flags for B.")] = "",
    budget_s: Annotated[float, typer.Option(min=1, help="Seconds of racing.")] = 20.0,
    seed: Annotated[int, typer.Option(min=0, help="For values and for the order of samples.")] = 0,
    slack: Annotated[float, typer.Option(min=0, help="How much slower B may be (0.02 is 2 %) with exit code 0.")] = 0.0,
    always: Annotated[bool, typer.Option("--always", help="Race the same machine code too.")] = False,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Run both under compute-sanitizer too, where it is installed.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 4 where the race does not decide.")] = False,
    bisect: Annotated[
        bool, typer.Option("--bisect", help="For git bisect run: exit code 125 whenever nothing could be decided.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be raced; needs no GPU.")] = False,
    export: Annotated[Path | None, typer.Option(help="Write a folder from which this can be run again.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Run such a folder again; give no A and B.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Compare B's outputs with A's bit for bit, then race them.

    Exit codes: 0 B is not slower (or, without --strict, undecided), 1 B is slower or leaves other bits, 2 bad input,
    3 no GPU or nothing could be compared, 4 undecided with --strict, 125 untestable with --bisect.
    """
    from hybridcc.errors import HybridccError, InputError

    try:
        if (replay is None) == (a is None or b is None):
            raise InputError("two files are raced", next_step="give A and B, or --replay FOLDER alone")
        device = _device()
        how = {"budget_s": budget_s, "seed": seed, "slack": slack}
        if replay is not None:
            from hybridcc.contest_folder import replayed

            first, second, arguments, launch, stored = replayed(replay)
            launches = _with_varied(launch, int(stored["seed"]))
            how = {name: stored[name] for name in how}
        else:
            assert a is not None
            assert b is not None
            both = entry, entry_b or entry
            first, second = _sides((a, b), both, arch, assembler, (ptxas_a, ptxas_b), flags, (flags_a, flags_b), device)
            given = grid, block, arg, inputs, shared_bytes, seed
            arguments, launches = _launches(first, second, given)
        if export is not None:
            from hybridcc.contest_folder import export as write

            write(export, first, second, arguments, launches[0], how)
        code = _run(first, second, arguments, launches, device, how, dry_run, always, sanitize, strict, bisect, as_json)
    except HybridccError as error:
        if not bisect:
            raise
        stderr_message(error, "untestable")
        code = UNTESTABLE
    raise typer.Exit(code)


def _device() -> Device | None:
    from hybridcc.runtime import device

    return device.available()


def _sides(
    paths: tuple[str, str],
    entries: tuple[str | None, str | None],
    arch: str | None,
    assembler: Assembler,
    ptxas: tuple[Path | None, Path | None],
    flags: str,
    own: tuple[str, str],
    device: Device | None,
) -> tuple[Side, Side]:
    import shlex

    from hybridcc.contest import Recipe, architecture, side
    from hybridcc.errors import InputError

    try:
        each = [tuple(shlex.split(flags) + shlex.split(more)) for more in own]
    except ValueError as error:
        raise InputError(f"flags that cannot be read: {error}", next_step="close the quotes") from None
    first, second = (
        Recipe(path, name, assembler.value, program, words)
        for path, name, program, words in zip(paths, entries, ptxas, each, strict=True)
    )
    wanted = architecture((first, second), arch, device)
    return side(first, wanted), side(second, wanted)


def _launches(first: Side, second: Side, given: Any) -> tuple[tuple[Argument, ...], tuple[Launch, ...]]:
    """The launch that is raced, and others that are only compared."""
    from hybridcc.contest_inputs import arguments_of, check_parameters, generated
    from hybridcc.errors import InputError
    from hybridcc.frontends.ptx_file import from_text
    from hybridcc.passes.verify.bare import with_arguments

    grid, block, arg, inputs, shared_bytes, seed = given
    source = next((one for one in (first, second) if one.ptx is not None), None)
    kernel = None
    if source is not None and source.ptx is not None:
        (kernel,) = from_text(source.ptx, source.entry.name, source.arch, name=source.path)
    if inputs is None and not arg and (first.entry.parameters or second.entry.parameters):
        if kernel is None:
            raise InputError(
                "a cubin does not say what its parameters are",
                where=first.path,
                next_step="give one --arg per parameter, in order: f32[1024]=random, s64:7, @x.npy",
            )
        arguments, launches = generated(kernel, seed)
        check_parameters(arguments, (first, second))
        return arguments, launches
    if inputs is not None and kernel is None:
        raise InputError("--inputs need PTX on one side", where=inputs, next_step="give --arg instead")
    typed = with_arguments(kernel) if kernel is not None and inputs is not None else kernel
    launch = given_launch(typed, grid, block, arg, inputs, shared_bytes, seed)  # type: ignore[arg-type]
    arguments = arguments_of(launch.values) if inputs is None or typed is None else typed.arguments
    check_parameters(arguments, (first, second))
    return arguments, _with_varied(launch, seed)


def _with_varied(launch: Launch, seed: int) -> tuple[Launch, ...]:
    from hybridcc.contest_inputs import varied

    return (launch, *varied(launch, seed))


def _run(
    first: Side,
    second: Side,
    arguments: tuple[Argument, ...],
    launches: tuple[Launch, ...],
    device: Device | None,
    how: Mapping[str, Any],
    dry_run: bool,
    always: bool,
    sanitize: bool,
    strict: bool,
    bisect: bool,
    as_json: bool,
) -> int:
    """The exit code, once everything is told."""
    from hybridcc.contest import contest, record, static
    from hybridcc.passes.verify.launch import describe

    told: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "static": static(first, second, launches[0])}
    told["launch"] = describe(launches[0])
    told["inputs_to_compare"] = [describe(launch) for launch in launches]
    told["generated"] = launches[0].seed is not None
    code = 0
    if told["static"]["same_code"] and not always:
        told |= _nothing("same", "the machine code is the same to the last byte")
    elif dry_run:
        told |= _nothing("not_measured", "a dry run")
    elif device is None:
        from hybridcc.runtime.device import why_none

        told |= _nothing("not_measured", why_none())
        code = UNTESTABLE if bisect else 3
    else:
        from hybridcc import contest_sanitize
        from hybridcc.runtime import race_sanitize

        if sanitize:
            race_sanitize.find()  # before the race, not after it
        with progress_line() as progress:
            found = contest(
                first, second, arguments, launches, device, budget_s=how["budget_s"], seed=how["seed"],
                progress=progress,
            )  # fmt: skip
            told |= record(found, device, how["budget_s"], how["seed"])
            if sanitize:
                seen = contest_sanitize.sanitized(first, second, arguments, launches[0], device, progress)
                told = contest_sanitize.verdict(told, seen)
        code = exit_code(told, how["slack"], strict, bisect)
    told["exit_code"] = code
    if as_json:
        from hybridcc.runtime.bundle import to_json

        typer.echo(to_json(told), nl=False)
    else:
        _tell(told)
    if code == 3 or (code == UNTESTABLE and device is None):
        from hybridcc.errors import NoDevice
        from hybridcc.runtime.driver import NEXT_WITHOUT_DEVICE

        if device is None:
            stderr_message(NoDevice("nothing was raced: " + told["speed"]["reason"], next_step=NEXT_WITHOUT_DEVICE))
    return code


def _nothing(kind: str, reason: str) -> dict[str, Any]:
    proved = kind == "same"
    correctness = {"verdict": "proved" if proved else "unknown", "compared_launches": 0, "deviation": ""}
    return {"correctness": correctness, "speed": {"kind": kind, "reason": reason}, "conditions": {}}


def exit_code(told: Mapping[str, Any], slack: float, strict: bool, bisect: bool) -> int:
    """See ``ab``. A race that was void proves nothing, and that is no success."""
    speed = told["speed"]
    if told["correctness"]["verdict"] == "refuted":
        return 1
    if speed["kind"] == "slower" and speed["interval"][1] < 1 / (1 + slack):
        return 1
    if speed["kind"] == "not_measured":
        return UNTESTABLE if bisect else 3
    if speed["kind"] == "inconclusive":
        return UNTESTABLE if bisect else 4 if strict else 0
    return 0


# --- the report ---


def _tell(told: Mapping[str, Any]) -> None:
    speed, correct, figures = told["speed"], told["correctness"], told["static"]
    typer.echo(f"{headline(speed)}; {_correctness(correct)}")
    if speed.get("reason"):
        next_step = speed.get("next_step")
        typer.echo(f"  {speed['reason']}" + (f"; next: {next_step}" if next_step else ""))
    typer.echo(f"  {told['launch']}")
    _tell_race(speed, told["conditions"])
    names = ("registers", "spill_stores", "spill_loads", "stack_bytes", "shared_bytes", "blocks_per_sm", "instructions")
    for name in names:
        old, new = (figures[one][name] for one in "ab")
        if not (old == new == 0):
            typer.echo(f"  {name.replace('_', ' '):14}{_figure(old):>8} {_figure(new):>8}" + _delta(old, new))
    if figures["opcodes"]:
        moved = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in figures["opcodes"].items())
        typer.echo(f"  opcodes: {moved}")
    for name in "ab":
        one = figures[name]
        notes = f" ({'; '.join(one['notes'])})" if one["notes"] else ""
        typer.echo(f"  {name.upper()}: {one['path']}, {one['made_by']}, sha256 {one['cubin_sha256'][:16]}{notes}")
    if correct.get("deviation"):
        typer.echo(f"  deviation: {correct['deviation']}")
    if "sanitizer" in told:
        from hybridcc.contest_sanitize import lines

        for line in lines(told["sanitizer"]):
            typer.echo(f"  {line}")
    sets = len(correct["inputs"]) if "inputs" in correct else len(told["inputs_to_compare"])
    typer.echo(f"  outputs {'compared' if 'inputs' in correct else 'to be compared'} on {sets} sets of values")
    if told["generated"]:
        typer.echo("  values and sizes were made from the kernel's types; --arg gives those that matter")


def headline(speed: Mapping[str, Any]) -> str:
    word = speed["kind"].replace("_", " ").upper()
    if not speed.get("ratio"):
        return word
    interval = speed.get("interval")
    spread = f" [{interval[0]:.3f}, {interval[1]:.3f}] at {speed['confidence']:.1%}" if interval else ""
    return f"{word} {speed['ratio']:.3f}x{spread}"


def _correctness(correct: Mapping[str, Any]) -> str:
    match correct["verdict"]:
        case "refuted":
            return correct.get("how", "B LEAVES OTHER BITS THAN A")
        case "tested":
            return f"outputs equal bit for bit in {correct['compared_launches']} launches"
        case "proved":
            return "one program"
        case _:
            return "outputs not compared"


def _tell_race(speed: Mapping[str, Any], conditions: Mapping[str, Any]) -> None:
    if speed.get("baseline_us"):
        times = f"A {speed['baseline_us']:.2f} us, B {speed['variant_us']:.2f} us"
        typer.echo(f"  {times} (medians of {speed['blocks']} blocks)")
    if speed.get("noise_floor") is not None:
        control = speed["control"]
        typer.echo(f"  A against itself: {headline(control)}, noise floor {speed['noise_floor']:.2%}")
    if speed.get("discarded"):
        typer.echo(f"  blocks left out: {', '.join(f'{why} {n}x' for why, n in speed['discarded'].items())}")
    if conditions:
        device, mhz = conditions["device"], conditions.get("sm_mhz")
        clock = f", SM clock {mhz[0]:.0f} to {mhz[2]:.0f} MHz, median {mhz[1]:.0f}" if mhz else ""
        typer.echo(f"  on {device['name']} ({device['arch']}, CUDA {device['driver']}){clock}")
        policy = conditions.get("facts", {}).get("l2", "not known")
        typer.echo(f"  L2: {policy}; {conditions.get('samples', 0)} samples")


def _figure(value: int | None) -> str:
    return "?" if value is None else str(value)


def _delta(old: int | None, new: int | None) -> str:
    return "" if old is None or new is None or old == new else f"  {new - old:+d}"
