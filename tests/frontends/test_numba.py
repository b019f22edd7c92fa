"""Numba kernels to PTX with no GPU: parameters by meaning, facts, options, refusals, stable names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32

from hybridcc.errors import InputError, SignatureError, UnknownArchitecture, UnsupportedOption
from hybridcc.frontends import mangling
from hybridcc.frontends.numba import argument_types, compile, type_of
from hybridcc.frontends.numba_options import REFUSED
from hybridcc.passes.kernel import ArrayType, LaunchBounds, ScalarType
from hybridcc.runtime.assemble import assemble

ROOT = Path(__file__).parents[2]
THREE = "void(float32[::1], float32[::1], float32[::1])"


def conv1d(x, w, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        s = float32(0)
        for k in range(w.shape[0]):
            s += x[i + k] * w[k]
        y[i] = s


def nothing(a):
    pass


def many(a, b, c, d, e, f, g):
    pass


@cuda.jit(device=True)
def twice(v):
    return v + v


def calls(x):
    x[cuda.grid(1)] = twice(x[cuda.grid(1)])


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90", "sm_90a"])
def test_kernel_for_each_architecture(arch: str) -> None:
    kernel = compile(conv1d, THREE, arch)
    assert (kernel.name, kernel.arch) == ("conv1d", arch)
    assert re.fullmatch(r"numba-cuda \d+\.\d+\.\d+", kernel.frontend)
    assert kernel.source_file == __file__
    assert Path(__file__).read_text().splitlines()[kernel.source_line - 1] == "def conv1d(x, w, y):"
    assert f".target {arch}" in kernel.ptx
    assert [a.name for a in kernel.arguments] == ["x", "w", "y"]
    assert assemble(kernel.ptx, arch).resources(kernel.entry).registers > 0


def test_array_struct_by_meaning() -> None:
    (argument,) = compile(nothing, "void(float64[:,:])", "sm_80").arguments
    assert argument.type == ArrayType("float64", 2, "A")
    assert [(f.role, f.axis) for f in argument.fields] == [
        ("meminfo", 0), ("parent", 0), ("nitems", 0), ("itemsize", 0), ("data", 0),
        ("shape", 0), ("shape", 1), ("stride", 0), ("stride", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("numba_type", "dtype", "ptx_type"),
    [
        ("boolean", "bool", ".u8"), ("int8", "int8", ".u8"), ("uint16", "uint16", ".u16"), ("int32", "int32", ".u32"),
        ("uint64", "uint64", ".u64"), ("float16", "float16", ".u16"), ("float32", "float32", ".f32"),
        ("float64", "float64", ".f64"),
    ],
)  # fmt: skip
def test_scalars(numba_type: str, dtype: str, ptx_type: str) -> None:
    (argument,) = compile(nothing, f"void({numba_type})", "sm_80").arguments
    assert argument.type == ScalarType(dtype)
    assert [(f.role, f.ptx_type) for f in argument.fields] == [("value", ptx_type)]


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "boolean", "int8", "float16", "uint64"])
def test_arrays_of_any_numpy_type(dtype: str) -> None:
    (argument,) = compile(nothing, f"void({dtype}[:])", "sm_80").arguments
    assert isinstance(argument.type, ArrayType)
    assert np.dtype(argument.type.dtype).itemsize == np.dtype(dtype.replace("boolean", "bool")).itemsize


def test_facts_number_the_entrys_parameters() -> None:
    kernel = compile(many, "void(int32, float32[:,::1], bool_, float64[::1,:], int8[:], int64, float32)", "sm_80",
                     launch_bounds=256)  # fmt: skip
    facts = {str(fact): fact for fact in kernel.facts}
    first_of_d = 1 + 9 + 1
    for text, index in {
        "b.itemsize == 4": 4, "b multiple of 4": 5, "b.shape[0] >= 0": 6, "b.strides[1] == 4": 9,
        "b.strides[0] multiple of 4": 8, "c <= 1": 10, "d.itemsize == 8": first_of_d + 3,
        "d.strides[0] == 8": first_of_d + 7, "e.size == e.shape[0]": 22,
    }.items():  # fmt: skip
        assert facts[text].left.index == index, text  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    assert "e.strides[0] == 1" not in facts  # a layout that promises nothing
    assert "e multiple of 1" not in facts
    assert {"%ntid.x <= 256", "%ntid.y <= 256", "%ntid.z <= 256"} <= set(facts)
    assert all(fact.origin == "frontend" for fact in kernel.facts)


def test_unaligned_arrays_promise_no_alignment() -> None:
    from numba import types

    unaligned = types.Array(types.float32, 1, "C", readonly=True, aligned=False)
    kernel = compile(nothing, (unaligned,), "sm_80")
    assert kernel.arguments[0].type == ArrayType("float32", 1, "C", readonly=True, aligned=False)
    assert not any(str(fact).startswith("a multiple") for fact in kernel.facts)


def test_launch_bounds_and_register_limit_reach_the_ptx() -> None:
    kernel = compile(conv1d, THREE, "sm_90", launch_bounds=(128, 4), max_registers=24)
    assert kernel.launch_bounds == LaunchBounds(128, 4)
    assert re.search(r"\.maxntid 128, 1, 1\s+\.minnctapersm 4\s+\.maxnreg 24\s+\{", kernel.ptx)
    assert assemble(kernel.ptx, "sm_90").registers <= 24


def test_fastmath_lineinfo_debug_opt_change_the_code() -> None:
    def divide(x):
        x[0] = x[1] / x[2]

    signature = "void(float32[::1])"
    plain = compile(divide, signature, "sm_80").ptx
    assert "div.approx" in compile(divide, signature, "sm_80", fastmath=True).ptx
    assert ".loc" in compile(divide, signature, "sm_80", lineinfo=True).ptx
    debug = compile(divide, signature, "sm_80", debug=True)
    assert ".target sm_80, debug" in debug.ptx
    assert assemble(debug.ptx, "sm_80").registers > 0
    assert len(compile(divide, signature, "sm_80", opt=False).ptx) > len(plain)


def test_jit_objects_bring_their_options() -> None:
    given = cuda.jit(fastmath=True, launch_bounds=64)(conv1d)
    assert compile(given, THREE, "sm_80").launch_bounds == LaunchBounds(64)
    assert compile(given, THREE, "sm_80", launch_bounds=32).launch_bounds == LaunchBounds(32)

    class OwnJit:
        py_func = staticmethod(conv1d)
        options = {"max_registers": 32, "lto": None}  # noqa: RUF012

    assert ".maxnreg 32" in compile(OwnJit(), THREE, "sm_80").ptx


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_keywords_are_named(name: str) -> None:
    with pytest.raises(UnsupportedOption, match=name) as caught:
        compile(conv1d, THREE, "sm_80", **{name: ["x"]})
    assert caught.value.next_step
    assert compile(conv1d, THREE, "sm_80", **{name: None}).ptx


@pytest.mark.parametrize("options", [{"fast_math": True}, {"device": True}, {"launch_bounds": (1, 2, 3)},
                                     {"debug": True, "opt": True}, {"debug": True, "lineinfo": True}])  # fmt: skip
def test_other_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedOption):
        compile(conv1d, THREE, "sm_80", **options)


@pytest.mark.parametrize("options", [{"max_registers": 3}, {"max_registers": "many"}, {"launch_bounds": 0},
                                     {"launch_bounds": ()}])  # fmt: skip
def test_option_values_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        compile(conv1d, THREE, "sm_80", **options)


@pytest.mark.parametrize("arch", ["sm_999", "sm_80a", "sm_90f", "90", "", "sm_70"])
def test_unknown_architecture_is_not_taken_for_its_neighbour(arch: str) -> None:
    with pytest.raises(UnknownArchitecture, match=re.escape(repr(arch))) as caught:
        compile(conv1d, THREE, arch)
    assert "sm_90" in caught.value.next_step


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("void(float32", "never closed"),
        ("void(float33[:])", "float33"),
        ("float32(float32[:])", "returns nothing"),
        ("void(float32[:], float32[:])", "takes 1 argument"),
        (7, "not a signature"),
        (None, "not a signature"),
        ("void(complex64)", "complex scalar"),
        ("void(UniTuple(int32, 3))", "a tuple"),
        ("void(CPointer(float32))", "bare pointer"),
        ("void(NPDatetime('s'))", "date"),
        ("void(unicode_type)", "UnicodeType"),
    ],
)
def test_signatures_that_cannot_be(signature: Any, said: str) -> None:
    with pytest.raises(SignatureError, match=said) as caught:
        compile(nothing, signature, "sm_80")
    assert caught.value.next_step


def test_numba_says_why_in_one_line_with_the_place() -> None:
    def wrong(x):
        x[0] = x.colour

    with pytest.raises(SignatureError) as caught:
        compile(wrong, "void(float32[::1])", "sm_80")
    first = str(caught.value).splitlines()[0]
    assert first.endswith("Unknown attribute 'colour' of type array(float32, 1d, C)")
    assert first.startswith(f"{__file__}:{wrong.__code__.co_firstlineno + 1}: ")


def test_record_arrays_are_refused_by_name() -> None:
    with pytest.raises(SignatureError, match="array of records"):
        compile(nothing, (type_of(np.zeros(3, [("x", "f4"), ("n", "i4")])),), "sm_80")


@pytest.mark.parametrize("function", [len, 3, "conv1d", conv1d.__code__])
def test_what_is_no_function(function: Any) -> None:
    with pytest.raises(SignatureError, match="no Python function"):
        compile(function, THREE, "sm_80")


def test_variadic_kernels_are_refused() -> None:
    def variadic(*arrays):
        pass

    with pytest.raises(SignatureError, match="args"):
        compile(variadic, THREE, "sm_80")


def test_signature_forms_agree() -> None:
    from numba import types

    array = types.Array(types.float32, 1, "C")
    wanted = (array, array, array)
    for form in (THREE, THREE.removeprefix("void"), wanted, types.void(*wanted)):
        assert argument_types(form) == wanted
    assert argument_types(float32[::1]) == (array,)
    assert type_of(np.zeros(3, np.float32)) == array


def test_same_ptx_however_much_was_compiled_before() -> None:
    first = compile(calls, "void(float32[::1])", "sm_80")
    for _ in range(12):
        compile(nothing, "void(int64)", "sm_80")
    assert compile(calls, "void(float32[::1])", "sm_80") == first
    assert "B2v1" in first.entry
    assert compile(calls, "void(float32[::1])", "sm_90").ptx.count("B2v1") > 0


def test_a_fresh_process_gives_the_same_ptx() -> None:
    code = (
        "from hybridcc.frontends.numba import compile\n"
        "import sys; sys.path.insert(0, 'tests/frontends')\n"
        "from test_numba import conv1d, THREE\n"
        "print(compile(conv1d, THREE, 'sm_80').ptx, end='')"
    )
    done = [
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env=env)
        for env in ({**os.environ, "PYTHONHASHSEED": "1"}, {**os.environ, "PYTHONHASHSEED": "2"})
    ]
    assert done[0].stdout == done[1].stdout
    assert ".entry" in done[0].stdout


def test_counters_are_renamed_without_mixing_symbols_up() -> None:
    ptx = ".entry _ZN1m1fB3v17E() { _ZN1m1gB2v3E; _ZN1m1hB3v170E; _ZN1m3B2v3B4v170E; }"
    text, entry = mangling.canonical(ptx, "_ZN1m1fB3v17E")
    assert entry == "_ZN1m1fB2v1E"
    assert text == ".entry _ZN1m1fB2v1E() { _ZN1m1gB2v2E; _ZN1m1hB3v170E; _ZN1m3B2v2B2v3E; }"


def test_flags_in_names_become_numbers() -> None:
    ptx = ".entry _ZN1m1fB3v17B8cw51sm80E() { _ZN08NumbaEnv1m1gB2v3B8cw51sm80E; _ZN1m1hB2v3B6cw51fmE; }"
    text, entry = mangling.canonical(ptx, "_ZN1m1fB3v17B8cw51sm80E")
    assert entry == "_ZN1m1fB2v1B2f1E"
    assert text == ".entry _ZN1m1fB2v1B2f1E() { _ZN08NumbaEnv1m1gB2v2B2f1E; _ZN1m1hB2v2B2f2E; }"


def test_a_kernel_has_one_name_on_all_architectures() -> None:
    assert {compile(conv1d, THREE, arch).entry for arch in ("sm_80", "sm_86", "sm_90")} == {
        compile(conv1d, THREE, "sm_89").entry
    }


def test_arrays_in_memory_are_numbered_afresh_by_kind() -> None:
    ptx = ".entry f() { _cudapy_smem_9; _cudapy_lmem_12; _cudapy_smem_12; _cudapy_smem_9; my_cudapy_smem_9; }"
    text, _ = mangling.canonical(ptx, "f")
    assert text == (
        ".entry f() { _cudapy_smem_1; _cudapy_lmem_1; _cudapy_smem_2; _cudapy_smem_1; my_cudapy_smem_9; }"
    )


def test_functions_that_numba_links_in_from_outside_are_refused_by_name():
    def halves(x, y):
        i = cuda.grid(1)
        if i < y.shape[0]:
            y[i] = x[i] + y[i]

    def printing(x):
        print(x[0])

    with pytest.raises(SignatureError, match="half") as caught:
        compile(halves, "void(float16[::1], float16[::1])", "sm_80")
    assert "float32" in caught.value.next_step
    assert "vprintf" in compile(printing, "void(float32[::1])", "sm_80").ptx
