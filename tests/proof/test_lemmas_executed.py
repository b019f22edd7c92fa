"""The pairs that lemmas.py proves, run: on the executor, and on a GPU over millions of operands.

    python -m pytest -m gpu tests/proof/test_lemmas_executed.py

Each pair agrees bit for bit, or, where payloads of NaNs are aside, in all but words that are NaNs on both sides.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from lemma_pairs import ASIDE, EVERY_BIT
from test_lemmas_numbers import operands
from test_small import kernel

from hybridcc.passes.execute import execute
from hybridcc.runtime import device

PAIRS = {**ASIDE, **EVERY_BIT}
THREADS = 512
MANY = 1 << 20
ROUNDS = 32
INTEGERS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x01000001, 0x00FFFFFF, 0x80000001)


def differences(name: str, mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """The places of words that may not differ and do."""
    x, y = mine.view(np.float32), theirs.view(np.float32)
    forgiven = np.isnan(x) & np.isnan(y) if name in ASIDE else np.zeros(len(mine), bool)
    return np.flatnonzero((mine != theirs) & ~forgiven)


@pytest.mark.parametrize("name", PAIRS)
def test_on_the_executor(name: str) -> None:
    for seed, number in enumerate(INTEGERS):
        x, y = operands(THREADS, 2 * seed + 11), operands(THREADS, 2 * seed + 12)
        results = []
        for body in PAIRS[name]:
            out = y.copy()
            execute(kernel(body), "k", 1, THREADS, [x.copy(), out, np.uint64(0), np.uint32(number)])
            results.append(out)
        wrong = differences(name, *results)
        assert not len(wrong), [(hex(x[k]), hex(y[k]), hex(results[0][k]), hex(results[1][k])) for k in wrong[:3]]


def test_payloads_do_differ() -> None:
    """Otherwise the weaker strength would be said for nothing."""
    x = np.full(32, 0x7F800001, np.uint32)
    outs = [np.zeros(32, np.uint32) for _ in range(2)]
    for body, out in zip(ASIDE["a literal that is an f32 number"], outs, strict=True):
        execute(kernel(body), "k", 1, 32, [x.copy(), out, np.uint64(0), np.uint32(0)])
    assert (outs[0] != outs[1]).all()


# --- on a GPU -------------------------------------------------------------------------------------------


def grid_wide(body: str) -> str:
    """The kernel with a word for each thread of the grid, not of the block."""
    local = "mul.wide.u32 %a3, %r1, 4;"
    text = kernel(body)
    assert local in text
    return text.replace(local, "mad.lo.s32 %r19, %r3, %r2, %r1; mul.wide.u32 %a3, %r19, 4;")


class Gpu:
    """Kernels as the driver assembles them."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self.call("cuInit", 0)
        self.call("cuCtxSetCurrent", self.call("cuDevicePrimaryCtxRetain", self.call("cuDeviceGet", 0)))
        self.buffers = [self.call("cuMemAlloc", 4 * MANY) for _ in range(2)]

    def call(self, name: str, *given: Any) -> Any:
        error, *values = getattr(self._driver, name)(*given)
        assert int(error) == 0, f"{name}: {self._driver.cuGetErrorString(error)[1].decode()}"
        return values[0] if values else None

    def load(self, text: str) -> Any:
        return self.call("cuModuleGetFunction", self.call("cuModuleLoadData", text.encode() + b"\0"), b"k")

    def run(self, function: Any, x: np.ndarray, y: np.ndarray, number: int) -> np.ndarray:
        for buffer, array in zip(self.buffers, (x, y), strict=True):
            self.call("cuMemcpyHtoD", buffer, array.ctypes.data, array.nbytes)
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32)
        values = (*(int(b) for b in self.buffers), 0, number)
        self.call("cuLaunchKernel", function, MANY // 256, 1, 1, 256, 1, 1, 0, 0, (values, kinds), 0)
        self.call("cuCtxSynchronize")
        out = np.empty(MANY, np.uint32)
        self.call("cuMemcpyDtoH", out.ctypes.data, self.buffers[1], out.nbytes)
        return out


@pytest.mark.gpu
@pytest.mark.skipif(device.available() is None, reason=f"no GPU: {device.why_none()}")
def test_on_a_gpu() -> None:
    gpu = Gpu()
    functions = {name: [gpu.load(grid_wide(body)) for body in pair] for name, pair in PAIRS.items()}
    for seed in range(ROUNDS):
        x, y = operands(MANY, 2 * seed + 1001), operands(MANY, 2 * seed + 1002)
        for name, pair in functions.items():
            mine, theirs = (gpu.run(function, x, y, INTEGERS[seed % len(INTEGERS)]) for function in pair)
            wrong = differences(name, mine, theirs)
            assert not len(wrong), (name, [(hex(x[k]), hex(y[k]), hex(mine[k]), hex(theirs[k])) for k in wrong[:3]])
