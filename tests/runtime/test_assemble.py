"""Assembling with both assemblers: figures, refusals, headers that have to be fitted, and survival."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import pytest

from hybridcc.errors import AssemblyError, InputError, UnknownArchitecture
from hybridcc.runtime import nvjitlink
from hybridcc.runtime.assemble import AssemblerName, assemble, identity
from hybridcc.runtime.assembler_log import messages
from hybridcc.runtime.sass import disassemble, sass

SCALE = """//
.version 8.0
.target sm_80
.address_size 64

.visible .entry scale(.param .u64 data, .param .u32 count)
{
    .reg .pred %p<2>;
    .reg .f32 %f<3>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 tile[1024];
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.s32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    mul.f32 %f2, %f1, 0f40000000;
    st.shared.f32 [tile], %f2;
    bar.sync 0;
    ld.shared.f32 %f2, [tile];
    st.global.f32 [%rd3], %f2;
DONE:
    ret;
}
"""

both = pytest.mark.parametrize("assembler", get_args(AssemblerName))


@both
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90", "sm_90a"])
def test_cubin_with_the_assemblers_account(assembler: AssemblerName, arch: str) -> None:
    cubin = assemble(SCALE, arch, assembler)
    assert cubin.bytes[:4] == b"\x7fELF"
    assert 4 <= cubin.registers <= 32
    assert (cubin.spill_stores, cubin.spill_loads, cubin.local_bytes) == (0, 0, 0)
    assert cubin.shared_bytes >= 1024
    assert cubin.resources("scale").barriers == 1
    assert cubin.notes == ()
    assert cubin.assembler == identity(assembler)
    with pytest.raises(InputError):
        cubin.resources("other")


@both
def test_same_bytes_every_time(assembler: AssemblerName) -> None:
    assert assemble(SCALE, "sm_90", assembler).bytes == assemble(SCALE, "sm_90", assembler).bytes


def test_machine_code_is_readable() -> None:
    first, second = disassemble(assemble(SCALE, "sm_80"), assemble(SCALE, "sm_90"))
    for (function,) in (first, second):
        assert function.name == "scale"
        assert any(line.opcode.startswith("BAR") for line in function.instructions)
        assert any(line.predicate.startswith("@") for line in function.instructions)
        assert "EXIT" in str(function)
    assert "EXIT" in sass(assemble(SCALE, "sm_80"))


@both
def test_flags_take_effect(assembler: AssemblerName) -> None:
    fused = SCALE.replace("st.shared.f32", "add.f32 %f2, %f2, %f1;\n    st.shared.f32", 1)

    def opcodes(*flags: str) -> set[str]:
        ((function,),) = disassemble(assemble(fused, "sm_80", assembler, flags))
        return {line.opcode for line in function.instructions}

    assert "FFMA" in opcodes()
    assert "FFMA" not in opcodes("-fmad=false")
    cubin = assemble(SCALE, "sm_80", assembler, ("-O0",), max_registers=32)
    assert cubin.registers <= 32
    assert str(cubin.assembler).endswith("-O0 --maxrregcount=32")


@both
def test_spills_are_counted(assembler: AssemblerName) -> None:
    count = 64
    loads = "\n".join(f"ld.volatile.global.f32 %v{i}, [%rd3+{4 * i}];" for i in range(count))
    stores = "\n".join(f"st.volatile.global.f32 [%rd3+{4 * i}], %v{count - 1 - i};" for i in range(count))
    heavy = SCALE.replace(".reg .pred", f".reg .f32 %v<{count}>;\n    .reg .pred")
    heavy = heavy.replace("DONE:", f"{loads}\n{stores}\nDONE:")
    cubin = assemble(heavy, "sm_80", assembler, max_registers=24)
    assert cubin.registers <= 24
    assert cubin.spill_stores >= 4 * (count - 24)
    assert cubin.spill_loads >= 4 * (count - 24)
    assert cubin.local_bytes > 0


@both
def test_newer_version_is_lowered_and_said(assembler: AssemblerName) -> None:
    cubin = assemble(SCALE.replace(".version 8.0", ".version 9.5"), "sm_80", assembler)
    assert cubin.notes == (".version lowered to 9.0, the assembler's newest",)
    assert cubin.bytes == assemble(SCALE.replace(".version 8.0", ".version 9.0"), "sm_80", assembler).bytes


@both
def test_higher_target_is_lowered_and_said(assembler: AssemblerName) -> None:
    cubin = assemble(SCALE.replace("sm_80", "sm_90"), "sm_86", assembler)
    assert cubin.notes == (".target sm_90 lowered to sm_86",)


@both
def test_architecture_specific_target_is_for_itself_alone(assembler: AssemblerName) -> None:
    specific = SCALE.replace("sm_80", "sm_90a")
    assert assemble(specific, "sm_90a", assembler).arch == "sm_90a"
    with pytest.raises(AssemblyError, match="sm_90a"):
        assemble(specific, "sm_90", assembler)


@both
def test_non_ascii_comment_is_folded(assembler: AssemblerName) -> None:
    cubin = assemble(SCALE.replace("//", "// /home/jürgen/kernel.py"), "sm_80", assembler)
    assert cubin.notes == ("characters outside ASCII replaced by ?",)


@both
def test_error_names_the_line(assembler: AssemblerName) -> None:
    broken = SCALE.replace("bar.sync 0;", "bar.snyc 0;")
    with pytest.raises(AssemblyError) as caught:
        assemble(broken, "sm_80", assembler, name="scale.ptx")
    line = broken.splitlines().index("    bar.snyc 0;") + 1
    assert caught.value.where == f"scale.ptx:{line}"
    assert "bar.snyc 0;" in str(caught.value)
    assert messages(caught.value.log)[0].line == line
    assert caught.value.next_step


@both
@pytest.mark.parametrize("arch", ["sm_999", "foo", "", "sm_90 -O0", "compute_90"])
def test_unknown_architecture(assembler: AssemblerName, arch: str) -> None:
    with pytest.raises(UnknownArchitecture) as caught:
        assemble(SCALE, arch, assembler)
    assert "sm_80" in caught.value.next_step


@both
@pytest.mark.parametrize("text", ["", "hello", "\0", ".version", ".version 8.0", SCALE[:600], SCALE + "}", SCALE * 2])
def test_what_is_no_ptx_is_refused(assembler: AssemblerName, text: str) -> None:
    with pytest.raises(AssemblyError):
        assemble(text, "sm_80", assembler)


def test_unresolved_call_is_refused() -> None:
    with pytest.raises(AssemblyError):
        assemble(SCALE.replace("bar.sync 0;", "call nowhere;"), "sm_80")


def test_an_assembler_that_ends_its_process_leaves_this_one_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    for worker in list(nvjitlink._idle):
        worker.process.kill()
        worker.process.wait()
    assert assemble(SCALE, "sm_80").registers > 0  # a dead idle child is replaced

    class Dying(nvjitlink._Worker):
        def ask(self, options: list[str], ptx: bytes, timeout_s: float) -> nvjitlink.Answer:
            self.process.kill()
            return super().ask(options, ptx, timeout_s)

    with nvjitlink._lock:
        kept = list(nvjitlink._idle)
        nvjitlink._idle.clear()
    with monkeypatch.context() as patch:
        patch.setattr(nvjitlink, "_Worker", Dying)
        with pytest.raises(AssemblyError, match="ended its process by signal 9"):
            assemble(SCALE, "sm_80")
    nvjitlink._idle.extend(kept)
    assert assemble(SCALE, "sm_80").registers > 0


def test_a_hang_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybridcc.runtime.assemble.TIMEOUT_S", 0.0)
    many = "".join(SCALE[SCALE.index(".visible") :].replace("scale(", f"scale{i}(") for i in range(200))
    with pytest.raises(AssemblyError, match="signal 9"):
        assemble(SCALE + many, "sm_80")


def test_many_threads_assemble_at_once() -> None:
    expected = assemble(SCALE, "sm_80").bytes
    with ThreadPoolExecutor(8) as pool:
        cubins = list(pool.map(lambda _: assemble(SCALE, "sm_80").bytes, range(24)))
    assert set(cubins) == {expected}
    assert threading.active_count() < 20


def test_a_fork_gets_children_of_its_own() -> None:
    assemble(SCALE, "sm_80")
    child = os.fork()
    if child == 0:
        try:
            code = 0 if assemble(SCALE, "sm_80").registers > 0 else 3
        except BaseException:
            code = 4
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert assemble(SCALE, "sm_80").registers > 0


BROKEN_DEBUG = """.version 8.0
.target sm_80, debug
.visible .entry empty() { }
    .section .debug_abbrev
    {
.b8 1
.b8 17
.b8 0
    }
    .section .debug_info
    {
.b32 534
.b8 2
.b8 0
.b32 .debug_abbrev
.b8 8
.b8 1
%s
    }
    .section .debug_macinfo
    {
.b8 0
    }
""" % "\n".join([".b8 108,108,118,109,55,48"] * 90)  # noqa: UP031 - braces are PTX's here


def test_a_library_that_calls_exit_is_survived() -> None:
    """nvJitLink reads past the section's end: what lies there decides whether it calls exit() or reports."""
    with pytest.raises(AssemblyError, match=r"ended its process with exit status 1|Out of Bounds"):
        assemble(BROKEN_DEBUG, "sm_80")
    assert assemble(SCALE, "sm_80").registers > 0


def test_a_text_that_was_assembled_before_is_accounted_for_again():
    """Beside a driver nvJitLink may answer from a cache, without a word about registers."""
    first, second = (assemble(SCALE, "sm_90") for _ in range(2))
    assert second.bytes == first.bytes
    assert second.registers == first.registers > 0
