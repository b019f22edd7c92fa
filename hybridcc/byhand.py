"""Rewrites by hand: a region as a file to edit, and the file back through every check.

The file begins with comments that say where the region comes from; what follows them is the rewrite, at first the
region's own text. Editing it and trying it again is all there is to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hybridcc.asking import body_of, regions_of
from hybridcc.errors import InputError
from hybridcc.records import Accept, Budget, CandidateRecord, KernelRecord

if TYPE_CHECKING:
    from hybridcc.passes.kernel import Kernel
    from hybridcc.passes.regions import Port, Region
    from hybridcc.passes.rewrite import Answer, Prompt
    from hybridcc.work import Progress

BODY = "body"
MARK = "// hybridcc region"
_FIELDS = ("target", "signature", "entry", "arch", "region", "key")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a region file comes from: the target as `hybridcc build` takes it, and which region of which kernel."""

    target: str
    signature: str
    entry: str
    arch: str
    region: str
    key: str


def region_of(kernel: Kernel, name: str) -> Region:
    """The region of this name (r0, r1, …, or ``body``). Raises InputError for one that is not there or that may not
    be rewritten."""
    found = body_of(kernel) if name == BODY else regions_of(kernel, most=1 << 16)
    chosen = next((region for region in found if region.id == name), None)
    if chosen is None:
        known = ", ".join(region.id for region in found) or "none"
        raise InputError(f"{kernel.name} has no region {name}", next_step=f"name one of: {known}, {BODY}")
    if chosen.ineligible is not None:
        raise InputError(
            f"region {name} of {kernel.name} may not be rewritten: {chosen.ineligible}",
            next_step="`hybridcc regions` lists those that may",
        )
    return chosen


def text_of(origin: Origin, region: Region, body: str = "", note: str = "") -> str:
    """The file: origin, interface and facts as comments, then ``body``, or the region's own text without one."""
    lines = [MARK, *(f"// {name}: {getattr(origin, name)}" for name in _FIELDS if getattr(origin, name))]
    for title, stem, ports in (("in", "%in", region.live_in), ("out", "%out", region.live_out)):
        lines += [f"// {title}: {_port(stem, k, port)}" for k, port in enumerate(ports)]
    lines += [f"// effects: {region.effects}"]
    lines += [f"// fact: {fact}  [{fact.origin.value}]" for fact in region.facts]
    lines += [f"// {line}" for line in note.splitlines()]
    text = "\n".join([*lines, "", body.rstrip("\n") or region.text.rstrip("\n"), ""])
    return text.encode("ascii", "backslashreplace").decode("ascii")


def read(path: str | Path) -> tuple[Origin, str]:
    """(where it comes from, the whole text). Raises InputError for a file that `hybridcc region` did not write."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path), next_step="check the path") from error
    values = dict.fromkeys(_FIELDS, "")
    for line in text.splitlines():
        name, colon, value = line.removeprefix("// ").partition(": ")
        if line.startswith("// ") and colon and name in values and not values[name]:
            values[name] = value.strip()
    if MARK not in text or not values["target"] or not values["region"] or not values["arch"]:
        raise InputError(
            "does not say which region it is of", where=str(path), next_step="make it with `hybridcc region TARGET`"
        )
    return Origin(**values), text


def answer_in(folder: str | Path, candidate: str) -> tuple[str, str]:
    """(an answer's text, what became of it) of a bundle. Raises InputError for a candidate that it does not hold."""
    import json

    from hybridcc.runtime import bundle

    found = bundle.load(folder)
    for entry in found.manifest["architectures"]:
        for each in entry["candidates"]:
            if each["name"] == candidate:
                fate = each["fate"]
                told = each["verdict"]["text"] if each["verdict"] else fate["detail"]
                for line in found.read("prompts.jsonl").decode().split("\n"):
                    exchange = json.loads(line) if line else {"answers": ()}
                    for answer in exchange["answers"]:
                        if bundle.sha256(answer) == each["answer_sha256"]:
                            return answer, f"{candidate} was: {fate['code']}: {told}\n{each['explanation']}"
    raise InputError(
        f"holds no candidate {candidate}", where=str(folder), next_step="see manifest.json for those it holds"
    )


def attempt_region(
    path: str | Path, *, accept: Accept = "proved", inputs: str | None = None, seed: int = 0,
    dump_stages: Path | None = None, progress: Progress = lambda message: None,
) -> tuple[KernelRecord, CandidateRecord]:  # fmt: skip
    """A region file through every check, and raced where there is a device for its architecture.

    Raises InputError where the file or its target cannot be used, or the target's region is no longer the one that
    the file was made of.
    """
    from hybridcc.building import launches_of
    from hybridcc.pipeline import optimize
    from hybridcc.racing import race_here
    from hybridcc.sources import load
    from hybridcc.work import Options

    origin, text = read(path)
    source = load(origin.target, [origin.arch], signature=origin.signature or None, entry=origin.entry or None)[0]
    region = region_of(source.kernels[0], origin.region)
    if origin.key and region.key != origin.key:
        raise InputError(
            f"{origin.region} of {origin.target} is no longer the region that this was made of",
            where=str(path),
            next_step="make the file again with `hybridcc region`",
        )
    launches = launches_of(source, inputs)
    options = Options(
        accept, "proved", f"by hand: {Path(path).name}", answers=1, regions=1 << 16, seed=seed,
        budget=Budget(rounds=0), body=origin.region == BODY,
    )  # fmt: skip
    record = optimize(
        source.kernels, options, ByHand(region.key, text), launches, progress, (), race_here(launches, progress, seed)
    )
    if dump_stages is not None:
        from hybridcc.stages import dump

        dump(dump_stages, source.kernels, record, options)
    (candidate,) = record.architectures[0].candidates
    return record, candidate


@dataclass(frozen=True, slots=True)
class ByHand:
    """A rewriter that has one answer, to one region."""

    key: str
    text: str
    label: str = "by hand"

    def propose(self, prompt: Prompt, *, count: int, seed: int) -> tuple[Answer, ...]:
        from hybridcc.passes.rewrite import Answer

        return (Answer(self.text, self.label),) if prompt.region == self.key else ()


def _port(stem: str, number: int, port: Port) -> str:
    note = f"  {port.origin_note}" if port.origin_note else ""
    return f"{stem}{number} {port.type}{note}{'  (the same in every thread of the block)' if port.uniform else ''}"
