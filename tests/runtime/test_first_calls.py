"""First calls: what was decided before is used, tuning in the background switches when it is done, nothing else is.

On a GPU that does not exist (fake_driver.py); Numba's own launch is where a baseline's call ends.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import hybridcc
from hybridcc import background, decisions, optimizing
from hybridcc.errors import InputError
from hybridcc.pipeline import Options
from hybridcc.records import Accept
from hybridcc.runtime import device, numba_classes, store
from hybridcc.runtime.device import Device
from hybridcc.runtime.launch_class import launch_class
from hybridcc.runtime.race import Deviation, Race
from hybridcc.runtime.store import Decision
from tests.runtime import background_worker, fake_driver
from tests.runtime.fake_driver import H200, RTX4090
from tests.runtime.test_optimizing import EXAMPLE

pytestmark = pytest.mark.xdist_group("optimizing")
N = 3000


class OnDevice:
    """Memory of a GPU that does not exist; its content is on the host."""

    def __init__(self, count, address):
        self.host = np.ones(count, np.float32)
        self.__cuda_array_interface__ = {
            "shape": (count,), "strides": None, "data": (address, False), "typestr": "<f4", "version": 3
        }  # fmt: skip


def arrays(n=N):
    return OnDevice(n + 31, 1 << 20), OnDevice(31, 1 << 24), OnDevice(n, 1 << 26)


@pytest.fixture(autouse=True)
def gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("HYBRIDCC_CACHE", str(tmp_path / "cache"))
    fake = fake_driver.install(monkeypatch, H200, RTX4090)
    # Copies to the host find what the arrays hold: ones.
    content = lambda begin, end: np.ones((end - begin) // 4, np.float32).view(np.uint8)  # noqa: E731
    monkeypatch.setattr("hybridcc.runtime.host_arrays._fetch", content)
    yield fake
    assert background.wait(60)
    monkeypatch.undo()
    fake_driver.forget()


@pytest.fixture(autouse=True)
def baseline_calls(monkeypatch):
    """Launches that came to Numba's own code."""
    calls = []
    monkeypatch.setattr(numba_classes.LaunchConfiguration, "__call__", lambda self, *args: calls.append(args))
    return calls


@pytest.fixture
def checks(monkeypatch):
    """Comparisons of kept variants, and what they find."""
    done, deviates = [], []

    def race(baseline, variants, *rest, timed, **options):
        assert not timed
        done.append(variants[0].name)
        out = tuple(Deviation(variants[0].name, "byte 0 differs") for _ in deviates)
        return Race({}, None, out, {})

    monkeypatch.setattr(decisions, "race", race)
    return done, deviates


def fresh_kernel():
    return hybridcc.jit(EXAMPLE.py_func)


def shape_of(configured, args, on: Device):
    kernel = configured.dispatcher.compile_for(configured.dispatcher.types_of(args), optimizing.arch_for(on))
    shape = launch_class(kernel.arguments, args, configured.griddim, configured.blockdim, configured.sharedmem)
    return kernel, shape


def keep(accept: Accept = "proved", cubin: bytes | None = b"variant", day="", grid=128, made=10.0, ordinal=0):
    """A decision for ``call`` below, as another process left it."""
    on = device.device(ordinal)
    kernel, shape = shape_of(fresh_kernel()[grid, 256], arrays(), on)
    situation = decisions.situation(kernel, on, shape, Options())
    identity = decisions.decision_identity(situation, (), Options(accept=accept), "a rewriter")
    variant, code = ("r0-0", "FASTER") if cubin else ("baseline", "NOT_FASTER")
    row = Decision(kernel.name, identity, variant, code, "why", cubin, {}, made, day or decisions.today(), "CUDA 13.0")
    store.save(row)
    return row


def call(kernel, grid=128):
    kernel[grid, 256](*arrays())


def launched(gpu):
    return [code for code, _ in gpu.launched]


def test_without_a_decision_nothing_is_compiled_or_looked_up_twice(gpu, baseline_calls, monkeypatch):
    looks = []
    monkeypatch.setattr(store, "has_kernel", lambda name: looks.append(name) or False)
    kernel = fresh_kernel()
    monkeypatch.setattr(kernel, "compile_for", None)
    for grid in (128, 128, 256):
        call(kernel, grid)
    assert len(baseline_calls) == 3
    assert looks == ["conv1d"]
    assert not kernel.looks


