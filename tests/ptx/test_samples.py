"""The instruction table held against ptxas: operands, register types, least versions and architectures."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hybridcc.ptx import isa
from hybridcc.ptx.isa import OperandRule
from hybridcc.ptx.nodes import Instruction, Name
from hybridcc.ptx.printer import print_statement
from tests.ptx.samples import by_hand, instruction, made, refusals, variants

NEWEST = (9, 0)
BY_HAND_ALONE = frozenset(
    {
        "call", "cp", "mma", "wmma", "tex", "tld4", "suld", "sust", "sured", "tensormap", "setmaxnreg",
        "tcgen05", "wgmma",
    }
)  # fmt: skip
"""Opcodes whose operands no rule of types describes; samples.ptx has instances."""
OF_ANOTHER_TIME = (
    "Rounding modifier", "without '.sync'", "Unknown modifier '.sub'", "requires .b32 or .b64",
    "Unexpected instruction types",
    "Illegal modifier '.cluster' for instruction 'membar'", "Result vector expected",
    "Arguments mismatch for instruction 'cvt'", ".acquire modifier required",
)  # fmt: skip
"""What ptxas 13 says of variants that only older versions of PTX had, or that need more operands than the least."""
NEWER_THAN_90 = ("requires .target sm_100", "not supported on .target 'sm_90a'")


def samples() -> list[str]:
    from_table = [made(v) for v in variants() if v.split(".")[0] not in BY_HAND_ALONE]
    return [s for s in from_table if s] + by_hand()


def test_every_variant_seen_in_the_wild_has_a_form() -> None:
    for variant in variants():
        opcode, *modifiers = variant.split(".")
        forms = isa.OPCODES[opcode].forms
        assert any(all(w.lstrip(".") in modifiers for w in f.when) for f in forms), variant


def test_every_sample_is_known() -> None:
    assert [s for s in samples() if isa.lookup(instruction(s)) is None] == []


def test_ptxas_takes_the_operands_that_the_table_gives(tmp_path: Path) -> None:
    lines = samples()
    refused = refusals(lines, NEWEST, "sm_90a", tmp_path)
    assert len(lines) > 750
    unexplained = {
        lines[i]: messages
        for i, messages in refused.items()
        if not any(known in m for m in messages for known in OF_ANOTHER_TIME + NEWER_THAN_90)
    }
    assert unexplained == {}
    assert len(refused) < 40


def test_ptxas_takes_the_registers_that_the_table_takes(tmp_path: Path) -> None:
    lines: list[str] = []
    expected: list[bool] = []
    for found, position, rule, wanted in _typed_operands(tmp_path):
        for type_ in ("pred", "b16", "b32", "b64", "u32", "s64", "f16", "f32", "f64"):
            lines.append(_with(found, position, f"%{type_}_7"))
            expected.append(isa.accepts(f".{type_}", wanted, wider=rule.wider))
    refused = refusals(lines, NEWEST, "sm_90a", tmp_path)
    pairs = list(enumerate(zip(lines, expected, strict=True)))
    assert len(lines) > 7_000
    assert [line for i, (line, takes) in pairs if takes and i in refused] == []
    missed = [line for i, (line, takes) in pairs if not takes and i not in refused]
    assert {line.split(".")[0] for line in missed} == {"movmatrix", "fns"}, "a predicate or float that ptxas lets pass"
    assert len(missed) == 4


def _typed_operands(folder: Path) -> Iterator[tuple[Instruction, int, OperandRule, str]]:
    """Each place for a register in each form that ptxas takes, with the type that the table wants there."""
    lines = samples()
    refused = refusals(lines, NEWEST, "sm_90a", folder)
    seen = set()
    for found in (instruction(s) for i, s in enumerate(lines) if i not in refused):
        form = isa.form(found)
        assert form is not None
        key = (found.opcode, form, isa.types(found))
        for position, (operand, wanted) in enumerate(zip(found.operands, isa.operand_types(found), strict=True)):
            if key not in seen and wanted and isinstance(operand, Name) and operand.text.startswith("%"):
                yield found, position, form.operands[min(position, len(form.operands) - 1)], wanted
        seen.add(key)


def _with(found: Instruction, position: int, register: str) -> str:
    operands = list(found.operands)
    operands[position] = Name(register)
    return print_statement(replace(found, operands=tuple(operands)), "")


VERSIONS = [(6, 3), (6, 4), (6, 5), *((7, n) for n in range(9)), *((8, n) for n in range(9)), (9, 0)]
ARCHITECTURES = {"sm_75": (6, 3), "sm_80": (7, 0), "sm_86": (7, 1), "sm_89": (7, 8), "sm_90": (7, 8), "sm_100": (8, 6)}
"""What ptxas 13 knows, with the PTX version that brought each."""


def test_least_versions_and_architectures(tmp_path: Path) -> None:
    """Accepted at what the table says; refused one PTX version or one architecture below."""
    lines = samples()
    hopeless = {i for i, m in refusals(lines, NEWEST, "sm_90a", tmp_path).items() if not _newer(m)}
    groups: dict[tuple[tuple[int, int], int, bool], list[str]] = defaultdict(list)
    for index, line in enumerate(lines):
        needs = isa.requirement(instruction(line))
        assert needs is not None
        if index not in hopeless:
            groups[max(needs.ptx, VERSIONS[0]), max(needs.sm, 75), needs.arch_specific].append(line)
    early: list[str] = []
    late: list[str] = []
    for (ptx, sm, only), group in groups.items():
        target = next(t for t in ARCHITECTURES if int(t[3:]) >= sm)
        least = max(ptx, ARCHITECTURES[target])
        refused = refusals(group, least, target + "a" * only, tmp_path)
        early += [f"{group[i]} at {least} {target}: {m[0]}" for i, m in refused.items()]
        if least == ptx and ptx > VERSIONS[0]:
            before = VERSIONS[VERSIONS.index(ptx) - 1]
            older = [t for t, version in ARCHITECTURES.items() if version <= before]
            at = target if target in older else older[-1]
            refused = refusals(group, before, at, tmp_path)
            late += [f"{line} is taken at {before} {at}" for i, line in enumerate(group) if i not in refused]
        if sm > 75:
            below = list(ARCHITECTURES)[list(ARCHITECTURES).index(target) - 1]
            refused = refusals(group, NEWEST, below, tmp_path)
            late += [f"{line} is taken on {below}" for i, line in enumerate(group) if i not in refused]
    assert early == [], "\n".join(early)
    assert late == [], "\n".join(late)


def _newer(messages: list[str]) -> bool:
    return all(any(word in m for word in NEWER_THAN_90) for m in messages)
