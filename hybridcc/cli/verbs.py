"""The verbs by name, and a command group that imports a verb's module when that verb is called and not before.

typer looks at every option of every command before it answers ``--help``; with a dozen verbs that alone is half of what
``hybridcc --help`` may take.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperGroup

from hybridcc.cli.guard import guarded


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb is (``module:name`` below ``hybridcc.cli``, a function or a group of its own) and what it does."""

    at: str
    summary: str


VERBS = {
    "build": Verb("build:build", "Compile, rewrite, check and assemble kernels for each architecture."),
    "run": Verb("run:run", "Run a kernel on the CPU; every access, race and barrier is checked."),
    "ab": Verb("ab:ab", "Compare B's outputs with A's bit for bit, then race them."),
    "report": Verb("report:report", "Show what was selected and why, in any format."),
    "compare": Verb("compare:compare", "Hold the speeds of two runs against each other, row by row."),
    "regions": Verb("regions:regions", "List the regions of a target, hottest first, with their facts."),
    "region": Verb("region:region", "Write a region with its interface and facts, for editing."),
    "try": Verb("try_:try_", "Splice, check, prove and race a rewrite."),
    "profile": Verb("profile:profile", "Show a kernel's hot regions: share, bound, limiter, line."),
    "prompts": Verb("prompts:prompts", "Write the prompts for a target's hot regions, as a batch."),
    "answers": Verb("prompts:answers", "Answers of a language model to exported prompts."),
    "verify": Verb("verify:verify", "Prove that CANDIDATE does what BASE does."),
    "inspect": Verb("inspect_:inspect", "Explain a bundle, or repeat its checks from its files."),
    "tune": Verb("tune:tune", "Race what a bundle holds on this machine, and keep the selection."),
    "fmt": Verb("ptx:fmt", "Print a PTX module in the one layout of hybridcc's printer."),
    "store": Verb("store:app", "Look at, move and thin out the decisions that are kept."),
    "doctor": Verb("doctor:doctor", "Say what is and what is not available here."),
}
"""In the order of ``hybridcc --help``."""


class _Commands(MutableMapping[str, Any]):
    """Click's commands by name, each made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(name, VERBS[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"the verb {name} cannot be taken away")

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class LazyGroup(TyperGroup):
    """The group of all verbs. Its help is written from `VERBS`; only a verb that is called is imported."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


def _command(name: str, verb: Verb) -> Any:
    """Click's command of that verb, with its failures turned into messages and exit codes."""
    module, _, attribute = verb.at.partition(":")
    found = getattr(importlib.import_module(f"hybridcc.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)  # a group of one verb is a group all the same
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name)(guarded(found))
    return typer.main.get_command(alone)