def test_a_kept_decision_is_used_from_the_first_call(gpu, baseline_calls, checks):
    keep()
    kernel = fresh_kernel()
    call(kernel)
    call(kernel)
    assert launched(gpu) == [b"variant", b"variant"]
    assert baseline_calls == []
    assert checks[0] == []


def test_one_look_for_each_signature_and_shape(gpu, baseline_calls, checks, monkeypatch):
    keep(grid=1024)
    kernel = fresh_kernel()
    looked = []
    find = store.for_situation
    monkeypatch.setattr(store, "for_situation", lambda key: looked.append(key) or find(key))
    for _ in range(3):
        call(kernel)
    assert len(looked) == 1
    assert len(baseline_calls) == 3
    call(kernel, 1024)
    assert len(looked) == 2
    assert launched(gpu) == [b"variant"]


@pytest.mark.parametrize("kept", [{"accept": "tested"}, {"cubin": None}])
def test_what_is_below_the_default_policy_or_the_baseline_itself_is_not_launched(gpu, baseline_calls, checks, kept):
    keep(**kept)
    kernel = fresh_kernel()
    call(kernel)
    assert len(baseline_calls) == 1
    assert kernel.selected == []


def test_of_two_decisions_the_newest(gpu, checks):
    keep()
    older = keep()
    store.save(replace(older, identity={**older.identity, "rewriter": "another"}, cubin=b"newer", made=20.0))
    kernel = fresh_kernel()
    call(kernel)
    assert launched(gpu) == [b"newer"]


def test_on_another_day_it_is_compared_first(gpu, baseline_calls, checks):
    row = keep(day="2020-01-01")
    call(fresh_kernel())
    call(fresh_kernel())
    assert launched(gpu) == [b"variant", b"variant"]
    assert checks[0] == ["r0-0"]
    found = store.find(row.key)
    assert found is not None
    assert found.checked_day == decisions.today()


def test_one_that_differs_then_is_never_launched(gpu, baseline_calls, checks, caplog):
    keep(day="2020-01-01")
    checks[1].append("deviates")
    call(fresh_kernel())
    assert launched(gpu) == []
    assert len(baseline_calls) == 1
    assert store.decisions() == ()
    assert "a kept variant is dropped" in caplog.text


def test_a_capture_is_left_alone_and_the_next_call_looks(gpu, baseline_calls, checks):
    keep()
    kernel = fresh_kernel()
    gpu.capturing = True
    call(kernel)
    assert len(baseline_calls) == 1
    assert kernel.selected == []
    gpu.capturing = False
    call(kernel)
    assert launched(gpu) == [b"variant"]


def test_each_device_looks_for_itself(gpu, baseline_calls, checks):
    keep(ordinal=0)
    keep(ordinal=1, cubin=b"for the other")
    kernel = fresh_kernel()
    for ordinal in (0, 1, 0):
        gpu.ordinal = ordinal
        call(kernel)
    assert gpu.launched == [(b"variant", 0), (b"for the other", 1), (b"variant", 0)]


