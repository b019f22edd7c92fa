"""Runs every conformance kernel (tests/hardware) on the GPU here and stores what it answered.

    python benchmarks/hardware_conformance.py --out DIR [--ptxas PATH]

Needs NumPy and cuda-bindings; hybridcc is taken from the checkout. The kernels are assembled with ptxas where one is
found (``--ptxas``, PATH, /usr/local/cuda/bin), else by the driver; which one is written into DIR/answers.npz. Copy
that file to tests/hardware/answers.npz: tests/hardware/test_conformance.py holds the executor to it bit for bit.
``--assemble-only`` stops before the GPU is touched.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.hardware import generate, stored  # noqa: E402
from tests.hardware.cases import Case, all_cases  # noqa: E402
from tests.hardware.operands import ROWS  # noqa: E402

SCRATCH = 16 * ROWS


def find_ptxas(given: str | None) -> str | None:
    for candidate in (given, shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"):
        if candidate and Path(candidate).exists():
            return candidate
    return None


def version_of(ptxas: str) -> str:
    text = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    return next((line.strip() for line in text.splitlines() if "release" in line), text.strip())


def assemble(ptxas: str, text: str, arch: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "m.ptx", Path(folder) / "m.cubin"
        source.write_text(text)
        done = subprocess.run([ptxas, f"-arch={arch}", str(source), "-o", str(target)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"ptxas refuses a module:\n{done.stderr[:4000]}")
        return target.read_bytes()


class Device:
    """The first GPU, through the driver API."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.driver = driver
        self.call("cuInit", 0)
        self.device = self.call("cuDeviceGet", 0)
        self.open()

    def call(self, name: str, *args: Any) -> Any:
        error, *values = getattr(self.driver, name)(*args)
        if int(error) != 0:
            raise RuntimeError(f"{name}: {self.driver.cuGetErrorString(error)[1].decode()}")
        return values[0] if len(values) == 1 else values

    def open(self) -> None:
        context = self.call("cuDevicePrimaryCtxRetain", self.device)
        self.call("cuCtxSetCurrent", context)
        self.buffers = [self.call("cuMemAlloc", size) for size in (8 * ROWS * 16, 8 * ROWS * 16, SCRATCH)]

    def reopen(self) -> None:
        """After a fault nothing in the old context works."""
        self.call("cuDevicePrimaryCtxReset", self.device)
        self.open()

    def origin(self) -> dict[str, str]:
        attribute = self.driver.CUdevice_attribute
        major = self.call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self.device)
        minor = self.call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self.device)
        name = self.call("cuDeviceGetName", 128, self.device)
        return {
            "gpu": bytes(name).split(b"\0")[0].decode(),
            "arch": f"sm_{major}{minor}",
            "cuda driver api": str(self.call("cuDriverGetVersion")),
            "driver": _driver_version(),
        }

    def run(self, module: Any, case: Case) -> bytes:
        import ctypes

        function = self.call("cuModuleGetFunction", module, case.entry.encode())
        source = stored.inputs(case)
        given, out, scratch = self.buffers
        if source.size:
            self.call("cuMemcpyHtoD", given, source.ctypes.data, source.nbytes)
        self.call("cuMemsetD8", out, 0xA5, case.result_bytes)
        self.call("cuMemsetD8", scratch, 0, SCRATCH)
        parameters = (tuple(int(b) for b in (given, out, scratch)), (ctypes.c_void_p,) * 3)
        self.call("cuLaunchKernel", function, 1, 1, 1, ROWS, 1, 1, 0, 0, parameters, 0)
        self.call("cuCtxSynchronize")
        answer = bytearray(case.result_bytes)
        view = (ctypes.c_char * len(answer)).from_buffer(answer)
        self.call("cuMemcpyDtoH", ctypes.addressof(view), out, len(answer))
        return bytes(answer)


def _driver_version() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "unknown"
    query = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True).stdout.splitlines()[0].strip()


def images(cases: tuple[Case, ...], ptxas: str | None, arch: str) -> list[tuple[tuple[Case, ...], bytes]]:
    """Modules ready to load: cubins, or PTX for the driver's own compiler."""
    batches = generate.batches(cases)
    texts = [generate.module(b) for b in batches]
    if ptxas is None:
        return [(b, t.encode() + b"\0") for b, t in zip(batches, texts, strict=True)]
    with ThreadPoolExecutor() as pool:
        return list(zip(batches, pool.map(lambda t: assemble(ptxas, t, arch), texts), strict=True))


def measure(device: Device, loaded: list[tuple[tuple[Case, ...], bytes]]) -> tuple[dict[str, bytes], dict[str, str]]:
    outputs: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    for batch, image in loaded:
        module = device.call("cuModuleLoadData", image)
        for case in batch:
            try:
                outputs[case.name] = device.run(module, case)
            except RuntimeError as error:
                missing[case.name] = str(error)
                print(f"{case.name}: {error}", flush=True)
                device.reopen()
                module = device.call("cuModuleLoadData", image)
    return outputs, missing


def repeated(device: Device, loaded: list[tuple[tuple[Case, ...], bytes]], first: dict[str, bytes]) -> list[str]:
    """Cases whose second run differs from the first: they cannot be conformance cases."""
    again, _ = measure(device, loaded)
    return [name for name, answer in first.items() if again.get(name) != answer]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ptxas")
    parser.add_argument("--assemble-only", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    cases = all_cases()
    ptxas = find_ptxas(options.ptxas)
    device = None if options.assemble_only else Device()
    origin = device.origin() if device else {"arch": "sm_90"}
    origin |= {
        "assembler": version_of(ptxas) if ptxas else "the driver's compiler",
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "inputs": stored.digest(cases),
    }
    loaded = images(cases, ptxas, origin["arch"])
    print(f"{len(cases)} cases in {len(loaded)} modules, {time.perf_counter() - start:.1f} s; {origin}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    if device is None:
        return 0
    outputs, missing = measure(device, loaded)
    for name in repeated(device, loaded, outputs):
        del outputs[name]
        missing[name] = "a second run gave another answer"
    path = options.out / "answers.npz"
    stored.save(path, stored.Answers(origin, outputs, missing), cases)
    opcodes = {c.opcode for c in cases if c.name in outputs}
    instructions = {c.instruction for c in cases if c.name in outputs}
    print(f"{len(outputs)} answers ({len(opcodes)} opcodes, {len(instructions)} variants), {len(missing)} missing,")
    print(f"{path.stat().st_size / 2**20:.1f} MiB in {path}, {time.perf_counter() - start:.1f} s")
    for name, reason in missing.items():
        print(f"missing {name}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
