"""ptxas's command line, read as far as a rewrite needs it: the one input, the architecture, the other options.

Whatever is not understood is no error here: ptxas gets the command line as it came, and says what is wrong with it.
ptxas has more options than it tells of (Triton 3.9 gives ``--regAllocOptLevel=2``); one that stands in one word with
its value is kept as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

VALUED = {
    "--Ofast-compile": "-Ofc",
    "--allow-expensive-optimizations": "-allow-expensive-optimizations",
    "--def-load-cache": "-dlcm",
    "--def-store-cache": "-dscm",
    "--device-function-maxrregcount": "-func-maxrregcount",
    "--device-stack-protector": "-device-stack-protector",
    "--entry": "-e",
    "--fmad": "-fmad",
    "--force-load-cache": "-flcm",
    "--force-store-cache": "-fscm",
    "--gpu-name": "-arch",
    "--input-as-string": "-ias",
    "--machine": "-m",
    "--maxntid": "-maxntid",
    "--maxrregcount": "-maxrregcount",
    "--minnctapersm": "-minnctapersm",
    "--opt-level": "-O",
    "--options-file": "-optf",
    "--output-file": "-o",
    "--position-independent-code": "-pic",
    "--register-usage-level": "-regUsageLevel",
    "--sanitize": "-sanitize",
    "--split-compile": "-split-compile",
}
"""Options of ptxas 13.0 that take a value: ``--long value``, ``--long=value``, ``-short value``, ``-short=value``."""

FLAGS = {
    "--compile-as-tools-patch": "-astoolspatch",
    "--compile-only": "-c",
    "--compiler-annotations": "-annotate",
    "--device-debug": "-g",
    "--disable-optimizer-constants": "-disable-optimizer-consts",
    "--disable-warnings": "-w",
    "--dont-merge-basicblocks": "-no-bb-merge",
    "--extensible-whole-program": "-ewp",
    "--g-tensor-memory-access-check": "-g-tmem-access-check",
    "--generate-line-info": "-lineinfo",
    "--gno-tensor-memory-access-check": "-gno-tmem-access-check",
    "--help": "-h",
    "--legacy-bar-warp-wide-behavior": "-legacy-bar-warp-wide-behavior",
    "--list-version": "-version-ls",
    "--make-errors-visible-at-exit": "-make-errors-visible-at-exit",
    "--optimize-float-atomics": "-opt-fp-atomics",
    "--override-directive-values": "-override-directive-values",
    "--preserve-relocs": "-preserve-relocs",
    "--return-at-end": "-ret-end",
    "--sp-bounds-check": "-sp-bounds-check",
    "--suppress-async-bulk-multicast-advisory-warning": "-suppress-async-bulk-multicast-advisory-warning",
    "--suppress-debug-info": "-suppress-debug-info",
    "--suppress-double-demote-warning": "-suppress-double-demote-warning",
    "--suppress-sparse-mma-advisory-info": "-suppress-sparse-mma-advisory-info",
    "--suppress-stack-size-warning": "-suppress-stack-size-warning",
    "--verbose": "-v",
    "--version": "-V",
    "--warn-on-double-precision-use": "-warn-double-usage",
    "--warn-on-local-memory-usage": "-warn-lmem-usage",
    "--warn-on-spills": "-warn-spills",
    "--warning-as-error": "-Werror",
}

ASKING = ("--help", "--version", "--list-version")
"""ptxas answers these and assembles nothing."""

LEFT_ALONE = {
    "--device-debug": "code for a debugger stays as its source is",
    "--sanitize": "instrumented code stays as its source is",
    "--compile-as-tools-patch": "a tool's patch stays as it is",
    "--entry": "only some of the entries are compiled",
    "--input-as-string": "the PTX is given on the command line",
}

STDIN = "-"

_LONG = {short: long for long, short in (VALUED | FLAGS).items()}
_JOINED = re.compile(r"(-O)([0-4])|(-m)(64)")
_CHIP = re.compile(r"sm_\d+[af]?")


@dataclass(frozen=True, slots=True)
class Command:
    """One PTX input to one architecture. ``at`` is where the input stands in the arguments; ``flags`` are the options
    that decide the machine code, as they came, those of options files in place."""

    arguments: tuple[str, ...]
    at: int
    arch: str
    flags: tuple[str, ...]

    @property
    def input(self) -> str:
        return self.arguments[self.at]

    def with_input(self, path: str) -> tuple[str, ...]:
        return (*self.arguments[: self.at], path, *self.arguments[self.at + 1 :])


@dataclass(frozen=True, slots=True)
class Straight:
    """Nothing to rewrite; ``reason`` is empty where nobody would expect it."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Token:
    """An option by its long name, or an input (``option`` empty). ``words`` is how it was written."""

    option: str
    value: str
    words: tuple[str, ...]
    at: int
    """Of the input in the arguments; -1 inside an options file."""


class _Unreadable(Exception):
    pass


def read(arguments: Sequence[str]) -> Command | Straight:
    """Raises OSError for an options file that cannot be read."""
    try:
        tokens = tuple(_tokens(arguments))
    except _Unreadable as unreadable:
        return Straight(str(unreadable))
    if any(token.option in ASKING for token in tokens):
        return Straight()
    inputs = [token for token in tokens if not token.option]
    for token in tokens:
        if token.option in LEFT_ALONE:
            return Straight(LEFT_ALONE[token.option])
    if not inputs:
        return Straight()
    if len(inputs) > 1:
        return Straight("several inputs make one module")
    if inputs[0].at < 0:
        return Straight("the input stands in an options file")
    archs = [token.value for token in tokens if token.option == "--gpu-name"]
    if not archs or not _CHIP.fullmatch(archs[-1]):
        return Straight(f"{archs[-1]} is no architecture to assemble for" if archs else "no architecture is given")
    shown = ("--gpu-name", "--output-file", "--verbose", "")
    flags = [word for token in tokens if token.option not in shown for word in token.words]
    return Command(tuple(arguments), inputs[0].at, archs[-1], tuple(flags))


def _tokens(arguments: Sequence[str], depth: int = 0) -> Iterator[_Token]:
    words = iter(enumerate(arguments))
    for at, word in words:
        if not word.startswith("-") or word == STDIN:
            yield _Token("", word, (word,), -1 if depth else at)
            continue
        if joined := _JOINED.fullmatch(word):
            yield _Token(_LONG[joined[1] or joined[3]], joined[2] or joined[4], (word,), -1)
            continue
        name, equals, value = word.partition("=")
        option = _LONG.get(name, name)
        written = (word,)
        if option in VALUED and not equals:
            _, value = next(words, (0, None))
            if value is None or option == "--opt-level":  # ptxas takes the level joined, or after "="
                raise _Unreadable(f"{word} lacks its value")
            written = (word, value)
        elif option in FLAGS and equals:
            raise _Unreadable(f"{word} takes no value")
        elif option not in VALUED and option not in FLAGS and not equals:  # its value may be the next word
            raise _Unreadable(f"{word} is no option that ptxas 13.0 tells of")
        if option != "--options-file":
            yield _Token(option, value or "", written, -1)
        elif depth > 8:
            raise _Unreadable("options files name each other")
        else:
            for file in (value or "").split(","):
                yield from _tokens(shlex.split(Path(file).read_text()), depth + 1)