def test_threads_at_their_first_calls_look_once(gpu, baseline_calls, checks, monkeypatch):
    keep()
    kernel = fresh_kernel()
    looked = []
    find = store.for_situation
    monkeypatch.setattr(store, "for_situation", lambda key: looked.append(key) or find(key))
    threads = [threading.Thread(target=call, args=(kernel,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(looked) == 1
    assert len(gpu.launched) + len(baseline_calls) == 6
    assert gpu.launched


@pytest.mark.parametrize("mode", ["off", "baseline"])
def test_other_modes_look_for_nothing(gpu, baseline_calls, checks, monkeypatch, mode):
    keep()
    monkeypatch.setenv("HYBRIDCC", mode)
    monkeypatch.setenv("HYBRIDCC_TUNE", "background")
    kernel = fresh_kernel()
    call(kernel)
    assert len(baseline_calls) == 1
    assert not kernel.looks


def test_a_store_that_cannot_be_used_is_asked_once(gpu, baseline_calls, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "decisions.sqlite3").write_bytes(b"garbage" * 300)
    kernel = fresh_kernel()
    call(kernel)
    assert len(baseline_calls) == 1
    assert not kernel.looks


# --- in the background ---


@pytest.fixture
def child(monkeypatch, tmp_path):
    """Children on the stand-in race; gives the file of races begun and the one that lets them go on."""
    monkeypatch.setattr(background, "COMMAND", (sys.executable, "-m", "tests.runtime.background_worker"))
    monkeypatch.setenv("HYBRIDCC_TUNE", "background")
    monkeypatch.setenv(background_worker.RATIO, "4.0")
    started, go = tmp_path / "started", tmp_path / "go"
    monkeypatch.setenv(background_worker.STARTED, str(started))
    monkeypatch.setenv(background_worker.GO, str(go))
    return started, go


def await_file(path):
    deadline = time.monotonic() + 120
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert path.exists()


def test_the_baseline_serves_until_calls_switch(gpu, baseline_calls, child):
    started, go = child
    kernel = fresh_kernel()
    call(kernel)
    await_file(started)
    for _ in range(3):
        call(kernel)
    assert (len(baseline_calls), launched(gpu)) == (4, [])
    go.touch()
    assert background.wait(120)
    call(kernel)
    assert len(baseline_calls) == 4
    (kept,) = store.decisions()
    assert launched(gpu) == [kept.cubin]
    assert (kept.code, kept.evidence["verdict"], kept.identity["accept"]) == ("FASTER", "proved", "proved")
    assert kernel.outcomes[-1].switched
    assert "tuned in the background" in kernel.report()
    assert started.read_text().count("\n") == 1
    call(fresh_kernel())  # as in another process: nothing is tuned again
    assert background.wait(120)
    assert started.read_text().count("\n") == 1
    assert launched(gpu) == [kept.cubin, kept.cubin]


def test_two_processes_at_once_tune_once(gpu, baseline_calls, child):
    """The second one's child finds what the first one's decided; here both are asked for by one process."""
    started, go = child
    go.touch()
    first, second = fresh_kernel(), fresh_kernel()
    call(first)
    call(second)
    assert background.wait(120)
    assert started.read_text().count("\n") == 1
    call(first)
    call(second)
    assert len(gpu.launched) == 2


@pytest.mark.parametrize("dies", ["kill", "fault"])
def test_a_child_that_dies_leaves_the_baseline(gpu, baseline_calls, child, monkeypatch, dies):
    monkeypatch.setenv(background_worker.DIES, dies)
    kernel = fresh_kernel()
    call(kernel)
    assert background.wait(120)
    call(kernel)
    assert (len(baseline_calls), launched(gpu)) == (2, [])
    assert store.decisions() == ()


def test_nothing_faster_is_a_decision_too(gpu, baseline_calls, child, monkeypatch):
    _, go = child
    go.touch()
    monkeypatch.setenv(background_worker.RATIO, "1.0")
    kernel = fresh_kernel()
    call(kernel)
    assert background.wait(120)
    call(kernel)
    assert (len(baseline_calls), launched(gpu)) == (2, [])
    assert [row.code for row in store.decisions()] == ["NOT_FASTER"]
    assert not kernel.outcomes[-1].switched


def test_by_default_no_call_ever_tunes(gpu, baseline_calls, child, monkeypatch):
    monkeypatch.delenv("HYBRIDCC_TUNE")
    monkeypatch.setattr(background, "start", None)
    keep(grid=4096)  # so that first calls do look
    kernel = fresh_kernel()
    call(kernel)
    assert len(baseline_calls) == 1


def test_a_kernel_that_nobody_can_rewrite_starts_no_child(gpu, baseline_calls, child, monkeypatch):
    monkeypatch.setattr(background, "start", None)
    monkeypatch.setattr(optimizing, "rewriter_for", lambda dispatcher: "none")
    call(fresh_kernel())
    assert len(baseline_calls) == 1


def test_an_unknown_mode_is_refused_where_the_kernel_is_decorated(monkeypatch):
    monkeypatch.setenv("HYBRIDCC_TUNE", "always")
    with pytest.raises(InputError, match="HYBRIDCC_TUNE=always") as caught:
        fresh_kernel()
    assert "background" in caught.value.next_step


def test_the_child_ends_with_its_parent():
    """Its stdin is closed when the parent is gone, however it went."""
    code = "import threading, time\nfrom hybridcc import background\n"
    code += "threading.Thread(target=background._end_with_parent, daemon=True).start()\ntime.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 4
