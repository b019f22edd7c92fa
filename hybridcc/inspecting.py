"""A bundle's checks once more, from its files alone: what holds, what does not, and what could not be repeated here."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from hybridcc.errors import HybridccError
from hybridcc.passes.facts_data import from_data
from hybridcc.passes.kernel import Kernel
from hybridcc.records import BASELINE
from hybridcc.retuning import assembler_of, kernel_of
from hybridcc.runtime.bundle import LOG, MANIFEST, Bundle, sha256

State = Literal["holds", "fails", "not_repeated"]
Data = Mapping[str, Any]

SELECTABLE: Final = {"proved": ("proved",), "tested": ("proved", "tested")}
"""The verdicts that each policy accepts for a selected variant."""


@dataclass(frozen=True, slots=True)
class Check:
    """``what`` is files, answers, selection, assembly, proof, tests or counterexample; ``where`` a file or variant."""

    what: str
    where: str
    state: State
    detail: str = ""


def check(bundle: Bundle, progress: Callable[[str], None] = lambda message: None) -> Iterator[Check]:
    """Raises InputError, with the file's name, for one that is missing, truncated or altered."""
    for name in bundle.manifest["files"]:
        bundle.read(name)
    yield Check("files", str(bundle.folder), "holds", f"{len(bundle.manifest['files'])} files have their hashes")
    yield from _foreign(bundle)
    yield from _answers(bundle)
    for entry in bundle.manifest["architectures"]:
        arch = entry["arch"]
        yield _selection(bundle, entry)
        for name, data in _variants(entry):
            progress(f"{bundle.name} {arch}: {name}")
            if data["machine"] is not None:
                yield _assembly(bundle, arch, name, data)
            if name != BASELINE and data["verdict"] is not None:
                yield _verdict(bundle, entry, name, data)


def _variants(entry: Data) -> Iterator[tuple[str, Data]]:
    yield BASELINE, entry["baseline"]
    for each in entry["candidates"]:
        yield each["name"], each


def _foreign(bundle: Bundle) -> Iterator[Check]:
    if not bundle.folder.is_dir():
        return
    known = {MANIFEST, LOG, *bundle.manifest["files"]}
    for path in sorted(bundle.folder.rglob("*")):
        name = path.relative_to(bundle.folder).as_posix()
        if path.is_file() and name not in known:
            yield Check("files", name, "fails", "no build wrote it")


def _answers(bundle: Bundle) -> Iterator[Check]:
    """The answers that the manifest names are those that lie beside it."""
    prompts = bundle.manifest["prompts"]
    if not prompts:
        return
    lines = [json.loads(line) for line in bundle.read("prompts.jsonl").decode().split("\n") if line]
    held = [(line["prompt_hash"], sha256(line["prompt"]), [sha256(a) for a in line["answers"]]) for line in lines]
    named = [(each["hash"], each["hash"], each["answers"]) for each in prompts]
    same = held == named
    yield Check("answers", "prompts.jsonl", "holds" if same else "fails", "" if same else "other prompts or answers")


def _selection(bundle: Bundle, entry: Data) -> Check:
    arch, chosen = entry["arch"], entry["selection"]["variant"]
    where = f"selected.{arch}.cubin"
    if bundle.cubin(arch) != bundle.cubin(arch, chosen):
        return Check("selection", where, "fails", f"it is not the cubin of {chosen}")
    if chosen == BASELINE:
        return Check("selection", where, "holds", BASELINE)
    data = next(each for each in entry["candidates"] if each["name"] == chosen)
    policy = bundle.manifest["policy"]["accept"]
    kind = (data["verdict"] or {}).get("kind")
    if kind not in SELECTABLE[policy]:
        return Check("selection", where, "fails", f"{chosen} is {kind}, and the policy accepts {policy}")
    return Check("selection", where, "holds", f"{chosen}, {kind}")


def _assembly(bundle: Bundle, arch: str, name: str, data: Data) -> Check:
    """The same PTX, assembler and flags give the same bytes."""
    from hybridcc.runtime.assemble import assemble, identity

    where = f"{name}.{arch}.cubin"
    made_by = assembler_of(data)
    try:
        here = identity(made_by.name, made_by.flags)
        if here != made_by:
            return Check("assembly", where, "not_repeated", f"made by {made_by}, here is {here}")
        own = bundle.ptx(arch, name)
        if sha256(own) != data["ptx_sha256"]:
            return Check("assembly", where, "fails", "the manifest has the hash of other PTX")
        again = assemble(own, arch, made_by.name, made_by.flags, name=f"{name}.{arch}.ptx")
    except HybridccError as error:
        return Check("assembly", where, "not_repeated", error.what.splitlines()[0])
    if again.bytes != bundle.cubin(arch, name):
        return Check("assembly", where, "fails", f"{made_by} makes another cubin of {name}.{arch}.ptx")
    return Check("assembly", where, "holds", str(made_by))


