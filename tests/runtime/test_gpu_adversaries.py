"""On a GPU: variants that misbehave in ways a single comparison does not see. Each is refuted while an honest one is
raced, and the process goes on to launch the baseline."""

from __future__ import annotations

import numpy as np
import pytest

from hybridcc.passes.kernel import Argument, ArrayType, Field
from hybridcc.passes.verify.launch import Launch
from hybridcc.runtime import device, race_children, race_sanitize
from hybridcc.runtime.assemble import assemble
from hybridcc.runtime.driver import bindings, call, use_primary_context
from hybridcc.runtime.launch import LoadedKernel
from hybridcc.runtime.race import COMPARED, race
from hybridcc.runtime.race_entrants import entrant
from hybridcc.runtime.race_memory import allocate, download, upload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device.available() is None, reason=f"no GPU: {device.why_none()}"),
]

N = 1 << 18
POINTERS = [Argument(name, ArrayType("float32", 1), (Field("data", ".u64"),)) for name in ("x", "y")]

MODULE = """.version 7.8
.target sm_80
.address_size 64
{globals}
.visible .entry k(.param .u64 x, .param .u64 y)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<9>;
    {locals}
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mul.wide.s32 %rd5, %r4, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f1, [%rd6];
    add.f32 %f2, %f1, %f1;
    {body}
    st.global.f32 [%rd7], %f2;
$END:
    ret;
}}
"""


def module(body="", globals="", locals=""):
    return MODULE.format(body=body, globals=globals, locals=locals)


