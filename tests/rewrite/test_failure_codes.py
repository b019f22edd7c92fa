"""A wrong answer is caught by the cheapest check that can catch it: what comes after that check never sees it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hybridcc import judging, sources
from hybridcc.asking import regions_of
from hybridcc.lessons import lesson_of
from hybridcc.passes.kernel import Kernel
from hybridcc.passes.regions import Region
from hybridcc.passes.rewrite.extract import MOST_CHARACTERS
from hybridcc.passes.rewrite.rejection import NEXT_STEPS
from hybridcc.passes.splice import splice
from hybridcc.passes.verdict import Tested
from hybridcc.passes.verify.testing import Examination
from hybridcc.pipeline import Options, optimize
from hybridcc.records import PENDING, Budget, CandidateRecord, Fate, Machine, Speed
from tests.build.test_whole_path import KERNEL, SIGNATURE, pointer_walk
from tests.rewrite.test_feedback import Scripted

RIGHT = pointer_walk(4)
BARRIERS = """
from numba import cuda, float32

def exchange(x, y):
    shared = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s = float32(0)
    for k in range(x.shape[0]):
        shared[t] = x[k]
        cuda.syncthreads()
        s += shared[127 - t]
        cuda.syncthreads()
    y[t] = s
"""


def changed(old: str, new: str) -> str:
    assert old in RIGHT, old
    return RIGHT.replace(old, new, 1)


def held(count: int) -> str:
    """Every loaded value is used twice, so that all of them stay in registers."""
    text = pointer_walk(count)
    uses = [line for line in text.splitlines() if line.startswith("fma")][:count]
    return text.replace(uses[-1], "\n".join([uses[-1], *uses]), 1)


LOAD, ADD = "ld.global.f32 %a0, [%px+0];", "fma.rn.f32 %out0, %a0, %b0, %out0;"
HUGE = "setp.eq.s64 %p, %in0, 987654321;\n@!%p bra $USUAL;\nmov.f32 %out0, 0f00000000;\n$USUAL:\n```"

ANSWER = {
    "CUT_OFF": RIGHT.rstrip().removesuffix("```"),
    "NO_CODE": "```ptx\n```",
    "TOO_LARGE": changed("$MAIN:", "add.s64 %px, %px, 0;\n" * (MOST_CHARACTERS // 20) + "$MAIN:"),
    "NOT_ASCII": changed("%n, -4", "%n, \u22124"),
    "SYNTAX": "I would unroll the loop.",
    "UNKNOWN_STATEMENT": changed(LOAD, "ld.global.f32 %a0, <%px>;"),
    "UNKNOWN_OPCODE": changed(LOAD, "fetch.global.f32 %a0, [%px];"),
    "ARCHITECTURE": changed("$MAIN:", "$MAIN: setmaxnreg.inc.sync.aligned.u32 64;"),
    "DIRECTIVE": changed("$MAIN:", ".maxnreg 16;\n$MAIN:"),
    "VARIABLE": changed("$MAIN:", ".shared .align 4 .b8 room[1024];\n$MAIN:"),
    "INDIRECT": changed("@%p bra $REST;", "brx.idx %n, table;"),
    "CALL": changed("$MAIN:", "call.uni malloc;\n$MAIN:"),
    "LEAVES": changed("$DONE:", "$DONE: ret;"),
    "CLOCK": changed("mov.b64 %n, %in0;", "mov.u64 %n, %clock64;"),
    "STATE_SPACE": changed(LOAD, "ld.shared.f32 %a0, [%px];"),
    "RESERVED_NAME": changed(".reg .pred %p;", ".reg .pred %p;\n.reg .b64 %tid;"),
    "NON_COHERENT": changed(LOAD, "ld.global.nc.f32 %a0, [%px];"),
    "LOWER_PRECISION": changed(ADD, "fma.rn.f16x2 %n, %n, %n, %n;"),
    "APPROXIMATION": changed(ADD, "sqrt.approx.f32 %out0, %a0;"),
    "ROUNDING": changed(ADD, ADD.replace(".rn", ".rz")),
    "FLUSHING": changed(ADD, ADD.replace(".rn", ".rn.ftz")),
    "EDIT": "```ptx\n// edit: pad tile by 4\n" + RIGHT.removeprefix("```ptx\n"),
    "CONTRACTION": changed(ADD, "mul.f32 %a0, %a0, %b0;\nadd.f32 %out0, %out0, %a0;"),
}
SPLICE = {
    "VECTOR_REGISTER": changed(".reg .pred %p;", ".reg .pred %p;\n.reg .v2 .b32 %v;"),
    "PORT_DECLARED": changed(".reg .pred %p;", ".reg .pred %p;\n.reg .b64 %in0;"),
    "DUPLICATE_NAME": changed(".reg .pred %p;", ".reg .pred %p, %p;"),
    "UNKNOWN_PORT": changed("mov.b64 %n, %in0;", "mov.b64 %n, %in77;"),
    "UNDECLARED": changed(".reg .pred %p;\n", ""),
    "REGISTER_CLASS": changed("mov.b64 %n, %in0;", "add.s64 %n, %out0, %in0;"),
    "READ_BEFORE_WRITE": changed("mov.b64 %n, %in0;\n", ""),
    "OUT_NOT_WRITTEN": "```ptx\n.reg .b64 %n;\nmov.b64 %n, %in0;\n```",
    "NO_EXIT": changed("$DONE:", "$DONE:\nbra $DONE;"),
    "EFFECT_COUNT": changed("$DONE:", "bar.sync 0;\n$DONE:"),
    "GUARD": "```ptx\n// guard: %in0 >= \n" + RIGHT.removeprefix("```ptx\n"),
    "EDIT_UNKNOWN": "```ptx\n// edit: pad tile row 128->132\n" + RIGHT.removeprefix("```ptx\n"),
    "NESTING": "```ptx\n" + "{" * 600 + "}" * 600 + RIGHT.removeprefix("```ptx\n"),
}
ASSEMBLE = {
    "ASSEMBLY": changed("mov.f32 %out0, 0f00000000;", "mov.f32 %out0, 0;"),
    "LAUNCH_LIMIT": held(96),
}
EXECUTE = {
    "REFUTED": pointer_walk(4, last=1),
    "UNKNOWN": pointer_walk(5).rstrip().removesuffix("```") + HUGE,
}


@dataclass
class Stages:
    """Which candidates each later stage was given."""

    assembled: list[str] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    raced: list[str] = field(default_factory=list)


def run(
    path: Path, signature: str, answers: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[int, Fate], Stages, tuple[CandidateRecord, ...]]:
    stages = Stages()
    assemble, verify = judging._assemble, judging._verify

    def assembling(kernel, baseline, text, name, options):
        stages.assembled.append(name)
        return assemble(kernel, baseline, text, name, options)

    def verifying(kernel, name, text, rewritten, work):
        stages.executed.append(name)
        return verify(kernel, name, text, rewritten, work)

    def racing(kernel: Kernel, baseline: Machine, candidates: Sequence[CandidateRecord]) -> Mapping[str, Speed]:
        stages.raced += [c.name for c in candidates]
        return {}

    monkeypatch.setattr(judging, "_assemble", assembling)
    monkeypatch.setattr(judging, "_verify", verifying)
    (source,) = sources.load(str(path), ["sm_80"], signature=signature)
    options = Options("tested", answers=len(answers), regions=1, launches=12, budget=Budget(rounds=0, samples=200))
    record = optimize(source.kernels, options, Scripted(tuple(answers)), race=racing)
    candidates = record.architectures[0].candidates
    return {int(c.name.rpartition("-")[2]): c.fate for c in candidates}, stages, candidates


def region_of(path: Path, signature: str) -> Region:
    (source,) = sources.load(str(path), ["sm_80"], signature=signature)
    return next(r for r in regions_of(source.kernels[0]) if r.eligible)


def test_the_cheapest_check_catches_it_and_nothing_dearer_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "conv1d.py"
    path.write_text(KERNEL)
    text = region_of(path, SIGNATURE).text
    unchanged = {"NO_EFFECT": text, "SASS_UNCHANGED": re.sub(r"%t(\d+)\b", r"%mine\1", text)}
    copy = {"right": RIGHT, "DUPLICATE": RIGHT.replace("%off", "%bytes")}
    cases = [
        (code, answer)
        for table in (ANSWER, SPLICE, ASSEMBLE, EXECUTE, unchanged, copy)
        for code, answer in table.items()
    ]
    fates, stages, candidates = run(path, SIGNATURE, [answer for _, answer in cases], monkeypatch)
    assert {code: fates[k].code for k, (code, _) in enumerate(cases) if code != "right"} == {
        code: code for code, _ in cases if code != "right"
    }
    names = {code: f"r0-{k}" for k, (code, _) in enumerate(cases)}
    before_assembly = {*ANSWER, *SPLICE, "NO_EFFECT", "DUPLICATE"}
    assert not {names[code] for code in before_assembly} & set(stages.assembled)
    assert not {names[code] for code in (*ASSEMBLE, "SASS_UNCHANGED")} & set(stages.executed)
    assert stages.raced == [names["right"]], "a wrong answer never reaches the GPU"
    records = {c.name: c for c in candidates}
    for code in (*ANSWER, *SPLICE, *ASSEMBLE):
        fate = records[names[code]].fate
        stage = "answer" if code in ANSWER else "splice" if code in SPLICE else "assemble"
        assert fate.detail.startswith(f"{stage}: "), (code, fate.detail)


def with_pointer_stored(text: str) -> str:
    """The address of the shared array goes to memory."""
    store = next(line for line in text.splitlines() if "st.shared" in line)
    (address,) = re.findall(r"\[(%\w+)", store)
    return text.replace(store, f"  st.shared.u64 [{address}], {address};\n{store}", 1)


def test_effects_and_spaces_elsewhere_never_reach_the_assembler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, signature = tmp_path / "exchange.py", "exchange(float32[::1], float32[::1])"
    path.write_text(BARRIERS)
    region = region_of(path, signature)
    text = region.text
    barrier = next(line for line in text.splitlines() if "bar" in line and "sync" in line)
    guarded = text.replace(
        barrier, f"  .reg .pred %some;\n  setp.lt.s64 %some, %in0, 5;\n  @%some {barrier.strip()}", 1
    )
    tid = next(k for k, port in enumerate(region.live_in) if not port.uniform)
    load = next(line for line in text.splitlines() if "ld.global" in line)
    shared = next(name for name, v in region.cfg.scoped.variables.items() if v.space == ".shared")
    cases = {
        "WRONG_SPACE": text.replace(load, load.replace("ld.global", "ld.shared"), 1),
        "EFFECT_COUNT": text.replace(barrier + "\n", "", 1),
        "EFFECT_ORDER": text.replace(barrier, "  .reg .b32 %m;\n  activemask.b32 %m;", 1),
        "EFFECT_MOVED": f"{barrier}\n{text.replace(barrier + chr(10), '', 1)}",
        "CONVERGENCE": guarded,
        "EDIT_ESCAPES": f"// edit: pad {shared} row 64->68\n" + with_pointer_stored(text),
        "EDIT_LIMIT": f"// edit: pad {shared} row 96->100\n{text}",
        "GUARD_NOT_UNIFORM": f"// guard: %in{tid} >= 0\n" + re.sub(r"%t(\d+)\b", r"%mine\1", text),
    }
    fates, stages, _ = run(path, signature, list(cases.values()), monkeypatch)
    found = {code: fates[k].code for k, code in enumerate(cases)}
    assert found == {code: code for code in cases}
    assert not stages.assembled


def test_no_code_is_forgotten() -> None:
    """Of the splicer's, those that the answer check sees first, and those about a place and not about a text, are not
    reached by an answer: tests/splice has them."""
    listed = set(
        re.findall(r"\b[A-Z]{2,}(?:_[A-Z]+)*\b", (sys.modules[splice.__module__].__doc__ or "").partition("SYNTAX")[2])
    )
    seen_first = {"NON_ASCII", "RAW_STATEMENT", "UNKNOWN_OPCODE", "DIRECTIVE", "VARIABLE", "INDIRECT", "CALL", "LEAVES"}
    about_places = {"INELIGIBLE", "OTHER_KERNEL", "SCOPE", "OVERLAP", "NAME_COLLISION", "OUTSIDE_CHANGED"}
    about_places |= {"EDIT_WRONG"}
    seen_first |= {"EDIT"}
    effects = {"EFFECT_ORDER", "EFFECT_MOVED", "CONVERGENCE", "GUARD_NOT_UNIFORM", "EDIT_ESCAPES", "EDIT_LIMIT"}
    assert set(ANSWER) | {"NO_EFFECT"} == set(NEXT_STEPS)
    assert listed - seen_first - about_places - effects - {"JUMP_OUTSIDE"} == set(SPLICE)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("the loop at $L1 has no counterpart", "the prover could not show that it is equal: the loop at $L1"),
        ("timeout: 60 s of wall clock", "it took too long"),
        ("void: the baseline is not proved equal to itself: budget", ""),
    ],
)
def test_what_could_not_be_proved_goes_back_unless_no_rewrite_can_help(reason: str, told: str) -> None:
    evidence = Examination(Tested(9, 9, ("sizes",), 9), 9, (), (), "types", notes=(f"not proved: {reason}",))
    lesson = lesson_of(CandidateRecord("r0-0", "r0", "", "", PENDING, evidence=evidence), "proved")
    assert (lesson is None) == (not told)
    assert told in (lesson.text if lesson else "")
    assert lesson_of(CandidateRecord("r0-0", "r0", "", "", PENDING, evidence=evidence), "tested") is None


def test_faults_of_hybridcc_are_told_to_nobody() -> None:
    for fate in (
        Fate("failed", "INTERNAL", "splice: KeyError: 3"),
        Fate("failed", "TOOLCHAIN", "assemble: no ptxas"),
        Fate("failed", "REFUTED_ON_DEVICE", "y[0] differs"),
        Fate("failed", "EXECUTION", "verify: the baseline faults"),
    ):
        assert lesson_of(CandidateRecord("r0-0", "r0", "", "", fate), "tested") is None
