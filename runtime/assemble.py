"""PTX to machine code for one architecture, by nvJitLink (a library, kept in a child process) or by ptxas.

The assembler (name, version, flags) is part of a variant's identity: the two give different machine code for one
PTX, so whatever is compared must come from the same one.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias, assert_never

from hybridcc.errors import AssemblyError, InputError, ToolchainError, UnknownArchitecture
from hybridcc.ptx.source import WIDEST
from hybridcc.runtime import nvjitlink, toolchain
from hybridcc.runtime.assembler_log import Message, Resources, maximum_version, messages, resources
from hybridcc.runtime.elf import shared_bytes

AssemblerName: TypeAlias = Literal["nvjitlink", "ptxas"]

TIMEOUT_S = 300
"""ptxas may take minutes on generated code of megabytes; longer is taken for a hang."""


@dataclass(frozen=True, slots=True)
class Assembler:
    """Which assembler made a cubin; ``flags`` are ptxas's own spelling for both, in the order given."""

    name: AssemblerName
    version: str
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.name, self.version, *self.flags))


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for ``arch`` with the assembler's own account of it.

    ``notes`` says in words what had to be changed in the PTX's header for this assembler and architecture.
    The figures below are the first entry's; ``entries`` has them all.
    """

    bytes: bytes = field(repr=False)
    arch: str
    assembler: Assembler
    entries: tuple[Resources, ...]
    log: str = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def registers(self) -> int:
        return self._first.registers

    @property
    def spill_stores(self) -> int:
        return self._first.spill_stores

    @property
    def spill_loads(self) -> int:
        return self._first.spill_loads

    @property
    def shared_bytes(self) -> int:
        return self._first.shared

    @property
    def local_bytes(self) -> int:
        return self._first.stack

    def resources(self, entry: str) -> Resources:
        """The account of one entry. Raises InputError when the cubin has none of that name."""
        for account in self.entries:
            if account.entry == entry:
                return account
        raise InputError(f"the cubin holds no entry {entry}", next_step="name one of its entries")

    @property
    def _first(self) -> Resources:
        if not self.entries:
            raise InputError("the PTX has no entry: only device functions", next_step="give PTX with an .entry")
        return self.entries[0]


def identity(assembler: AssemblerName = "nvjitlink", flags: tuple[str, ...] = ()) -> Assembler:
    """What ``assemble`` with the same arguments will call itself. Raises ToolchainError if it is not installed."""
    return Assembler(assembler, toolchain.find(assembler).version, flags)


def assemble(
    ptx: str,
    arch: str,
    assembler: AssemblerName = "nvjitlink",
    flags: tuple[str, ...] = (),
    *,
    max_registers: int | None = None,
    name: str = "kernel.ptx",
    ptxas: Path | None = None,
) -> Cubin:
    """Machine code of ``ptx`` for ``arch`` ("sm_90"). ``ptxas`` is another ptxas to run than the wheel's.

    ``flags`` are ptxas's ("-O0", "-fmad=false"), whichever the assembler. A ``.version`` newer than the assembler
    knows is lowered to its newest, and a ``.target`` above ``arch`` to ``arch``; whether the code can live with
    that, the assembler decides. Raises UnknownArchitecture, AssemblyError (with the log and the PTX line) and
    ToolchainError; a failure of the assembler never ends this process by an exception of another kind.
    """
    if max_registers is not None:
        flags = (*flags, f"--maxrregcount={max_registers}")
    maker = made_by(assembler, flags, ptxas)
    if _ARCH.fullmatch(arch) is None:
        raise _unknown_architecture(arch, maker)
    if ".version" not in ptx:
        raise AssemblyError("this is not PTX: it has no .version", where=name, next_step="give the text of a .ptx file")
    text, notes = _ascii(ptx)
    text, target_notes = _fit_target(text, arch)
    notes += target_notes
    code, log = _run(maker, text, arch, ptxas)
    newest = maximum_version(log) if code is None else None
    if newest is not None:
        text, note = _lower_version(text, newest)
        notes += (note,)
        code, log = _run(maker, text, arch, ptxas)
    if code is None:
        raise _failure(maker, log, text, name, notes)
    accounts = resources(log)
    if not accounts and _HAS_ENTRY.search(text):
        raise ToolchainError(
            f"{maker.name} {maker.version} assembled {name} and told nothing of its registers",
            next_step="report this with the PTX; --assembler ptxas may serve meanwhile",
        )
    accounts = tuple(replace(a, shared=max(a.shared, shared_bytes(code, a.entry, arch))) for a in accounts)
    return Cubin(code, arch, maker, accounts, log, notes)


def made_by(assembler: AssemblerName, flags: tuple[str, ...] = (), ptxas: Path | None = None) -> Assembler:
    """As ``identity``, also of another ptxas than the wheel's. Raises InputError for a program that is none."""
    return identity(assembler, flags) if ptxas is None else Assembler("ptxas", _version_of(ptxas), flags)