def _verdict(bundle: Bundle, entry: Data, name: str, data: Data) -> Check:
    arch, kind = entry["arch"], data["verdict"]["kind"]
    where = f"{arch} {name}"
    try:
        kernel = _kernel(bundle, arch)
        match kind:
            case "proved":
                return _proof(bundle, kernel, name, data, where)
            case "tested" | "refuted":
                return _execution(bundle, kernel, name, data, where)
            case _:
                return Check("tests", where, "not_repeated", f"{kind}: nothing was established")
    except HybridccError as error:
        return Check("tests", where, "not_repeated", error.what.splitlines()[0])


def _proof(bundle: Bundle, kernel: Kernel, name: str, data: Data, where: str) -> Check:
    """The certificate, by the checker and the other solver. One certificate serves all architectures whose kernels are
    the same up to names and header; it was found on one of them."""
    from hybridcc.passes.verdict import Proved
    from hybridcc.passes.verify.proving import recheck

    document = data["verdict"]["certificate"]
    refused = ""
    for home, twin in _with_certificate(bundle, document):
        base = _kernel(bundle, home)
        found = recheck(document, base.ptx, bundle.ptx(home, twin), base.entry, base.facts)
        if not isinstance(found, Proved):
            refused = refused or getattr(found, "reason", str(found))
            continue
        solver = json.loads(found.certificate)["solver"]
        if home == kernel.arch and twin == name:
            return Check("proof", where, "holds", f"its certificate was checked by {solver}")
        if _same(kernel, bundle.ptx(kernel.arch, name), base, bundle.ptx(home, twin)):
            return Check("proof", where, "holds", f"up to names and header that of {home} {twin}, checked by {solver}")
    return Check("proof", where, "fails" if "refused" in refused else "not_repeated", refused)


def _with_certificate(bundle: Bundle, document: str) -> Iterator[tuple[str, str]]:
    for entry in bundle.manifest["architectures"]:
        for each in entry["candidates"]:
            if each["verdict"] is not None and each["verdict"].get("certificate") == document:
                yield entry["arch"], each["name"]


def _same(kernel: Kernel, candidate: str, other: Kernel, others_candidate: str) -> bool:
    from hybridcc.ptx import parse
    from hybridcc.ptx.canonical import canonical_key

    pairs = ((kernel.ptx, other.ptx), (candidate, others_candidate))
    keys = [(canonical_key(parse(a), kernel.entry), canonical_key(parse(b), other.entry)) for a, b in pairs]
    return kernel.facts == other.facts and all(a == b for a, b in keys)


def _kernel(bundle: Bundle, arch: str) -> Kernel:
    facts = tuple(from_data(each) for each in bundle.entry(arch).get("facts", ()))
    return replace(kernel_of(bundle, arch), facts=facts)


def _execution(bundle: Bundle, kernel: Kernel, name: str, data: Data, where: str) -> Check:
    """The tests on the inputs that the seed makes, or the launch that refuted."""
    from hybridcc.passes.verdict import Refuted, Tested
    from hybridcc.passes.verify.reference import reference_for
    from hybridcc.passes.verify.testing import examine

    candidate = bundle.ptx(kernel.arch, name)
    refuted = f"{name}.{kernel.arch}.counterexample.npz"
    if data["verdict"]["kind"] == "refuted":
        if refuted not in bundle.manifest["files"]:
            return Check("counterexample", where, "not_repeated", "the launch that refuted it is not kept")
        found = examine(reference_for(kernel, [_launch(bundle, kernel, refuted)]), candidate).verdict
        if isinstance(found, Refuted):
            return Check("counterexample", where, "holds", "the launch that is kept tells the two apart")
        return Check("counterexample", where, "fails", "the launch that is kept does not tell the two apart")
    origin = data["evidence"]["origin"]
    if origin != "types":
        return Check("tests", where, "not_repeated", "its inputs came from launches that are not kept")
    found = examine(reference_for(kernel, seed=bundle.manifest["policy"]["seed"]), candidate).verdict
    if isinstance(found, Tested):
        return Check("tests", where, "holds", f"equal on {found.inputs} launches")
    return Check("tests", where, "fails" if isinstance(found, Refuted) else "not_repeated", str(found))


def _launch(bundle: Bundle, kernel: Kernel, name: str) -> Any:
    from hybridcc.passes.verify import examples

    with tempfile.TemporaryDirectory(prefix="hybridcc-") as folder:
        place = Path(folder, "launch.npz")
        place.write_bytes(bundle.read(name))
        (launch,) = examples.from_file(place, kernel)
        return launch

