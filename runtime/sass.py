"""Machine code as nvdisasm shows it: text for people, instructions for the report and for comparing two cubins."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hybridcc.errors import ToolchainError
from hybridcc.runtime import toolchain
from hybridcc.runtime.assemble import Assembler, Cubin


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One machine instruction: ``predicate`` is "@P0" or ""."""

    predicate: str
    opcode: str
    operands: str

    def __str__(self) -> str:
        return " ".join(part for part in (self.predicate, self.opcode, self.operands) if part)


@dataclass(frozen=True, slots=True)
class SassFunction:
    """One function's instructions in address order."""

    name: str
    instructions: tuple[SassInstruction, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.name}:", *(f"    {instruction} ;" for instruction in self.instructions)])


def disassemble(*cubins: Cubin) -> tuple[tuple[SassFunction, ...], ...]:
    """The functions of each cubin. A call costs a quarter of a second whatever the size, so cubins go side by side."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return tuple(pool.map(_functions, cubins))


def disassemble_bytes(cubins: Sequence[bytes], arch: str) -> tuple[tuple[SassFunction, ...], ...]:
    """disassemble(), of cubins that were read from files."""
    unknown = Assembler("nvjitlink", "")
    return disassemble(*(Cubin(code, arch, unknown, (), "") for code in cubins))


def sass(cubin: Cubin) -> str:
    """nvdisasm's own listing, with labels."""
    return _nvdisasm(cubin, "-c")


def listing(cubin: Cubin) -> str:
    """nvdisasm's listing with line information, one ``//##`` line where the source line changes."""
    return _nvdisasm(cubin, "-g", "-c")


def _functions(cubin: Cubin) -> tuple[SassFunction, ...]:
    _meta, functions = json.loads(_nvdisasm(cubin, "-json"))
    return tuple(
        SassFunction(
            function["function-name"],
            tuple(
                SassInstruction(_predicate(line.get("predicate", "")), line["opcode"], line.get("operands", ""))
                for line in function["sass-instructions"]
            ),
        )
        for function in functions
    )


def _predicate(text: str) -> str:
    return text if not text or text.startswith("@") else f"@{text}"


def _nvdisasm(cubin: Cubin, *options: str) -> str:
    tool = toolchain.find("nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin", prefix="hybridcc-") as file:
        file.write(cubin.bytes)
        file.flush()
        done = subprocess.run(
            [str(tool.path), *options, file.name],
            capture_output=True,
            text=True,
            env=toolchain.environment(),
            check=False,
        )
    if done.returncode != 0:
        raise ToolchainError(
            f"nvdisasm {tool.version} cannot read a cubin for {cubin.arch}: {(done.stderr or done.stdout).strip()}",
            next_step=f"pip install --upgrade {toolchain.PARTS['nvdisasm'].distribution}",
        )
    return done.stdout
