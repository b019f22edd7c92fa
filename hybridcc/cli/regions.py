"""``hybridcc regions``: which parts of a target are hot, and what is known about each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hybridcc.passes.regions import Region


def regions(
    target: Annotated[str, typer.Argument(help="A .py, .ptx, .mlir, .ll, .bc or .cu file; file:name picks one.")],
    arch: Annotated[str, typer.Option(help="Architecture to compile for.")] = "sm_80",
    signature: Annotated[str | None, typer.Option(help="Types for a plain function.")] = None,
    entry: Annotated[str | None, typer.Option(help="Which kernel of the file.")] = None,
    text: Annotated[bool, typer.Option("--text", help="Print each region's canonical PTX too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """List the regions of a target, hottest first, with their facts."""
    from hybridcc.passes.regions import find
    from hybridcc.sources import load

    found = [(s.name, find(s.kernels[0])) for s in load(target, [arch], signature=signature, entry=entry)]
    if as_json:
        from hybridcc.runtime.bundle import to_json

        data = [{"kernel": name, "regions": [_data(region) for region in regions]} for name, regions in found]
        typer.echo(to_json(data), nl=False)
        return
    for name, regions in found:
        typer.echo(f"{name}: {len(regions) or 'no'} region{'s' if len(regions) != 1 else ''}")
        for region in regions:
            _tell(region, text)


def _tell(region: Region, text: bool) -> None:
    share = f"{100 * region.share:.0f} % of the estimate"
    typer.echo(f"  {region.id}: {region.weight}, {share}, {len(region.blocks)} blocks; effects: {region.effects}")
    if region.ineligible is not None:
        typer.echo(f"    not rewritable: {region.ineligible}")
    for title, ports in (("in", region.live_in), ("out", region.live_out)):
        for index, port in enumerate(ports):
            note = f"  {port.origin_note}" if port.origin_note else ""
            typer.echo(f"    %{title}{index} {port.type}{note}")
    for fact in region.facts:
        typer.echo(f"    {fact}  [{fact.origin}]")
    if text and region.text:
        typer.echo("".join(f"    | {line}\n" for line in region.text.splitlines()), nl=False)


def _data(region: Region) -> dict[str, Any]:
    def ports(given: Any) -> list[dict[str, Any]]:
        return [{"type": p.type, "note": p.origin_note, "uniform": p.uniform} for p in given]

    return {
        "id": region.id,
        "weight": region.weight,
        "share": region.share,
        "blocks": len(region.blocks),
        "loop_depth": region.loop_depth,
        "in": ports(region.live_in),
        "out": ports(region.live_out),
        "effects": str(region.effects),
        "facts": [{"fact": str(fact), "origin": str(fact.origin)} for fact in region.facts],
        "ineligible": None if region.ineligible is None else str(region.ineligible),
        "key": region.key,
        "text": region.text,
    }
