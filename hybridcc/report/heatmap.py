"""A kernel's PTX as one page, each line tinted by what its block costs. No network, no script."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hybridcc.profiling import Profiled


@dataclass(frozen=True, slots=True)
class Line:
    """``heat`` is an opacity, 0 to 0.8; ``count`` is empty for what is no instruction."""

    text: str
    count: str
    heat: str
    region: str


def page(found: Profiled) -> str:
    """The page for the most trusted profile that was taken."""
    import jinja2

    from hybridcc.runtime.profiling import REPEATS

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    best = found.best
    regions = [
        {
            "id": one.region.id,
            "share": f"{100 * one.share:.1f} %",
            "bound": f"{one.bound:.2f}x" if one.bound < 100 else "no bound",
            "limiter": one.limiter.value,
            "line": one.line,
            "skipped": one.skipped,
        }
        for one in found.hot
    ]
    return environment.get_template("heatmap.html.j2").render(
        kernel=found.kernel.name,
        arch=found.kernel.arch,
        origin=best.origin,
        taken_at=best.taken_at,
        seconds="" if found.measured is None else f"{1e6 * found.measured.seconds:.1f} us",
        repeats=REPEATS,
        regions=regions,
        notes=(*best.notes, *found.failures, *found.disagreements),
        lines=_lines(found),
    )


def _lines(found: Profiled) -> list[Line]:
    from hybridcc.passes.analysis import cfg as cfg_module
    from hybridcc.passes.regions.find import entry_of
    from hybridcc.passes.splice.reading import flatten
    from hybridcc.ptx import parse
    from hybridcc.ptx.nodes import Instruction
    from hybridcc.ptx.printer import print_statement

    module = parse(found.kernel.ptx, found.kernel.name)
    function = entry_of(module, found.kernel.entry)
    cfg = cfg_module.build(function, module)
    counts, weights = found.best.counts_in(cfg), found.best.weights(cfg)
    hottest = max(weights, default=0.0) or 1.0
    inside = {i: one.region.id for one in reversed(found.hot) for i in one.region.statements}
    assert function.body is not None
    lines: list[Line] = []
    for index, statement in enumerate(flatten(function.body.statements)):
        block = cfg.block_of(index)
        shown = isinstance(statement, Instruction)
        heat = 0.8 * weights[block] / hottest if shown else 0.0
        count = f"{counts[block]:,.0f}" if shown else ""
        lines.append(Line(print_statement(statement), count, f"{heat:.3f}", inside.get(index, "")))
    return lines
