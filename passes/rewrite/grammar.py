"""The form of an answer as a grammar, for decoding that can give no other (llguidance's dialect of Lark).

Opcodes come from the instruction table: those that a rewrite may hold on every architecture that is asked for. What
the grammar leaves to the answer check is what needs more than form: types, the interface, which modifiers go together.
"""

from __future__ import annotations

from functools import cache

from hybridcc.ptx import isa
from hybridcc.ptx.isa import Effect
from hybridcc.ptx.targets import target

LEAST_ARCHITECTURE = "sm_80"
REGISTER_TYPES = (".pred", ".b16", ".b32", ".b64", ".f32", ".f64")
_FORBIDDEN = frozenset({Effect.CALL, Effect.EXIT, Effect.CONTROL})
_BRANCH = "bra"

_RULES = r"""
start: "```ptx\n" declaration* line+ "```"
declaration: ".reg " TYPE " " names ";\n"
names: NAME COUNT? (", " NAME COUNT?)*
line: LABEL ":\n" | "  " statement ";\n"
statement: PRAGMA | guard? BRANCH " " LABEL | guard? OPCODE MODIFIERS " " operand (", " operand)*
guard: "@" "!"? NAME " "
operand: NAME | LITERAL | SPECIAL | vector | address
vector: "{" NAME ", " NAME (", " NAME ", " NAME)? "}"
address: "[" NAME OFFSET? "]"
NAME: /%[a-z][a-z0-9_]{0,7}/
COUNT: /<[1-9][0-9]?>/
LABEL: /\$[A-Z][A-Z0-9_]{0,11}/
LITERAL: /-?[0-9]{1,19}/ | /0x[0-9A-F]{1,16}/ | /0f[0-9A-F]{8}/ | /0d[0-9A-F]{16}/
OFFSET: /\+[0-9]{1,5}/
MODIFIERS: /(\.[a-z][a-z0-9]{0,15}){0,5}/
PRAGMA: ".pragma \"nounroll\""
"""


def opcodes(arch: str = LEAST_ARCHITECTURE) -> tuple[str, ...]:
    """What a rewrite may hold besides branches, sorted. Raises UnknownArchitecture."""
    major, minor = target(arch).capability
    here = 10 * major + minor
    return tuple(
        sorted(
            name
            for name, opcode in isa.OPCODES.items()
            if any(
                not form.effects & _FORBIDDEN and form.least_sm <= here and not form.arch_specific
                for form in opcode.forms
            )
            and name != _BRANCH
        )
    )


@cache
def answer_grammar(arch: str = LEAST_ARCHITECTURE) -> str:
    """One fenced block of PTX statements. Raises UnknownArchitecture."""
    words = {
        "OPCODE": opcodes(arch),
        "TYPE": REGISTER_TYPES,
        "SPECIAL": tuple(sorted(isa.SPECIAL_REGISTERS)),
        "BRANCH": (_BRANCH,),
    }
    told = (f"{name}: {' | '.join(_quoted(word) for word in found)}" for name, found in words.items())
    return _RULES.strip() + "\n" + "\n".join(told) + "\n"


def _quoted(word: str) -> str:
    return '"' + word + '"'
