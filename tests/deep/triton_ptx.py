"""PTX that Triton writes: parsed, printed and renamed it is the same program.

Run from the checkout: python -m tests.deep.triton_ptx [--folder FOLDER]
Makes an environment of its own in FOLDER (Triton pins its own torch, and needs none to compile), so it takes a
download of 170 MB the first time. Exit code 1 where a file is not the same program.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.ptx.test_generated import the_same_program

TRITON = "triton==3.5.0"
GENERATE = r"""
import sys
from pathlib import Path
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * n + i, e / tl.sum(e, 0), mask=i < n)

@triton.jit
def matmul(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, n, BLOCK):
        kk = k + tl.arange(0, BLOCK)
        total += tl.dot(tl.load(a + i[:, None] * n + kk[None, :]), tl.load(b + kk[:, None] * n + j[None, :]))
    tl.store(c + i[:, None] * n + j[None, :], total.to(tl.float16))

@triton.jit
def histogram(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(out + (v & 255), 1, mask=i < n)
    tl.store(x + i, tl.cumsum(v, 0), mask=i < n)

KERNELS = {
    add: ("*fp32 *fp32 *fp32 i32", 1024), softmax: ("*fp32 *fp32 i32", 1024),
    matmul: ("*fp16 *fp16 *fp16 i32", 64), histogram: ("*i32 *i32 i32", 512),
}
out = Path(sys.argv[1])
for arch in (80, 90):
    for kernel, (types, block) in KERNELS.items():
        names = [a for a in kernel.arg_names if a != "BLOCK"]
        source = ASTSource(kernel, dict(zip(names, types.split())) | {"BLOCK": "constexpr"}, {"BLOCK": block})
        made = triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": 4})
        (out / f"{kernel.__name__}.sm_{arch}.ptx").write_text(made.asm["ptx"])
"""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--folder", type=Path, default=Path("build") / "triton")
    folder = arguments.parse_args().folder.absolute()
    python = environment(folder, TRITON)
    made = folder / "ptx"
    made.mkdir(exist_ok=True)
    generator = folder / "generate.py"
    generator.write_text(GENERATE)
    subprocess.run([str(python), str(generator), str(made)], check=True, cwd=folder)
    failures = 0
    files = sorted(made.glob("*.ptx"))
    for file in files:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                the_same_program(file.read_text(), Path(scratch))
            except AssertionError as error:
                failures += 1
                print(f"{file.name}: {error}", file=sys.stderr)
    print(f"{TRITON}: {len(files)} files, {failures} of them not the same program")
    return 1 if failures or not files else 0


def environment(folder: Path, triton: str) -> Path:
    """The Python of an environment in ``folder`` that has that Triton."""
    python = folder / "env" / "bin" / "python"
    marker = folder / "env" / triton
    if not marker.exists():
        venv.create(folder / "env", with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", triton, "setuptools"], check=True)
        marker.touch()
    return python


if __name__ == "__main__":
    sys.exit(main())
