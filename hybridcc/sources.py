"""From what the command line names to kernels: each compiled once per architecture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hybridcc.errors import InputError
from hybridcc.passes.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Source:
    """One kernel: its compilations (one per architecture, in the order asked), and its author's examples."""

    name: str
    path: str
    kernels: tuple[Kernel, ...]
    examples: Callable[[], object] | None = None


def load(
    target: str, architectures: Sequence[str], *, signature: str | None = None, entry: str | None = None
) -> tuple[Source, ...]:
    """``file.py``, ``file.py:name``, ``file.ptx``, ``file.mlir``. Raises InputError and its kin."""
    raise InputError("todo")
