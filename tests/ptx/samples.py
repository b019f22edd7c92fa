"""One instruction for each variant of each opcode, with operands that the table says it takes.

Registers are called by their type: %f32_0 is of type .f32, a number apart. samples.ptx holds those that need
operands which a table of roles and types cannot say (tiles of matrices, tensor coordinates, fixed sizes).
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from hybridcc.ptx import isa, parse_statements
from hybridcc.ptx.nodes import Instruction
from hybridcc.runtime.toolchain import find
from tests.ptx.cubins import CORPUS

REGISTER_TYPES = (
    "b16", "b32", "b64", "b128", "u16", "u32", "u64", "s16", "s32", "s64", "f16", "f16x2", "f32", "f64", "pred",
)  # fmt: skip
_STANDS_FOR = {"b8": "b16", "u8": "b16", "s8": "b16", "bf16": "b16", "bf16x2": "b32", "tf32": "b32", "f32x2": "b64"}


def by_hand() -> list[str]:
    return (Path(__file__).parent / "samples.ptx").read_text().splitlines()


def variants() -> list[str]:
    """Variants seen in the wild ("cvt.rn.f32.s32")."""
    with (CORPUS / "ptx-opcode-variants.tsv").open(newline="") as handle:
        return [row["variant"] for row in csv.DictReader(handle, delimiter="\t")]


def made(variant: str) -> str | None:
    """The variant with a register of the right type in each place; None where the table has no type for one."""
    opcode, *words = variant.split(".")
    modifiers = tuple(f".{w}" for w in words)
    form = next((f for f in isa.OPCODES[opcode].forms if all(w in modifiers for w in f.when)), None)
    if form is None or any(r.repeated for r in form.operands):
        return None
    types = isa.types(Instruction(opcode, modifiers))
    vector = next((int(w[1:]) for w in words if w in ("v2", "v4")), 1)
    operands = []
    for number, rule in enumerate(r for r in form.operands if not r.optional):
        wanted = isa.type_of_rule(rule, types)
        match rule.role:
            case "m":
                operands.append("[%u32_9]" if "shared" in variant else "[%u64_9]")
            case "i":
                operands.append("0")
            case "l":
                operands.append("L")
            case "t":
                operands.append("T")
            case _ if not wanted:
                return None
            case _ if vector > 1 and rule.wider:
                operands.append("{" + ", ".join(register(wanted, k) for k in range(vector)) + "}")
            case _:
                operands.append(register(wanted, number))
    return f"{variant} {', '.join(operands)};"


def register(type_: str, number: int) -> str:
    name = type_.lstrip(".")
    return f"%{_STANDS_FOR.get(name, name)}_{number}"


def instruction(text: str) -> Instruction:
    (found,) = parse_statements(text)
    assert isinstance(found, Instruction), text
    return found


def refusals(lines: Sequence[str], version: tuple[int, int], target: str, folder: Path) -> dict[int, list[str]]:
    """What ptxas has against each line, by its index, in one run; it goes on after all but syntax errors."""
    head = f".version {version[0]}.{version[1]}\n.target {target}\n.address_size 64\n"
    types = [t for t in REGISTER_TYPES if t != "b128" or version >= (8, 3)]
    declarations = "".join(f".reg .{t} %{t}_<10>;\n" for t in types)
    text = f"{head}.entry k() {{\n{declarations}T: .branchtargets L;\nL:\n"
    before = text.count("\n")
    source = folder / "lines.ptx"
    source.write_text(text + "\n".join(lines) + "\nret;\n}\n")
    command = [str(find("ptxas").path), "-arch", target, str(source), "-o", str(folder / "lines.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[int, list[str]] = defaultdict(list)
    for line, kind, message in re.findall(r"line (\d+); (\w+)\s*: (.*)", done.stdout + done.stderr):
        assert kind != "fatal", f"{message}: {lines[int(line) - before - 1]}"
        if kind == "error":
            found[int(line) - before - 1].append(message)
    assert not found or (min(found) >= 0 and max(found) < len(lines)), found
    return found
