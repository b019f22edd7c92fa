"""On a GPU: decisions that outlive a process, forked children, captures at first calls, tuning in the background."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hybridcc.runtime import device, store

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device.available() is None, reason=f"no GPU: {device.why_none()}"),
]

ROOT = Path(__file__).parents[2]

BEGIN = """
import importlib.util, json, os, sys, time, warnings
import numpy as np
from numba import cuda
from hybridcc import background
from hybridcc.runtime import numba_classes
warnings.simplefilter("ignore")
spec = importlib.util.spec_from_file_location("conv1d", "examples/conv1d.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
kernel = module.conv1d
n = 1 << 22
x, w = np.random.default_rng(0).random(n + 30, np.float32), np.random.default_rng(1).random(31, np.float32)
args = [cuda.to_device(x), cuda.to_device(w), cuda.to_device(np.zeros(n, np.float32))]
shape = kernel[n // 256, 256]
numbas = []
stock = numba_classes.LaunchConfiguration.__call__
def counted(self, *args):
    numbas.append(1)
    return stock(self, *args)
numba_classes.LaunchConfiguration.__call__ = counted
def tell(**what):
    y = args[2].copy_to_host()
    right = np.allclose(y[:64], [np.dot(x[i:i + 31].astype("f8"), w) for i in range(64)], rtol=1e-5)
    print(json.dumps({"numba": len(numbas), "right": bool(right), "selected": len(kernel.selected), **what}))
"""


def python(code, cache, **environment):
    """What a fresh process tells on its last line."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HYBRIDCC_CACHE": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


OPTIMIZE = "outcome = shape.optimize(*args, budget_s=6)\nshape(*args)\ntell(text=outcome.text, kept=outcome.from_store)"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A store with the decision on the example."""
    folder = tmp_path_factory.mktemp("cache")
    told = python(OPTIMIZE, folder)
    if told["selected"] != 1:
        pytest.fail(f"nothing was selected to test with: {told['text']}")
    return folder


def test_another_process_uses_the_decision_at_its_first_call(cache):
    told = python("shape(*args)\nshape(*args)\ntell()", cache)
    assert told == {"numba": 0, "right": True, "selected": 1}


def test_optimize_takes_it_too_and_races_nothing(cache):
    told = python(OPTIMIZE, cache)
    assert told["kept"]
    assert told["right"]


def test_on_another_day_it_is_compared_on_the_device_first(cache):
    path = cache / "decisions.sqlite3"
    (kept,) = store.decisions(path)
    store.mark_checked(kept.key, "2020-01-01", kept.checked_driver, path)
    assert python("shape(*args)\ntell()", cache) == {"numba": 0, "right": True, "selected": 1}
    (kept,) = store.decisions(path)
    assert kept.checked_day > "2020-01-01"


def test_a_first_call_inside_a_capture_stays_with_numba_and_the_next_looks(cache):
    code = """
from hybridcc.runtime.driver import bindings, call
driver = bindings()
stock(shape, *args)  # compiled and loaded: a capture allows neither
stream = cuda.stream()
handle = int(getattr(stream.handle, "value", stream.handle))
on_stream = kernel[n // 256, 256, stream]
call(driver.cuStreamBeginCapture, handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
on_stream(*args)
call(driver.cuStreamEndCapture, handle)
inside = len(kernel.selected)
on_stream(*args)
stream.synchronize()
tell(inside=inside)
"""
    assert python(code, cache) == {"numba": 1, "right": True, "selected": 1, "inside": 0}


def test_a_forked_child_gets_one_clear_error_and_the_parent_goes_on(cache):
    code = """
shape(*args)
cuda.synchronize()
reading, writing = os.pipe()
pid = os.fork()
if not pid:
    said = []
    for launch in (lambda: shape(*args), lambda: kernel[n // 128, 128](*args), lambda: shape.optimize(*args)):
        try:
            launch()
            said.append("nothing")
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    os.write(writing, json.dumps(said).encode())
    os._exit(0)
os.close(writing)
said = json.loads(os.fdopen(reading).read())
os.waitpid(pid, 0)
shape(*args)
tell(said=said)
"""
    told = python(code, cache)
    assert told["right"]
    assert len(told["said"]) == 3
    for said in told["said"]:
        assert said.startswith("ForkedProcess")
        assert "'spawn'" in said


def test_a_fork_before_cuda_is_used_is_fine(tmp_path):
    code = """
import os, sys
import numpy as np
from numba import cuda
import hybridcc
@hybridcc.jit
def double(x):
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] *= 2
pid = os.fork()
x = np.ones(1 << 16, np.float32)
double[256, 256](x)
assert (x == 2).all()
if not pid:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HYBRIDCC_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_tuning_in_the_background_serves_the_baseline_and_then_switches(tmp_path):
    """The variant is several times faster, so that a race on a GPU that also serves the baseline sees it."""
    code = """
background.BUDGET_S = 10.0
shape(*args)
served = 0
while not background.wait(0.05):
    shape(*args)
    served += 1
    time.sleep(0.05)
before = len(numbas)
shape(*args)
tell(served=served, after=len(numbas) - before, text=kernel.report())
"""
    told = python(code, tmp_path, HYBRIDCC_TUNE="background")
    assert told["right"]
    assert told["served"] > 5
    assert (told["selected"], told["after"]) == (1, 0), told["text"]
    assert "tuned in the background" in told["text"]


@pytest.mark.skipif(device.available() is None or device.count() < 2, reason="one GPU")
def test_each_gpu_of_a_process_has_its_own_selection(cache):
    code = """
shape(*args)
cuda.select_device(1)
args = [cuda.to_device(x), cuda.to_device(w), cuda.to_device(np.zeros(n, np.float32))]
shape(*args)
tell(ordinals=sorted(each.ordinal for each in kernel.selected))
"""
    told = python(code, cache)
    assert told["right"]
    assert 0 in told["ordinals"]
