"""Guards tested in the kernel: proved with the right one, refused with any that leaves an overlap or a misfit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rewrites import FACTS, base, region_text, spliced_in
from test_small import EXTENT, kernel

from hybridcc.cli.verify import read_facts
from hybridcc.passes.facts import Bytes, Fact, Origin, Parameter, Relation
from hybridcc.passes.verdict import Proved, Verdict
from hybridcc.passes.verify import proving


def verdict(old: str, new: str, facts: tuple[Fact, ...] = ()) -> Verdict:
    return proving.run(proving.Task(kernel(old), kernel(new), "k", facts, (1,)))


# --- one load over one store ----------------------------------------------------------------------------

STORE_FIRST = "st.global.f32 [%a5], 0f3F800000; ld.global.f32 %f0, [%a4]; st.global.f32 [%a5+64], %f0;"
LOAD_FIRST = "ld.global.f32 %f0, [%a4]; st.global.f32 [%a5], 0f3F800000; st.global.f32 [%a5+64], %f0;"


def distances(after: int, before: int, first: str = "%a4", second: str = "%a5") -> str:
    """Fall back unless ``second`` stands ``after`` bytes or more after ``first``, or ``before`` or more before it."""
    return (
        f"sub.s64 %a6, {second}, {first}; setp.lt.u64 %p0, %a6, {after}; @%p0 bra $S;"
        f"sub.s64 %a7, {first}, {second}; setp.lt.u64 %p1, %a7, {before}; @%p1 bra $S;"
    )


ENDS = "add.s64 %a6, %a4, 4; add.s64 %a7, %a5, 4; setp.le.u64 %p0, %a6, %a5; setp.le.u64 %p1, %a7, %a4;"
EITHER = "or.pred %p2, %p0, %p1; @!%p2 bra $S;"
NO_WRAP = "setp.lt.u64 %p3, %a6, %a4; @%p3 bra $S; setp.lt.u64 %p3, %a7, %a5; @%p3 bra $S;"

RIGHT = {
    "the distance on the circle of addresses": distances(4, 4),
    "more room than is needed": distances(16, 4),
    "the end of one is not after the start of the other, and no end wraps": ENDS + NO_WRAP + EITHER,
    "not the same address, and both aligned": "or.b64 %a6, %a4, %a5; and.b64 %a6, %a6, 3; setp.ne.s64 %p0, %a6, 0;"
    "@%p0 bra $S; setp.eq.s64 %p1, %a4, %a5; @%p1 bra $S;",
    "never": "bra $S;",
    "two signed distances, of which one is negative": distances(4, 4).replace(".lt.u64", ".lt.s64"),
}
WRONG = {
    "no guard": "",
    "one byte short after": distances(3, 4),
    "one byte short before": distances(4, 3),
    "only one side": "sub.s64 %a6, %a5, %a4; setp.lt.u64 %p0, %a6, 4; @%p0 bra $S;",
    "an end that may wrap": ENDS + EITHER,
    "an end that may wrap on one side": ENDS + "setp.lt.u64 %p3, %a6, %a4; @%p3 bra $S;" + EITHER,
    "another pointer": distances(4, 4, "%a4", "%a2"),
    "a pointer before the index": distances(4, 4, "%a0", "%a5"),
    "the low half of the distance": "sub.s64 %a6, %a5, %a4; cvt.u32.u64 %r4, %a6; setp.eq.u32 %p0, %r4, 0; @%p0 bra $S;"
    "or.b64 %a6, %a4, %a5; and.b64 %a6, %a6, 1; setp.ne.s64 %p0, %a6, 0; @%p0 bra $S;",
    "not the same address, aligned to two": "or.b64 %a6, %a4, %a5; and.b64 %a6, %a6, 1; setp.ne.s64 %p0, %a6, 0;"
    "@%p0 bra $S; setp.eq.s64 %p1, %a4, %a5; @%p1 bra $S;",
    "the other way round": distances(4, 4).replace("@%p1 bra $S;", "@!%p1 bra $S;"),
}


def moved(guard: str) -> str:
    return f"{guard} {LOAD_FIRST} ret; $S: {STORE_FIRST}"


@pytest.mark.parametrize("name", RIGHT)
def test_a_load_over_a_store_is_proved_under_a_guard(name: str) -> None:
    found = verdict(STORE_FIRST, moved(RIGHT[name]))
    assert isinstance(found, Proved), found


@pytest.mark.parametrize("name", WRONG)
def test_a_guard_that_leaves_an_overlap_proves_nothing(name: str) -> None:
    assert not isinstance(verdict(STORE_FIRST, moved(WRONG[name])), Proved)


# --- a load out of a loop that stores -------------------------------------------------------------------

TRIP = "add.rn.f32 %f1, %f0, %f0; st.global.f32 [%a7], %f1; add.s64 %a7, %a7, 4; add.s64 %a6, %a6, 1;"
AGAIN = "setp.lt.s64 %p1, %a6, %a2; @%p1 bra"
ENTER = "mov.u64 %a6, 0; mov.u64 %a7, %a1; setp.lt.s64 %p0, %a2, 1;"
EVERY_TRIP = f"{ENTER} @%p0 bra $X; $L: ld.global.f32 %f0, [%a0]; {TRIP} {AGAIN} $L; $X:"
ONCE = f"@%p0 bra $Y; ld.global.f32 %f0, [%a0]; $M: {TRIP} {AGAIN} $M; $Y: ret; $S: {EVERY_TRIP}"


def hoisted(row: str = "shl.b64 %a8, %a2, 2;", after: str = "4", before: str = "%a8", pointer: str = "%a1") -> str:
    tests = (
        f"{row} sub.s64 %a9, {pointer}, %a0; setp.lt.u64 %p2, %a9, {after}; @%p2 bra $S;"
        f"sub.s64 %a10, %a0, {pointer}; setp.lt.u64 %p3, %a10, {before}; @%p3 bra $S;"
    )
    return f"{tests} {ENTER} {ONCE}"


LOOPS = {
    "the whole row": hoisted(),
    "all but its last element, which is stored after the last load": hoisted("mad.lo.s64 %a8, %a2, 4, -4;"),
}
WRONG_LOOPS = {
    "no guard": f"{ENTER} {ONCE}",
    "one byte short of all but the last": hoisted("mad.lo.s64 %a8, %a2, 4, -5;"),
    "two elements short": hoisted("mad.lo.s64 %a8, %a2, 4, -8;"),
    "elements for bytes": hoisted("mov.u64 %a8, %a2;"),
    "the value's first three bytes": hoisted(after="3"),
    "the row's first element alone": hoisted(before="4"),
    "another row": hoisted(pointer="%a5"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_load_leaves_a_loop_that_stores_elsewhere(name: str) -> None:
    found = verdict(EVERY_TRIP, LOOPS[name], EXTENT)
    assert isinstance(found, Proved), found


@pytest.mark.parametrize("name", WRONG_LOOPS)
def test_a_load_stays_in_a_loop_that_may_store_there(name: str) -> None:
    assert not isinstance(verdict(EVERY_TRIP, WRONG_LOOPS[name], EXTENT), Proved)


# --- disjointness as a fact -----------------------------------------------------------------------------


ROW = Bytes(Parameter(1, "y"), Parameter(2, "n"), 4)
VALUE = Bytes(Parameter(0, "x"), 4)
STORED = Bytes(Parameter(1, "y"), 4096)
LOADED = Bytes(Parameter(0, "x"), 4096)


def apart(left: Bytes, right: Bytes, origin: Origin = Origin.DECLARED) -> tuple[Fact, ...]:
    return (Fact(left, Relation.DISJOINT, right, origin),)


def test_declared_disjointness_carries_a_proof_and_is_named() -> None:
    for facts in (apart(LOADED, STORED), apart(STORED, LOADED), apart(LOADED, STORED, Origin.FRONTEND)):
        found = verdict(STORE_FIRST, LOAD_FIRST, facts)
        assert isinstance(found, Proved), found
        assert f"({facts[0].origin.value})" in found.certificate
    assert str(apart(VALUE, ROW)[0]) == "x[4] disjoint from y[n * 4]"
    loop = verdict(EVERY_TRIP, WRONG_LOOPS["no guard"], (*EXTENT, *apart(VALUE, ROW)))
    assert isinstance(loop, Proved), loop


TOO_LITTLE = {
    "of one byte less than an element": apart(replace(LOADED, count=4), replace(STORED, count=3)),
    "of another array": apart(LOADED, replace(STORED, start=Parameter(2, "z"))),
    "tested nowhere": apart(LOADED, STORED, Origin.GUARD),
    "of nothing": apart(LOADED, replace(STORED, count=0)),
    "of a parameter that is not there": apart(LOADED, replace(STORED, start=Parameter(9, "z"))),
    "of arrays without an end": (Fact(Parameter(0, "x"), Relation.DISJOINT, Parameter(1, "y"), Origin.DECLARED),),
}


@pytest.mark.parametrize("name", TOO_LITTLE)
def test_disjointness_that_is_not_enough(name: str) -> None:
    assert not isinstance(verdict(STORE_FIRST, LOAD_FIRST, TOO_LITTLE[name]), Proved)


def test_ranges_of_bytes_in_a_file_of_facts() -> None:
    row = '{"parameter": 1, "bytes": {"parameter": 2, "size": 4}}'
    (fact,) = read_facts(f'[{{"left": {{"parameter": 0, "bytes": 4}}, "relation": "disjoint from", "right": {row}}}]')
    assert isinstance(fact.left, Bytes)
    assert isinstance(fact.right, Bytes)
    assert isinstance(fact.right.count, Parameter)
    assert (fact.left.start.index, fact.left.count, fact.right.start.index) == (0, 4, 1)
    assert (fact.right.count.index, fact.right.size, fact.origin) == (2, 4, Origin.DECLARED)


# --- Numba's kernels through the splicer ----------------------------------------------------------------


def judged(name: str, text: str, seed: int = 1) -> Verdict:
    return proving.run(proving.Task(base(name), spliced_in(name, text), name, FACTS[name], (seed,)))


WITHOUT = {
    "saxpy_rows": "multiple of 16",
    "saxpy_rows_mlir": "multiple of 16",
    "scale_rows": "disjoint from",
    "scale_rows_mlir": "disjoint from",
}


@pytest.mark.parametrize("name", WITHOUT)
def test_without_its_guard_no_rewrite_is_proved(name: str) -> None:
    kept = [line for line in region_text(name).splitlines() if WITHOUT[name] not in line]
    assert len(kept) < len(region_text(name).splitlines())
    assert not isinstance(judged(name, "\n".join(kept)), Proved)


WEAKER = {
    "half the alignment": ("saxpy_rows", "multiple of 16", "multiple of 8"),
    "the alignment of the array, not of the row": ("saxpy_rows", "%in6 + 4 * %in1 * %in4 multiple", "%in6 multiple"),
    "the alignment of one array twice": ("saxpy_rows", "%in6 + 4 * %in1 * %in4", "%in5 + 4 * %in1 * %in0"),
    "elements for bytes": ("scale_rows", "[4 * %in0]", "[%in0]"),
    "another array": ("scale_rows", "from %in7", "from %in5"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WEAKER)
def test_with_a_weaker_guard_no_rewrite_is_proved(name: str) -> None:
    kernel_name, old, new = WEAKER[name]
    text = region_text(kernel_name)
    assert old in text
    assert not isinstance(judged(kernel_name, text.replace(old, new)), Proved)
