"""The judge is judged first: over stand-in kernels in Python it must accept the equal and refute the different.

The stand-in executor takes a name for PTX and runs a Python function per thread, with bounds checked as the real
executor does. tests/verify/test_on_executor.py does the same with PTX.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from hybridcc.errors import ExecutionError
from hybridcc.passes.kernel import Argument, ArrayType, Field, Kernel, ScalarType
from hybridcc.passes.verdict import Refuted, Tested, Unknown
from hybridcc.passes.verify import plans
from hybridcc.passes.verify.difference import without_payloads
from hybridcc.passes.verify.launch import Launch, memory
from hybridcc.passes.verify.reference import reference_for
from hybridcc.passes.verify.testing import Examination, examine, test

FIELDS = (Field("data", ".u64"), Field("shape", ".s64"))


def argument(name: str, dtype: str = "float32", ndim: int = 1, layout: str = "C") -> Argument:
    shapes = tuple(Field("shape", ".s64", axis) for axis in range(ndim))
    return Argument(name, ArrayType(dtype, ndim, layout), (FIELDS[0], *shapes))  # type: ignore[arg-type]


def kernel(*arguments: Argument) -> Kernel:
    return Kernel("k", "k", "baseline", "sm_80", "stand-in", arguments)


def executor(**functions):
    """Each function(i, *flat arguments) is one thread; a negative or too large index faults."""

    def execute(ptx, entry, grid, block, args, shared_bytes=0, schedule="lowest", step_limit=0):
        counts = {"entry": 0, "rewritten": 0}
        threads = range(int(np.prod(grid) * np.prod(block)))
        for i in reversed(threads) if schedule == "reversed" else threads:
            counts["entry"] += 1
            try:
                counts["rewritten"] += bool(functions[ptx](i, *(Bounded(a) for a in args)))
            except IndexError:
                raise ExecutionError("OUT_OF_BOUNDS", "no such element") from None
        return SimpleNamespace(block_counts=counts, flags=(), instructions=0)

    return execute


class Bounded:
    def __new__(cls, value):
        return super().__new__(cls) if isinstance(value, np.ndarray) else value

    def __init__(self, array):
        self.array = array

    def __getitem__(self, at):
        if np.min(at) < 0:
            raise IndexError
        return self.array[at]

    def __setitem__(self, at, value):
        if np.min(at) < 0:
            raise IndexError
        self.array[at] = value


def compare(kernel, candidate, launches=None, *, rewritten=(), **source) -> Examination:
    """Sixty launches: a stand-in kernel is Python, thread by thread."""
    return examine(reference_for(kernel, launches, **source), candidate, rewritten=rewritten, most=60)


CONV = kernel(argument("x"), argument("w"), argument("y"))


def conv1d(i, x, nx, w, nw, y, ny):
    if i >= ny:
        return False
    total = np.float32(0)
    for k in range(nw):
        total += x[i + k] * w[k]
    y[i] = total
    return True


def unrolled_by_4(i, x, nx, w, nw, y, ny, remainder=True):
    if i >= ny:
        return False
    total = np.float32(0)
    main = nw - nw % 4
    for k in range(0, main, 4):
        for u in range(4):
            total += x[i + k + u] * w[k + u]
    for k in range(main, nw if remainder else main):
        total += x[i + k] * w[k]
    y[i] = total
    return True


def swapped_order(i, x, nx, w, nw, y, ny):
    if i >= ny:
        return False
    total = np.float32(0)
    for k in reversed(range(nw)):
        total += x[i + k] * w[k]
    y[i] = total
    return True


def no_remainder(i, *rest):
    return unrolled_by_4(i, *rest, remainder=False)


def reads_past_the_end(i, x, nx, w, nw, y, ny):
    if i < ny and nw:
        _ = w[nw]
    return conv1d(i, x, nx, w, nw, y, ny)


def writes_next_door(i, x, nx, w, nw, y, ny):
    done = conv1d(i, x, nx, w, nw, y, ny)
    if i == 0 and nx:
        x[0] = x[0] + np.float32(0) if x[0] != 0 else np.float32(0.0) * -1
    return done


def wrong_for_nan(i, x, nx, w, nw, y, ny):
    done = conv1d(i, x, nx, w, nw, y, ny)
    if done and np.isnan(y[i]):
        y[i] = np.array(0x7FFFFFFE, np.uint32).view(np.float32)
    return done


def wrong_without_trips(i, x, nx, w, nw, y, ny):
    if i < ny and nw == 0:
        return True
    return conv1d(i, x, nx, w, nw, y, ny)


@pytest.fixture(autouse=True)
def quiet_floats():
    with np.errstate(all="ignore"):
        yield


def conv_example(n: int = 1000, taps: int = 31) -> Launch:
    arrays = tuple(np.ones(size, np.float32) for size in (n + taps - 1, taps, n))
    return Launch((-(-n // 16), 1, 1), (16, 1, 1), arrays)


@pytest.mark.parametrize("examples", [(), (conv_example(),)], ids=["types", "example"])
def test_equal_kernels_are_tested_and_most_launches_count(examples):
    found = compare(
        CONV,
        "candidate",
        examples=examples,
        rewritten=("rewritten",),
        execute=executor(baseline=conv1d, candidate=unrolled_by_4),
    )
    assert isinstance(found.verdict, Tested), found
    assert found.origin == ("example" if examples else "types")
    assert found.launches + sum(n for _, n in found.skipped) == 60
    assert found.verdict.exercised > 45
    assert found.verdict.exercised < found.verdict.inputs  # empty outputs run, and are no evidence
    assert {"sizes", "values nan", "aliased", "misaligned"} <= set(found.verdict.families)


@pytest.mark.parametrize("examples", [(), (conv_example(),)], ids=["types", "example"])
@pytest.mark.parametrize(
    "wrong",
    [no_remainder, swapped_order, reads_past_the_end, wrong_for_nan, wrong_without_trips, writes_next_door],
)  # fmt: skip
def test_wrong_candidates_are_refuted_with_the_launch(wrong, examples):
    found = compare(
        CONV,
        "candidate",
        examples=examples,
        rewritten=("rewritten",),
        execute=executor(baseline=conv1d, candidate=wrong),
    )
    assert isinstance(found.verdict, Refuted), found
    assert "grid" in found.verdict.counterexample
    assert "float32[" in found.verdict.counterexample
    assert found.counterexample is not None
    replayed = compare(CONV, "candidate", [found.counterexample], execute=executor(baseline=conv1d, candidate=wrong))
    assert replayed.verdict == found.verdict


def test_a_rewrite_that_no_launch_enters_is_unknown():
    def never(i, *rest):
        conv1d(i, *rest)
        return False

    verdict = test(CONV, "c", rewritten=("rewritten",), most=20, execute=executor(baseline=conv1d, c=never))
    assert verdict == Unknown("not exercised: no launch executed the rewritten rewritten")


def test_a_load_hoisted_over_a_store_is_refuted_by_aliases():
    def twice(i, x, nx, y, ny):
        if i < min(nx, ny):
            y[i] = x[i] * np.float32(2)
            y[i] = y[i] + x[i]
        return True

    def hoisted(i, x, nx, y, ny):
        if i < min(nx, ny):
            kept = x[i]
            y[i] = kept * np.float32(2) + kept
        return True

    pair = kernel(argument("x"), argument("y"))
    verdict = test(pair, "c", execute=executor(baseline=twice, c=hoisted))
    assert isinstance(verdict, Refuted)
    assert verdict.family == "aliased"


def test_launches_on_which_the_baseline_differs_from_itself_are_no_evidence():
    def last_one_wins(i, x, nx, w, nw, y, ny):
        if ny:
            y[0] = np.float32(i)
        return True

    def first_one_wins(i, x, nx, w, nw, y, ny):
        if ny and i == 0:
            y[0] = np.float32(i)
        return True

    found = compare(CONV, "c", execute=executor(baseline=last_one_wins, c=first_one_wins))
    assert dict(found.skipped)["NOT_DETERMINISTIC"] > 40
    assert not isinstance(found.verdict, Refuted)


def test_a_baseline_that_always_faults_is_unknown_and_says_what_to_give():
    def faults(i, x, *rest):
        return x[1 << 40]

    found = compare(CONV, "c", execute=executor(baseline=faults, c=faults))
    assert isinstance(found.verdict, Unknown)
    assert "example" in found.verdict.reason


def test_same_seed_same_evidence():
    run = executor(baseline=conv1d, candidate=no_remainder)
    first, second = (compare(CONV, "candidate", execute=run, seed=5) for _ in range(2))
    assert first.verdict == second.verdict


def test_plan_from_example_finds_the_relations():
    plan = plans.from_example(CONV, conv_example(1 << 20, 31))
    sizes = {"n": 7, "m": 20}
    x, w, y = (extents[0].at(sizes) for extents in plan.extents)
    assert (x, w, y) == (26, 7, 20)
    assert [t.at(sizes) for t in plan.threads] == [20]

    matmul = kernel(argument("a", ndim=2), argument("b", ndim=2), argument("c", ndim=2))
    shapes = ((64, 40), (40, 96), (64, 96))
    example = Launch((6, 4, 1), (16, 16, 1), tuple(np.ones(s, np.float32) for s in shapes))
    plan = plans.from_example(matmul, example)
    a, b, c = (tuple(e.at({"n": 5, "m": 6, "k": 7}) for e in extents) for extents in plan.extents)
    assert a[1] == b[0]
    assert (a[0], b[1]) == c
    assert [t.at({"n": 5, "m": 6, "k": 7}) for t in plan.threads] == [c[1], c[0]]


def test_coincidences_of_round_numbers_are_let_go_and_contracts_kept():
    """128 rows of 512: nothing ties them. A buffer of four floats per point: that is the contract."""

    def colsum(i, a, rows, columns, y, ny):
        if i < columns:
            y[i] = sum((a[k, i] for k in range(rows)), np.float32(0))
        return i < columns

    def points(i, p, np_, y, ny):
        if i < ny:
            y[i] = p[4 * i] + p[4 * i + 3]
        return i < ny

    rows = Launch((16, 1, 1), (32, 1, 1), (np.ones((128, 512), np.float32), np.ones(512, np.float32)))
    tied = Launch((4, 1, 1), (32, 1, 1), (np.ones(512, np.float32), np.ones(128, np.float32)))
    loose = reference_for(
        kernel(argument("a", ndim=2), argument("y")), examples=[rows], execute=executor(baseline=colsum)
    )
    kept = reference_for(kernel(argument("p"), argument("y")), examples=[tied], execute=executor(baseline=points))
    assert loose.plans == ("n,m; m",)
    assert kept.plans == ("4*n; n",)


def test_scalars_take_part_in_plans():
    saxpy = kernel(
        Argument("a", ScalarType("float32"), (Field("value", ".f32"),)),
        argument("x"),
        argument("y"),
        Argument("n", ScalarType("int64"), (Field("value", ".s64"),)),
    )

    def thread(i, a, x, nx, y, ny, n):
        if i < n:
            y[i] = a * x[i] + y[i]
        return i < n

    found = compare(saxpy, "c", rewritten=("rewritten",), execute=executor(baseline=thread, c=thread))
    assert isinstance(found.verdict, Tested)
    assert found.verdict.exercised > 30


def test_a_launch_is_left_as_it_was():
    example = conv_example(40, 3)
    before = memory(example)
    compare(CONV, "c", [example], execute=executor(baseline=conv1d, c=conv1d))
    assert memory(example) == before


def test_the_baseline_runs_once_for_all_candidates():
    calls = []
    run = executor(baseline=conv1d, good=unrolled_by_4, other=unrolled_by_4, bad=no_remainder)

    def counting(ptx, *args, **options):
        calls.append(ptx)
        return run(ptx, *args, **options)

    reference = reference_for(CONV, execute=counting)
    verdicts = [
        examine(reference, name, rewritten=("rewritten",), most=20).verdict for name in ("good", "other", "bad")
    ]
    assert [type(v) for v in verdicts] == [Tested, Tested, Refuted]
    assert verdicts[0] == verdicts[1]
    assert calls.count("good") == calls.count("other") >= 18
    after = len(calls)
    assert examine(reference, "good", rewritten=("rewritten",), most=20).verdict == verdicts[0]
    assert set(calls[after:]) == {"good"}


def test_payloads_of_nans_are_set_aside_where_that_is_asked_for():
    quiet, other, number = (np.array([bits], np.uint32) for bits in (0x7FFFFFFF, 0xFFC00001, 0x3F800000))
    words = [np.concatenate(pair).tobytes() for pair in ((quiet, number), (other, number), (number, number))]
    same, also, different = (without_payloads([content + b"xy"]) for content in words)
    assert same == also
    assert same != different
    assert without_payloads([words[2]]) == [words[2]]


@pytest.mark.parametrize("sizes", [(39, 39, 1), (2000, 3, 1), (1, 5000, 2), (10, 10, 30)])
def test_one_block_is_never_too_large(sizes: tuple[int, int, int]) -> None:
    from hybridcc.passes.verify.inputs import _one_block

    block = _one_block(*sizes)
    assert 1 <= block[0] * block[1] * block[2] <= 1024
    assert all(b <= s for b, s in zip(block, sizes, strict=True))
