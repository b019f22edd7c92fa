"""``hybridcc tune``: the variants in a bundle raced on this machine, and the selection kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def tune(
    place: Annotated[Path, typer.Argument(help="A bundle (a folder or a .zip), or a folder of bundles.")],
    inputs: Annotated[str, typer.Option(help=".py or .npz with the launch to race on, as `build` takes it.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Leave the bundle alone; write a file for hybridcc.load(selections=…)."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="The most that a race may take.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the race's schedule.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the selections with their speeds as JSON.")] = False,
) -> None:
    """Race what a bundle holds on this machine's GPU; write its selection back, or with -o to a file of its own."""
    import time
    from dataclasses import asdict

    from hybridcc.cli.console import progress_line
    from hybridcc.errors import NoBinary
    from hybridcc.loading import bundles_in
    from hybridcc.passes.verify import examples
    from hybridcc.retuning import keep, kernel_of, retune, written_back
    from hybridcc.runtime import device as devices
    from hybridcc.speeds import race_text

    device = devices.current()
    told: list[dict[str, Any]] = []
    for bundle in bundles_in(place):
        chosen, _ = bundle.for_device(device.capability, "baseline")
        if chosen.kind != "cubin" or not chosen.exact:
            raise NoBinary(
                f"holds no code of {device.name}'s own capability (it holds {', '.join(bundle.architectures)})",
                where=str(bundle.folder),
                next_step=f"build again with --arch {device.arch}",
            )
        launch = examples.from_file(inputs, kernel_of(bundle, chosen.arch))[0]
        with progress_line() as progress:
            tuned = retune(bundle, chosen.arch, launch, device, budget_s=seconds, seed=seed, progress=progress)
        if out is not None:
            keep(out, bundle, tuned)
        else:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            written_back(bundle, tuned, {"tuned": now, "on": device.name})
        speeds = {c.name: asdict(c.speed) for c in tuned.candidates}
        selection = asdict(tuned.selection)
        told.append({"kernel": bundle.name, "arch": chosen.arch, "selection": selection, "speeds": speeds})
        if not as_json:
            typer.echo(f"{bundle.name} {chosen.arch}: {tuned.selection.reason}\n{race_text(tuned.race)}")
    if as_json:
        from hybridcc.runtime.bundle import to_json

        typer.echo(to_json({"kernels": told}), nl=False)
