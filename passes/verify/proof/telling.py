"""A certificate in words: which places of the two kernels belong together, and what relates the two sides there."""

from __future__ import annotations

from typing import Any

from hybridcc.passes.verify.proof.certificate import Certificate, Node, read
from hybridcc.passes.verify.proof.program import Program
from hybridcc.passes.verify.proof.reading import read_program
from hybridcc.ptx import parse


def alignment(certificate: str, base: str, candidate: str, entry: str | None) -> list[dict[str, Any]]:
    """One entry for each pair of aligned places. Raises BadCertificate."""
    sides = read_program(parse(base, "base"), entry), read_program(parse(candidate, "candidate"), entry)
    found: Certificate = read(certificate)
    return [_told(node, *sides) for node in found.nodes]


def _told(node: Node, base: Program, candidate: Program) -> dict[str, Any]:
    return {
        "node": node.name,
        "base": base.place(node.base_at),
        "candidate": candidate.place(node.candidate_at),
        "invariants": [
            *(f"base {register} = {term}" for register, term in sorted(node.base.items())),
            *(f"candidate {register} = {term}" for register, term in sorted(node.candidate.items())),
            *(str(condition) for condition in node.conditions),
        ],
        "edges": [
            {"to": edge.target, "base_visits": edge.base_visits, "candidate_visits": edge.candidate_visits}
            for edge in node.edges
        ],
    }
