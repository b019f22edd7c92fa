"""What the racing process is handed, and that it comes back the same; the comparison kernel, on the executor."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from hybridcc.errors import InputError
from hybridcc.frontends import numba, numba_types
from hybridcc.passes.arguments import flatten
from hybridcc.passes.verify.launch import Launch, memory
from hybridcc.runtime import race_job, race_memory
from hybridcc.runtime.assemble import assemble
from hybridcc.runtime.race_job import Contender


def arguments_of(*types):
    types = numba.argument_types("void(" + ", ".join(types) + ")")
    return numba_types.arguments([f"a{i}" for i in range(len(types))], types)


def job_of(arguments, launch):
    contenders = [Contender("baseline", b"", "k"), Contender("v", b"", "k", (b"", b""), b"counted")]
    made = race_job.job_of(contenders, arguments, launch, "ab", budget_s=1.5)
    assert made.sizes == tuple(len(data) for data in memory(launch))
    assert (made.twins, made.counted) == (("v",), ("v",))
    return replace(made, seed=3)


def test_a_job_reads_back_as_it_was_written(tmp_path):
    arguments = arguments_of("float32[::1]", "float32[:]", "int32", "float64", "float32[:, ::1]")
    whole = np.arange(20, dtype=np.float32)
    launch = Launch((2, 1, 1), (32, 1, 1), (whole, whole[4::2], np.int32(-7), np.float64("nan"), np.ones((3, 2), "f4")))
    own = race_job.packed((whole[4::2], np.uint8(7), np.float64(2.5)), launch)
    assert own.offsets == (0, 8, 16)
    job = replace(job_of(arguments, launch), free=("v",), own={"v": own})
    race_job.write(tmp_path, job, [Contender("baseline", b"\x7fELF", "k"), Contender("v", b"other", "k")], launch)
    assert race_job.read(tmp_path) == job
    assert (tmp_path / "v.cubin").read_bytes() == b"other"
    assert [(tmp_path / f"buffer{i}.bin").read_bytes() for i in range(2)] == list(memory(launch))


def test_parameters_point_into_the_childs_buffers():
    """Views of one array share one buffer, each at its own displacement; all else is the executor's flattening."""
    arguments = arguments_of("int8", "float32[::1]", "float32[:]", "float16")
    whole = np.arange(20, dtype=np.float32)
    launch = Launch((1, 1, 1), (32, 1, 1), (np.int8(-3), whole, whole[4::2], np.float16(1.5)))
    parameters = race_job.parameters_of(arguments, launch)
    data = parameters.filled([0x7000])
    flat = flatten(arguments, launch.values)
    for offset, value in zip(parameters.offsets, flat, strict=True):
        if isinstance(value, np.ndarray):
            expected = 0x7000 + (16 if value.size == 8 else 0)
            assert int.from_bytes(data[offset : offset + 8], "little") == expected
        else:
            cell = np.asarray(value)
            assert data[offset : offset + cell.nbytes] == cell.tobytes()
            assert offset % cell.nbytes == 0


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="float32 array"):
        race_job.parameters_of(arguments_of("float32[::1]"), Launch((1, 1, 1), (1, 1, 1), (np.zeros(3),)))


@pytest.mark.parametrize("alignment", [0, 4, 252])
def test_buffers_keep_the_callers_alignment_behind_a_whole_red_zone(alignment):
    for base in (0x10000, 0x10100, 0x10004):
        address = race_memory.place(base, alignment)
        assert address % race_job.ALIGNMENT == alignment
        assert address - base >= race_memory.RED_ZONE
        for size in (0, 1, 4, 1000):
            after = base + race_memory.whole_size(size) - address - size
            assert after >= race_memory.RED_ZONE


def test_the_comparison_assembles_for_every_architecture_we_ship():
    for arch in ("sm_80", "sm_86", "sm_90"):
        assert assemble(race_memory.COMPARE_PTX, arch).spill_stores == 0


@pytest.mark.parametrize("planted", [None, 0, 1, 517, 1023])
def test_the_comparison_finds_the_first_word_that_differs(planted):
    from hybridcc import execute

    left = np.arange(1024, dtype=np.uint32)
    right = left.copy()
    if planted is not None:
        right[planted] ^= 1 << 31
        right[1000:] += planted < 1000
    found = np.array([race_memory.NOTHING, 0], np.uint64)
    words = np.uint64(left.size)
    execute(race_memory.COMPARE_PTX, "compare", (2, 1, 1), (64, 1, 1), [left, right, words, found])
    assert int(found[0]) == (race_memory.NOTHING if planted is None else planted)
    assert int(found[1]) == np.count_nonzero(left != right)


def test_the_racing_process_starts_from_any_folder_and_says_when_there_is_no_gpu(tmp_path):
    """The command that race.py runs; with a GPU it stops at the cubin that is none."""
    from hybridcc.runtime.race_children import Children

    arguments = arguments_of("float32[::1]")
    launch = Launch((1, 1, 1), (32, 1, 1), (np.zeros(32, np.float32),))
    contenders = [Contender("baseline", b"no cubin", "k"), Contender("v", b"no cubin", "k")]
    race_job.write(tmp_path, job_of(arguments, launch), contenders, launch)
    with Children() as children:
        child = children.take(0)
        told = [message for message in child.run(tmp_path) if message is not None]
        child.close()
    (last,) = [message for message in told if message["event"] in ("failed", "stop")]
    assert last["reason"]


def test_the_racing_process_loads_no_compiler():
    code = "import hybridcc.runtime.race_worker, sys; print({'numba', 'torch', 'llvmlite'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
