"""What a race measured, in the records' words and for people."""

from __future__ import annotations

from hybridcc.records import Speed
from hybridcc.runtime.device import Device
from hybridcc.runtime.race import Race
from hybridcc.runtime.race_guards import rates
from hybridcc.runtime.race_statistics import Measurement

NUMBA = "numba"
"""In a race: the very cubin that Numba launches. It may be made by link-time optimisation, where the baseline is the
PTX of the same kernel; a variant must beat both."""


def speed_of(name: str, raced: Race, device: Device) -> Speed:
    """The measurement in the records' words. Never faster than Numba's own code unless it beats that too."""
    if raced.void:
        return Speed("inconclusive", f"{raced.void}; next: {raced.next_step}", device=device.name)
    deviation = next((d for d in raced.deviations if d.contender == name), None)
    if deviation is not None:
        return Speed("inconclusive", "refuted on the device", device=device.name, deviation=deviation.what)
    measured = raced.measurements[name]
    own = raced.measurements.get(NUMBA)
    if measured.kind == "faster" and own is not None and not _beats(measured, own):
        return Speed(
            "same", f"not clearly faster than Numba's own code ({_ratio(own)} of the baseline)", measured.ratio,
            measured.interval, device.name, noise=raced.noise_floor,
        )  # fmt: skip
    reason = f"{measured.reason}; next: {measured.next_step}" if measured.reason else ""
    return Speed(measured.kind, reason, measured.ratio, measured.interval, device.name, noise=raced.noise_floor)


def _beats(measured: Measurement, own: Measurement) -> bool:
    return measured.interval is not None and own.interval is not None and measured.interval[0] > own.interval[1]


def _ratio(measured: Measurement) -> str:
    return "unknown" if measured.ratio is None else f"{measured.ratio:.3f}x"


def race_text(raced: Race) -> str:
    if raced.void:
        return f"  race: {raced.void}"
    lines = [f"  race: {raced.facts.get('l2', '')}; {raced.checks} launches of variants compared bit for bit"]
    if raced.noise_floor is not None:
        lines.append(f"    baseline against itself: within {raced.noise_floor:.2%}")
    for name, m in raced.measurements.items():
        interval = f" [{m.interval[0]:.3f}, {m.interval[1]:.3f}] at {m.confidence:.1%}" if m.interval else ""
        times = f", {m.baseline_us:.1f} to {m.variant_us:.1f} us" if m.baseline_us and m.variant_us else ""
        lines.append(f"    {name}: {m.kind} {_ratio(m)}{interval}{times}, {m.blocks} blocks")
        if raced.guards.get(name):
            lines.append(f"      {rates(raced.guards[name])}")
    left_out = [f"{what} ({why})" for what, why in raced.notes.items() if why]
    also = [what for what, why in raced.notes.items() if not why]
    lines += [f"    compared besides: {', '.join(also)}"] if also else []
    lines += [f"    not compared: {', '.join(left_out)}"] if left_out else []
    return "\n".join(lines)
