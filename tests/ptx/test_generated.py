"""PTX as the installed compilers write it today: parsed, printed and renamed it is the same program."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import cuda, float32, int32

from hybridcc.ptx import isa, parse
from hybridcc.ptx.canonical import rename_module
from hybridcc.ptx.debug import register_names
from hybridcc.ptx.nodes import Instruction, Raw, Section
from hybridcc.ptx.scopes import resolve
from hybridcc.runtime.toolchain import find
from tests.ptx.cubins import assemble
from tests.ptx.test_corpus import numbered

ROOT = Path(__file__).parents[2]
ARCHITECTURES = ("sm_80", "sm_90")


def the_same_program(ptx: str, folder: Path) -> None:
    module = parse(ptx, "generated.ptx")
    printed = str(module)
    assert parse(printed) == module
    original = assemble(ptx, folder)
    assert assemble(printed, folder) == original
    if not any(isinstance(i, Section) and register_names(i) for i in module.items):
        assert assemble(str(rename_module(module, numbered())), folder) == original
    for function in module.functions:
        scoped = resolve(function, module)
        assert scoped.unresolved == ()
        for statement in scoped.statements:
            assert not isinstance(statement, Raw)
            assert not isinstance(statement, Instruction) or isa.lookup(statement) is not None


# --- numba-cuda -----------------------------------------------------------------------------------------


@cuda.jit(device=True)
def squared(x):
    return x * x


def reduction(x, out):
    tile = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = squared(x[i]) if i < x.size else 0.0
    cuda.syncthreads()
    step = 128
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step >>= 1
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])


def warps(x, out):
    i = cuda.grid(1)
    v = x[i]
    for offset in (16, 8, 4, 2, 1):
        v += cuda.shfl_xor_sync(0xFFFFFFFF, v, offset)
    mask = cuda.ballot_sync(0xFFFFFFFF, v > 0)
    if cuda.laneid == 0:
        out[i // 32] = cuda.popc(mask) + v


def functions(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.sin(x[i]) * math.exp(x[i]) + math.sqrt(abs(x[i])) / (1.0 + math.pow(x[i], 3.0)) + math.lgamma(x[i])


def local(x, y):
    stack = cuda.local.array(32, int32)
    i = cuda.grid(1)
    for k in range(32):
        stack[(x[i] + k) & 31] = k
    y[i] = stack[x[i] & 31] // (x[i] | 1) + x[i] % 7


def shouting(x):
    print(cuda.grid(1), x[0])


NUMBA = {
    "reduction": (reduction, "void(float32[::1], float32[::1])"),
    "warps": (warps, "void(int32[:], int32[:])"),
    "functions f32": (functions, "void(float32[::1], float32[::1])"),
    "functions f64": (functions, "void(float64[:], float64[:])"),
    "local": (local, "void(int64[::1], int64[::1])"),
    "printing": (shouting, "void(int32[::1])"),
}
OPTIONS = ({}, {"fastmath": True}, {"lineinfo": True}, {"debug": True, "opt": False})


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("kernel", NUMBA)
def test_numba_cuda(kernel: str, arch: str, tmp_path: Path) -> None:
    from hybridcc.frontends.numba import compile

    function, signature = NUMBA[kernel]
    the_same_program(compile(function, signature, arch).ptx, tmp_path)


@pytest.mark.parametrize("options", OPTIONS[1:], ids=str)
def test_numba_cuda_with_options(options: dict, tmp_path: Path) -> None:
    from hybridcc.frontends.numba import compile

    the_same_program(compile(functions, "void(float32[::1], float32[::1])", "sm_86", **options).ptx, tmp_path)


MLIR = """
import math, sys
from numba_cuda_mlir import cuda
from hybridcc.frontends.numba_mlir import compile