def _version_of(ptxas: Path) -> str:
    """Raises InputError for a program that is no ptxas."""
    try:
        done = subprocess.run([ptxas, "--version"], capture_output=True, text=True, timeout=60, check=False)
        found = re.search(r"Ptx optimizing assembler.*\bV([\d.]+)", done.stdout, re.DOTALL)
    except (OSError, subprocess.TimeoutExpired):
        found = None
    if found is None:
        raise InputError("this is no ptxas that can be run", where=str(ptxas), next_step="give the path of a ptxas")
    return found[1]


def _run(made_by: Assembler, ptx: str, arch: str, ptxas: Path | None) -> tuple[bytes | None, str]:
    match made_by.name:
        case "nvjitlink":
            return _nvjitlink(made_by, ptx, arch)
        case "ptxas":
            return _ptxas(made_by, ptx, arch, ptxas or toolchain.find("ptxas").path)
        case other:
            assert_never(other)


def _nvjitlink(made_by: Assembler, ptx: str, arch: str) -> tuple[bytes | None, str]:
    """(code or None, log)."""
    # -no-cache: beside a driver nvJitLink answers a text it has seen from the driver's cache, and then tells nothing
    options = [f"-arch={arch}", "-verbose", "-no-cache", *(f"-Xptxas={flag}" for flag in made_by.flags)]
    answer = nvjitlink.link(options, ptx.encode("ascii"), timeout_s=TIMEOUT_S)
    if answer.stage == "create":
        raise _unknown_architecture(arch, made_by)
    return (answer.code if answer.result == 0 else None), answer.log


def _ptxas(made_by: Assembler, ptx: str, arch: str, program: Path) -> tuple[bytes | None, str]:
    """(code or None, log)."""
    with tempfile.TemporaryDirectory(prefix="hybridcc-") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="ascii")
        command = [str(program), f"-arch={arch}", "-v", *made_by.flags, str(source)]
        try:
            done = subprocess.run(
                [*command, "-o", str(target)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                env=toolchain.environment(),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise AssemblyError(
                f"ptxas did not finish within {TIMEOUT_S} s", next_step="look for a region that was unrolled too far"
            ) from error
        log = (done.stdout + done.stderr).replace(str(source), "kernel.ptx")
        if "for option 'gpu-name'" in log:
            raise _unknown_architecture(arch, made_by)
        if done.returncode < 0:
            log += f"ptxas fatal   : ended by signal {-done.returncode}\n"
        return (target.read_bytes() if done.returncode == 0 else None), log


def _unknown_architecture(arch: str, made_by: Assembler) -> UnknownArchitecture:
    return UnknownArchitecture(
        f"{made_by.name} {made_by.version} knows no architecture {arch!r}",
        next_step="give one such as sm_80, sm_86 or sm_90",
    )


def _failure(made_by: Assembler, log: str, ptx: str, name: str, notes: tuple[str, ...]) -> AssemblyError:
    said = messages(log)
    first = next((m for m in said if m.severity != "warning"), Message(0, "fatal", log.strip() or "no reason given"))
    lines = ptx.splitlines()
    excerpt = f"\n  {lines[first.line - 1].strip()[:WIDEST]}" if 0 < first.line <= len(lines) else ""
    if notes:
        excerpt += f"\n  ({'; '.join(notes)})"
    return AssemblyError(
        f"{made_by.name} {made_by.version}: {first.text}{excerpt}",
        log=log,
        where=f"{name}:{first.line}" if first.line else name,
        next_step=_next_step(first),
    )


def _next_step(first: Message) -> str:
    if "Undefined reference" in first.text:
        return "nothing is linked in: the PTX itself must hold whatever function it calls"
    return "mend the PTX at that line" if first.line else "mend the PTX"


def _ascii(ptx: str) -> tuple[str, tuple[str, ...]]:
    """ptxas refuses any byte above 127, also in a comment (a user's file path, for example)."""
    if ptx.isascii():
        return ptx, ()
    return ptx.encode("ascii", "replace").decode("ascii"), ("characters outside ASCII replaced by ?",)


def _lower_version(ptx: str, newest: str) -> tuple[str, str]:
    text, count = re.subn(r"^(\s*\.version\s+)(\d+\.\d+)", rf"\g<1>{newest}", ptx, count=1, flags=re.MULTILINE)
    if count == 0:
        return ptx, f".version could not be lowered to {newest}"
    return text, f".version lowered to {newest}, the assembler's newest"


_HAS_ENTRY = re.compile(r"^[ \t]*(?:\.(?:visible|weak|extern)[ \t]+)?\.entry\b", re.MULTILINE)
_ARCH = re.compile(r"sm_(\d+)[af]?")
_TARGET = re.compile(r"^(\s*\.target\s+)(sm_(\d+)([af]?))", re.MULTILINE)


def _fit_target(ptx: str, arch: str) -> tuple[str, tuple[str, ...]]:
    """Lower a ``.target`` that is above ``arch``. One with a suffix (sm_90a) is for itself alone and is left."""
    wanted = _ARCH.fullmatch(arch)
    found = _TARGET.search(ptx)
    if wanted is None or found is None or found[4] or int(found[3]) <= int(wanted[1]):
        return ptx, ()
    text = ptx[: found.start(2)] + arch + ptx[found.end(2) :]
    return text, (f".target {found[2]} lowered to {arch}",)
