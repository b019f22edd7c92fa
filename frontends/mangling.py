"""Numba's mangled names without the counter and the flags in them.

Numba numbers the functions of a process as it compiles them and puts the number into every symbol
(``_ZN8__main__6conv1dB2v17...``: ``B`` length ``v`` number). The same kernel would get other PTX, and another hash,
in every process. Here the numbers become 1, 2, 3 … in order of appearance, the entry's own first: what a process
gives that compiles nothing else. Arrays in shared, local and constant memory are numbered likewise
(``_cudapy_smem_7``).

The flags that a function was compiled with stand in its name too (``B92cw51cXTL...``), the architecture among them,
compressed by whatever zlib there is. They become ``f1``, ``f2`` …, so that a kernel has one name on all architectures,
as it needs in a fatbin.
"""

from __future__ import annotations

import re

_SYMBOL = re.compile(r"[\w$]*_ZN\w+")
_TAG = re.compile(r"B(\d+)v(\d+)(?=B|E|\W|$|\d)")

_FLAGS = re.compile(r"B(\d+)(?=cw51)")
"""Where a compressed summary of Numba's TargetConfig begins: all of them begin with the same letters."""

_ARRAY = re.compile(r"\b_cudapy_([slc]mem)_(\d+)\b")


def canonical(ptx: str, entry: str) -> tuple[str, str]:
    """(PTX, entry), both with the numbers counted afresh and the flags by number. PTX with debug sections keeps its
    names, which stand there as bytes too."""
    if ".section" in ptx:
        return ptx, entry
    order: dict[str, int] = {}
    flags: dict[str, int] = {}
    for symbol in (entry, *_SYMBOL.findall(ptx)):
        for tag in _flags(symbol):
            flags.setdefault(tag, len(flags) + 1)
        for number in _numbers(_short(symbol, flags)):
            order.setdefault(number, len(order) + 1)
    text = _SYMBOL.sub(lambda found: _renumber(_short(found[0], flags), order), ptx)
    arrays: dict[tuple[str, str], int] = {}
    for kind, number in _ARRAY.findall(text):
        arrays.setdefault((kind, number), 1 + sum(k == kind for k, _ in arrays))
    return _ARRAY.sub(lambda found: f"_cudapy_{found[1]}_{arrays[found[1], found[2]]}", text), _renumber(
        _short(entry, flags), order
    )


def _flags(symbol: str) -> list[str]:
    return [symbol[found.end() :][: int(found[1])] for found in _FLAGS.finditer(symbol)]


def _short(symbol: str, flags: dict[str, int]) -> str:
    for tag in _flags(symbol):
        short = f"f{flags[tag]}"
        symbol = symbol.replace(f"B{len(tag)}{tag}", f"B{len(short)}{short}")
    return symbol


def _numbers(symbol: str) -> list[str]:
    return [number for length, number in _TAG.findall(symbol) if int(length) == len(number) + 1]


def _renumber(symbol: str, order: dict[str, int]) -> str:
    def fresh(found: re.Match[str]) -> str:
        length, number = found[1], found[2]
        if int(length) != len(number) + 1:
            return found[0]
        new = f"v{order[number]}"
        return f"B{len(new)}{new}"

    return _TAG.sub(fresh, symbol)
