"""What a device answered: one compressed file with the bytes of every case and where they came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tests.hardware.cases import Case
from tests.hardware.operands import ROWS, rows

SCHEMA = 1
_DTYPES = {1: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@dataclass(frozen=True, slots=True)
class Answers:
    """``origin``: GPU, driver, assembler with version, date. ``missing``: cases that failed there, with the reason."""

    origin: Mapping[str, str]
    outputs: Mapping[str, bytes]
    missing: Mapping[str, str]

    def results(self, case: Case) -> tuple[np.ndarray, ...]:
        return split(case, self.outputs[case.name])


@cache
def inputs(case: Case) -> np.ndarray:
    """Sources by 512 rows, in 64-bit slots."""
    return rows(case.seed, case.sources, nonzero=case.divides, divides=case.opcode == "div")


def digest(cases: tuple[Case, ...]) -> str:
    """Of the operands and instructions of all cases: answers belong to just these."""
    total = hashlib.sha256()
    for case in cases:
        total.update(case.body.encode())
        total.update(inputs(case).tobytes())
    return total.hexdigest()


def split(case: Case, output: bytes) -> tuple[np.ndarray, ...]:
    """A case's bytes as one array per result."""
    arrays, at = [], 0
    for width in case.results:
        size = ROWS * max(1, width // 8)
        arrays.append(np.frombuffer(output[at : at + size], _DTYPES[width]))
        at += size
    return tuple(arrays)


def save(path: Path, answers: Answers, cases: tuple[Case, ...]) -> None:
    order = [c.name for c in cases if c.name in answers.outputs]
    index = {
        "schema": SCHEMA,
        "origin": dict(answers.origin),
        "digests": {c.name: digest((c,))[:16] for c in cases if c.name in answers.outputs},
        "order": order,
        "sizes": [len(answers.outputs[n]) for n in order],
        "missing": dict(answers.missing),
    }
    blob = np.frombuffer(b"".join(answers.outputs[n] for n in order), np.uint8)
    np.savez_compressed(path, index=np.frombuffer(json.dumps(index).encode(), np.uint8), outputs=blob)


def load(path: Path, cases: tuple[Case, ...]) -> Answers:
    """Only answers to the very operands of today's cases; the others count as missing."""
    with np.load(path) as archive:
        index = json.loads(archive["index"].tobytes())
        blob = archive["outputs"].tobytes()
    if index["schema"] != SCHEMA:
        raise ValueError(f"{path} has schema {index['schema']}, not {SCHEMA}")
    outputs, at = {}, 0
    for name, size in zip(index["order"], index["sizes"], strict=True):
        outputs[name] = blob[at : at + size]
        at += size
    missing = dict(index["missing"])
    known = {c.name: c for c in cases}
    for name in list(outputs):
        if name not in known or digest((known[name],))[:16] != index["digests"][name]:
            del outputs[name]
            missing[name] = "the operands have changed since"
    return Answers(index["origin"], outputs, missing)
