"""hybridcc-ptxas in the place of Triton's ptxas: without an answer the same cubins, with a proved one others.

Run from the checkout: python -m tests.deep.triton_dropin [--folder FOLDER]
Makes an environment of its own in FOLDER, with a download of 290 MB the first time. Exit code 1 where it is not so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from hybridcc.asking import regions_of
from hybridcc.frontends import ptx_file
from hybridcc.passes.rewrite import prompt, recording
from hybridcc.runtime.toolchain import find
from tests.deep.triton_ptx import environment

TRITON = "triton==3.9.0"
ROOT = Path(__file__).parents[2]
COMPILE = r"""
import sys
from pathlib import Path
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def rowsum(x, out, n, m, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.zeros((BLOCK,), tl.float32)
    for k in range(m):
        s += tl.load(x + i + k, mask=i < n, other=0.0)
    tl.store(out + i, s, mask=i < n)

types = {"x": "*fp32", "out": "*fp32", "n": "i32", "m": "i32", "BLOCK": "constexpr"}
for arch in (80, 90):
    made = triton.compile(ASTSource(rowsum, types, {"BLOCK": 128}), target=GPUTarget("cuda", arch, 32))
    for kind, content in (("ptx", made.asm["ptx"].encode()), ("cubin", made.asm["cubin"])):
        Path(sys.argv[1], f"{arch}.{kind}").write_bytes(content)
"""
ANSWER = """```ptx
.reg .pred %p, %q;
.reg .b32 %v;
.reg .b64 %ptr, %left;
mov.b64 %ptr, %in2;
mov.b64 %left, %in3;
mov.b32 %out0, 0f00000000;
$ONE:
setp.lt.s32 %p, %in0, %in1;
mov.b32 %v, 0;
@%p ld.global.b32 %v, [%ptr];
add.s64 %ptr, %ptr, 4;
add.s64 %left, %left, -1;
add.f32 %out0, %out0, %v;
setp.gt.s64 %q, %left, 0;
@%q bra $ONE;
```
"""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--folder", type=Path, default=Path("build") / "triton-dropin")
    folder = arguments.parse_args().folder.absolute()
    python = environment(folder, TRITON)
    (folder / "compile.py").write_text(COMPILE)
    dropin = folder / "hybridcc-ptxas"
    dropin.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -P -m hybridcc.dropin "$@"\n')
    dropin.chmod(0o755)
    plain = compiled(python, folder, "plain", find("ptxas").path)
    none = compiled(python, folder, "none", dropin, "replay:/nowhere.jsonl")
    answered = compiled(python, folder, "answered", dropin, f"replay:{recorded(folder)}")
    wrong = [arch for arch in ("80", "90") if none[arch] != plain[arch] or answered[arch] == plain[arch]]
    print(f"{TRITON}: {'as it should be' if not wrong else f'not so for {wrong}'}")
    return 1 if wrong else 0


def compiled(python: Path, folder: Path, name: str, ptxas: Path, rewriter: str = "none") -> dict[str, bytes]:
    """The cubins by architecture."""
    out = folder / name
    out.mkdir(exist_ok=True)
    told = {
        "TRITON_PTXAS_PATH": str(ptxas), "TRITON_PTXAS_BLACKWELL_PATH": str(ptxas), "TRITON_ALWAYS_COMPILE": "1",
        "TRITON_CACHE_DIR": str(folder / "cache" / name), "HYBRIDCC_REWRITER": rewriter,
    }  # fmt: skip
    environment_ = {**os.environ, **told}
    environment_.pop("PYTHONPATH", None)
    subprocess.run([str(python), str(folder / "compile.py"), str(out)], check=True, env=environment_)
    return {arch: (out / f"{arch}.cubin").read_bytes() for arch in ("80", "90")}


def recorded(folder: Path) -> Path:
    """A recording in which ANSWER was given to the loop that Triton wrote."""
    found = []
    for arch, name in (("80", "sm_80"), ("90", "sm_90a")):
        (kernel,) = ptx_file.load(folder / "plain" / f"{arch}.ptx", arch=name)
        asked = prompt.build(regions_of(kernel, 1)[0], kernel)
        found.append(recording.Recorded(asked.hash, asked.template_version, "by hand", "2026-12-01", ANSWER))
    recording.write(folder / "answers.jsonl", found)
    return folder / "answers.jsonl"


if __name__ == "__main__":
    sys.exit(main())