HONEST = module()
ADVERSARIES = {
    "writes a gigabyte away": module("st.global.f32 [%rd7+1073741824], %f2;"),
    "writes just behind its buffer": module(
        "setp.eq.s32 %p1, %r4, 0;\n@%p1 st.global.f32 [%rd7+{past}], %f2;".replace("{past}", str(4 * N))
    ),
    "reads uninitialised shared memory": module(
        "mov.u32 %r5, room;\nmul.lo.u32 %r6, %r3, 4;\nadd.u32 %r5, %r5, %r6;\nld.volatile.shared.u32 %r7, [%r5];\n"
        "setp.eq.u32 %p1, %r7, 0;\n@!%p1 add.f32 %f2, %f2, 0f3F800000;",
        locals=".shared .align 16 .b8 room[1024];",
    ),
    "skips its work when the pointer repeats": module(
        # Every thread but those of a first launch with this address leaves; the last block out notes the address.
        "ld.volatile.global.u64 %rd8, [seen];\nsetp.eq.u64 %p1, %rd8, %rd1;\n@%p1 bra $END;\n"
        "st.global.f32 [%rd7], %f2;\nmembar.gl;\nbar.sync 0;\nsetp.ne.u32 %p2, %r3, 0;\n@%p2 bra $END;\n"
        "atom.global.inc.u32 %r5, [blocks], {last};\nsetp.ne.u32 %p3, %r5, {last};\n@%p3 bra $END;\n"
        "st.volatile.global.u64 [seen], %rd1;\nbra $END;".replace("{last}", str(N // 256 - 1)),
        globals=".global .align 8 .u64 seen;\n.global .align 4 .u32 blocks;",
    ),
    "is right for ten calls": module(
        f"ld.volatile.global.u32 %r5, [calls];\nsetp.ge.u32 %p1, %r5, {10 * (N // 256)};\n"
        "@%p1 add.f32 %f2, %f2, 0f3F800000;\nsetp.eq.u32 %p2, %r3, 0;\nbar.sync 0;\n"
        "@%p2 red.global.add.u32 [calls], 1;",
        globals=".global .align 4 .u32 calls;",
    ),
}
ENDLESS = module("$FOREVER:\nst.volatile.global.f32 [%rd7], %f2;\nmembar.gl;\nbra.uni $FOREVER;")


def entrant_of(name, ptx):
    cubin = assemble(ptx, device.current().arch)
    return entrant(name, cubin, "k", ptx)


def launch():
    x = np.random.default_rng(5).random(N, np.float32)
    return Launch((N // 256, 1, 1), (256, 1, 1), (x, np.zeros(N, np.float32)))


def run(*variants, **options):
    given = {name: ptx for name, ptx in variants}
    options = {"budget_s": 1.0, **options}
    raced = race(
        entrant_of("baseline", HONEST), [entrant_of(n, p) for n, p in given.items()], POINTERS, launch(),
        device.current(), **options,
    )  # fmt: skip
    return raced


def baseline_still_runs():
    """In this very process, whose context a race never touches."""
    use_primary_context()
    loaded = LoadedKernel(assemble(HONEST, device.current().arch).bytes, "k")
    x = np.arange(256, dtype=np.float32)
    addresses = np.array([allocate(x.nbytes), allocate(x.nbytes)], np.uint64)
    upload(int(addresses[0]), x)
    pointers = np.array([addresses.ctypes.data, addresses.ctypes.data + 8], np.uint64)
    call(bindings().cuLaunchKernel, loaded.function, 1, 1, 1, 256, 1, 1, 0, 0, pointers.ctypes.data, 0)
    call(bindings().cuCtxSynchronize)
    found = np.frombuffer(download(int(addresses[1]), x.nbytes), np.float32)
    return np.array_equal(found, 2 * x)


@pytest.mark.parametrize("what", ADVERSARIES)
def test_an_adversary_is_refuted_and_the_honest_one_is_raced(what):
    raced = run(("bad", ADVERSARIES[what]), ("good", HONEST))
    assert not raced.void, raced.void
    assert [d.contender for d in raced.deviations] == ["bad"], raced.deviations
    assert set(raced.measurements) == {"good"}
    assert raced.measurements["good"].kind in ("same", "inconclusive")
    assert raced.compared["good"] >= COMPARED
    assert baseline_still_runs()


def test_one_that_never_ends_is_killed(monkeypatch):
    monkeypatch.setattr(race_children, "SILENCE_S", 10.0)
    raced = run(("bad", ENDLESS), ("good", HONEST))
    assert [d.contender for d in raced.deviations] == ["bad"]
    assert "did not end" in raced.deviations[0].what
    assert set(raced.measurements) == {"good"}
    assert baseline_still_runs()


def test_an_honest_race_compares_at_minus_o0_and_at_a_second_shape():
    raced = run(("good", HONEST))
    assert not raced.deviations
    assert raced.notes["-O0 of good"] == ""
    assert raced.notes[f"grid {N // 128}x1x1, block 128x1x1"] == ""
    assert raced.facts["peak_gb_s"] > 100
    assert raced.facts["written_bytes"] >= 4 * N * 0.99


def test_a_warm_process_races_again_and_is_dropped_after_an_adversary():
    with race_children.Children() as children:
        first = run(("good", HONEST), children=children)
        assert run(("good", HONEST), children=children).measurements.keys() == first.measurements.keys()
        assert run(("bad", ADVERSARIES["writes a gigabyte away"]), children=children).deviations
        assert "good" in run(("good", HONEST), children=children).measurements


@pytest.mark.parametrize("tool", race_sanitize.TOOLS)
def test_compute_sanitizer_on_an_honest_kernel(tool):
    import shutil

    if shutil.which("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed")
    (found,) = race_sanitize.sanitize(entrant_of("v", HONEST), POINTERS, launch(), device.current(), tools=(tool,))
    if found.clean is None:
        pytest.skip(f"compute-sanitizer cannot run here: {found.text}")
    assert found.clean, found.text


def test_compute_sanitizer_finds_a_write_out_of_bounds():
    import shutil

    if shutil.which("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed")
    bad = entrant_of("v", ADVERSARIES["writes a gigabyte away"])
    (found,) = race_sanitize.sanitize(bad, POINTERS, launch(), device.current(), tools=("memcheck",))
    if found.clean is None:
        pytest.skip(f"compute-sanitizer cannot run here: {found.text}")
    assert found.clean is False
    assert "write" in found.text.lower()
