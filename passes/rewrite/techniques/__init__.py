"""Techniques: what a rewrite can do, one data file each, with the pair of texts that shows it and how far it holds.

A file says when it helps (``answers`` names the lints it answers, ``limiters`` what bounds a region that it speeds up,
``where`` what such a region has), the least architecture, the facts it needs, the
kernel before and after, the strongest verdict that checking gives the pair, and the effect measured or
``unmeasured``. A test holds each pair to its verdict.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from hybridcc.passes.rewrite.lints import Finding
from hybridcc.ptx.targets import target

FOLDER = Path(__file__).parent
MOST = 3
"""So many are shown in a prompt at most."""

HEADER = ".version 8.0\n.target {least}\n.address_size 64\n"


@dataclass(frozen=True, slots=True)
class Technique:
    """``before`` and ``after`` are bodies of an entry ``k`` with ``parameters``; ``module`` makes kernels of them.
    ``facts`` are what the second needs where it does not test them itself; ``check`` says how a test launches both."""

    name: str
    summary: str
    helps: str
    answers: tuple[str, ...]
    limiters: tuple[str, ...]
    where: tuple[str, ...]
    least: str
    facts: tuple[str, ...]
    verdict: Literal["proved", "proved, NaN payloads aside", "tested"]
    measured: str
    parameters: str
    before: str = field(repr=False)
    after: str = field(repr=False)
    check: dict[str, Any] = field(repr=False)
    declarations: str = ""
    """Of the module, ahead of the kernel."""

    def module(self, body: str) -> str:
        """PTX that the assembler takes."""
        head = HEADER.format(least=self.least)
        return f"{head}{self.declarations}.visible .entry k({self.parameters})\n{{\n{body}\tret;\n}}\n"


@cache
def techniques() -> tuple[Technique, ...]:
    """All of them, by name."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.toml")))


def choose(
    findings: Iterable[Finding],
    arch: str,
    facts: Iterable[str] = (),
    limiter: str = "",
    traits: Collection[str] | None = None,
) -> tuple[Technique, ...]:
    """At most MOST: those that speed up what ``limiter`` bounds, then those that answer what the lints found, the
    gravest finding's first. Those are left out that the architecture lacks, whose facts are not among
    ``facts``, and that are for regions which have what is not among ``traits`` (None: whose traits are not known)."""
    known, on = set(facts), target(arch)
    fitting = [
        t
        for t in techniques()
        if target(t.least).capability <= on.capability
        and set(t.facts) <= known
        and (traits is None or set(t.where) <= set(traits))
    ]
    answering = [t for finding in findings for t in fitting if finding.code in t.answers]
    chosen = {t.name: t for t in (*answering, *(t for t in fitting if limiter in t.limiters))}
    return tuple(sorted(chosen.values(), key=lambda t: limiter not in t.limiters))[:MOST]


def _read(path: Path) -> Technique:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    data |= {name: tuple(data[name]) for name in ("answers", "limiters", "where", "facts")}
    return Technique(name=path.stem, **data)