def functions(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.sin(x[i]) * math.exp(x[i]) + math.sqrt(abs(x[i])) / (1.0 + x[i])

def counting(x, y):
    i = cuda.grid(1)
    cuda.atomic.add(y, x[i] & 15, 1)
    cuda.syncthreads()
    for k in range(x[i]):
        y[k] = x[i] // (k + 1) + x[k] % 7

for function, types in ((functions, "void(float64[:], float64[:])"), (counting, "void(int32[:], int32[:])")):
    for arch in ("sm_80", "sm_90"):
        print(compile(function, types, arch).ptx, end=chr(0))
"""


def test_numba_cuda_mlir(tmp_path: Path) -> None:
    """In a process of its own: its MLIR and another's do not stand each other."""
    pytest.importorskip("numba_cuda_mlir", reason="needs the extra mlir")
    kernels = tmp_path / "kernels.py"
    kernels.write_text(MLIR)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(kernels)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert run.returncode == 0, run.stderr
    made = run.stdout.split("\0")[:-1]
    assert len(made) == 4
    for ptx in made:
        the_same_program(ptx, tmp_path)


# --- NVRTC ----------------------------------------------------------------------------------------------

CUDA = r"""
extern __shared__ float dynamic[];
__constant__ float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
struct Shape { virtual __device__ float area(float x) { return x; } };
struct Disc : Shape { __device__ float area(float x) override { return x * x * weights[2]; } };
template <class T> __device__ __noinline__ T fold(T a, T b) { return a > b ? a - b : b * a; }
extern "C" __global__ void __launch_bounds__(256, 2) all(const float4 *__restrict__ a, double *b, int n, long long m)
{
    __shared__ int tile[33][32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Disc disc; Shape *shape = &disc;
    if (i >= n) return;
    float4 v = __ldg(a + i);
    tile[threadIdx.x & 31][threadIdx.x >> 5] = __float2int_rn(v.x);
    dynamic[threadIdx.x] = shape->area(v.y) + __shfl_xor_sync(~0u, v.z, 4);
    __syncthreads();
    switch (n & 7) {
    case 0: b[i] = fold<double>(v.x, v.y); break;
    case 1: b[i] = fold<long long>(m, n); break;
    case 2: b[i] = __dadd_rz(v.x, v.w); break;
    case 3: b[i] = sqrt((double)v.z) + tanhf(v.x); break;
    case 4: atomicAdd(b + i, 1.0); break;
    case 5: asm volatile("{ .reg .b32 t; add.s32 t, %0, 1; prmt.b32 %0, t, t, 0x123; }" : "+r"(n)); b[i] = n; break;
    default: b[i] = __umulhi(n, 77u) + (m / n) + __brev(n) + __clzll(m);
    }
    b[i] += dynamic[n & 255] + tile[n & 31][0] + weights[n & 7];
}
"""


@pytest.mark.parametrize("options", [[], ["-lineinfo"], ["-use_fast_math"], ["-G"], ["-rdc=true"]], ids=str)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_nvrtc(arch: str, options: list[str], tmp_path: Path) -> None:
    from cuda.bindings import nvrtc

    from hybridcc.runtime.toolchain import load

    # libnvrtc asks for its builtins by bare name, and finds them only where they are loaded already.
    ctypes.CDLL(str(load("nvrtc").with_name("libnvrtc-builtins.so.13.0")))
    _, program = nvrtc.nvrtcCreateProgram(CUDA.encode(), b"all.cu", 0, [], [])
    flags = [f"-arch={arch}", "-std=c++17", *options]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [f.encode() for f in flags])
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    the_same_program(text.decode().rstrip("\0"), tmp_path)


# --- LLVM -----------------------------------------------------------------------------------------------

LLVM = r"""
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier0()
declare <2 x half> @llvm.fma.v2f16(<2 x half>, <2 x half>, <2 x half>)
declare float @llvm.sqrt.f32(float)
declare i64 @llvm.bitreverse.i64(i64)
declare i64 @llvm.fshl.i64(i64, i64, i64)
@table = internal addrspace(4) constant [4 x i32] [i32 1, i32 -2, i32 3, i32 4]
@tile = internal addrspace(3) global [64 x float] undef
@pointers = addrspace(1) global [2 x ptr] [ptr addrspacecast (ptr addrspace(4) @table to ptr), ptr null]
define internal float @helper(float %x, {i32, double} %s) noinline {
  %d = extractvalue {i32, double} %s, 1
  %f = fptrunc double %d to float
  %r = fadd float %x, %f
  ret float %r
}
define ptx_kernel void @kernel(ptr addrspace(1) %a, <2 x half> %h, i64 %n, i8 %b) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr float, ptr addrspace(1) %a, i32 %t
  %v = load <4 x float>, ptr addrspace(1) %p, align 16
  %x = extractelement <4 x float> %v, i32 2
  %q = call <2 x half> @llvm.fma.v2f16(<2 x half> %h, <2 x half> %h, <2 x half> %h)
  %q0 = extractelement <2 x half> %q, i32 1
  %qf = fpext half %q0 to float
  %s = insertvalue {i32, double} undef, double 2.5, 1
  %y = call float @helper(float %x, {i32, double} %s)
  %z = call float @llvm.sqrt.f32(float %y)
  %slot = getelementptr [64 x float], ptr addrspace(3) @tile, i32 0, i32 %t
  store float %z, ptr addrspace(3) %slot
  call void @llvm.nvvm.barrier0()
  switch i8 %b, label %rest [ i8 1, label %one
                              i8 7, label %seven ]
one:
  %w = atomicrmw add ptr addrspace(1) %a, i32 1 seq_cst
  br label %rest
seven:
  %r = call i64 @llvm.bitreverse.i64(i64 %n)
  %f = call i64 @llvm.fshl.i64(i64 %r, i64 %n, i64 13)
  store volatile i64 %f, ptr addrspace(1) %a
  br label %rest
rest:
  %k = phi float [ %z, %entry ], [ %qf, %one ], [ %x, %seven ]
  store float %k, ptr addrspace(1) %p
  ret void
}
"""


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize(("arch", "features"), [("sm_80", "+ptx80"), ("sm_90", "+ptx86"), ("sm_90a", "+ptx80")])
def test_llvm(arch: str, features: str, level: int, tmp_path: Path) -> None:
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=arch, features=features, opt=level)
    the_same_program(machine.emit_assembly(binding.parse_assembly(LLVM)), tmp_path)


# --- NVIDIA's own ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_device_runtime_of_the_toolkit(tmp_path: Path) -> None:
    """29,000 lines that come with every toolkit, in the newest architecture's form."""
    archive = find("ptxas").path.parents[1] / "lib" / "libcudadevrt.a"
    command = [str(find("cuobjdump").path), "-xptx", "all", str(archive)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    files = list(tmp_path.glob("*.ptx"))
    assert files
    for file in files:
        the_same_program(file.read_text(), tmp_path)
