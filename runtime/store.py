"""What was measured and selected, where and why: one row per decision and one per variant measured.

A row's key is a hash of everything that the row rests on, so a changed kernel, assembler, driver, GPU or launch shape
finds no row, and an old row is never wrong, only unused. Variants have rows of their own, so a new one is measured
alone. Only what lasts is kept: an inconclusive race or a proof that ran out of time is tried again the next time.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from hybridcc.errors import InputError
from hybridcc.runtime import store_file
from hybridcc.runtime.store_file import SCHEMA_VERSION, default_path

MeasuredKind: TypeAlias = Literal["faster", "slower", "same", "refuted"]
"""What lasts. Inconclusive is no measurement."""

FORMAT = "hybridcc-store"


@dataclass(frozen=True, slots=True)
class Decision:
    """``identity`` is what it rests on, in clear, with what the launch is like under "situation"; ``cubin`` is None
    where the baseline was selected; ``evidence`` is JSON-ready: verdict, ratio, interval. ``made`` is seconds since
    1970; ``checked_day`` ("2025-01-31") and ``checked_driver`` say when and on what the cubin was last compared with
    the baseline, empty for never."""

    kernel: str
    identity: Mapping[str, object]
    variant: str
    code: str
    reason: str
    cubin: bytes | None = field(repr=False)
    evidence: Mapping[str, object]
    made: float = field(default_factory=time.time)
    checked_day: str = ""
    checked_driver: str = ""

    @property
    def key(self) -> str:
        return key_of(self.identity)


@dataclass(frozen=True, slots=True)
class Measured:
    """One variant against the baseline. ``identity`` holds the situation and the hash of the variant's cubin."""

    kernel: str
    identity: Mapping[str, object]
    kind: MeasuredKind
    evidence: Mapping[str, object]
    made: float = field(default_factory=time.time)

    @property
    def key(self) -> str:
        return key_of(self.identity)


Row: TypeAlias = Decision | Measured

_DECISION = "kernel, identity, variant, code, reason, cubin, evidence, made, checked_day, checked_driver"
_MEASURED = "kernel, identity, kind, evidence, made"


def key_of(identity: Mapping[str, object]) -> str:
    """Equal identities have equal keys, in whatever order their entries stand."""
    text = json.dumps({"schema": SCHEMA_VERSION, **identity}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def situation_of(identity: Mapping[str, object]) -> str:
    """The key of the situation that an identity names; its own where it names none."""
    situation = identity.get("situation")
    return key_of(situation if isinstance(situation, Mapping) else identity)


# --- reading; every function raises OutputError where the store cannot be used ---


def find(key: str, path: Path | None = None) -> Decision | None:
    """The decision under that key, or None."""
    return next(_decisions("WHERE key = ?", (key,), path), None)


def for_situation(key: str, path: Path | None = None) -> Iterator[Decision]:
    """Every decision that was made in that situation, newest first."""
    return _decisions("WHERE situation = ? ORDER BY made DESC", (key,), path)


def has_kernel(kernel: str, path: Path | None = None) -> bool:
    """Whether there is any decision on a kernel of that name: much cheaper to ask than what a key needs."""
    return bool(_select("SELECT 1 FROM decisions WHERE kernel = ? LIMIT 1", (kernel,), path))


def decisions(path: Path | None = None) -> tuple[Decision, ...]:
    """Every one, newest first."""
    return tuple(_decisions("ORDER BY made DESC, key", (), path))


def starting_with(prefix: str, path: Path | None = None) -> tuple[Decision, ...]:
    """Every decision whose key begins so."""
    return tuple(_decisions("WHERE substr(key, 1, ?) = ?", (len(prefix), prefix), path))


def measured(keys: Sequence[str], path: Path | None = None) -> dict[str, Measured]:
    """What is known of these variants, by key."""
    marks = ", ".join("?" * len(keys))
    rows = _select(f"SELECT {_MEASURED} FROM measurements WHERE key IN ({marks})", keys, path)
    return {row.key: row for row in map(_measured, rows)}


def measurements(path: Path | None = None) -> tuple[Measured, ...]:
    return tuple(map(_measured, _select(f"SELECT {_MEASURED} FROM measurements ORDER BY made DESC, key", (), path)))


def history(path: Path | None = None) -> tuple[tuple[float, str], ...]:
    """(when, what) of every time the store's schema changed."""
    return tuple(_select("SELECT made, what FROM history ORDER BY made", (), path))


def _decisions(where: str, values: Sequence[object], path: Path | None) -> Iterator[Decision]:
    return map(_decision, _select(f"SELECT {_DECISION} FROM decisions {where}", values, path))


def _select(query: str, values: Sequence[object], path: Path | None) -> list[tuple]:
    with store_file.reading(path or default_path()) as connection:
        return [] if connection is None else connection.execute(query, values).fetchall()


def _decision(row: tuple) -> Decision:
    kernel, identity, variant, code, reason, cubin, evidence, made, day, driver = row
    return Decision(
        kernel, json.loads(identity), variant, code, reason, cubin, json.loads(evidence), made, day, driver
    )


def _measured(row: tuple) -> Measured:
    kernel, identity, kind, evidence, made = row
    return Measured(kernel, json.loads(identity), kind, json.loads(evidence), made)


# --- writing: what was written has reached the disk when the call returns ---


def save(*rows: Row, path: Path | None = None) -> None:
    """Put rows in, all or none of them, in place of older ones under their keys."""
    with store_file.writing(path or default_path()) as connection:
        for row in rows:
            _insert(connection, row)


def mark_checked(key: str, day: str, driver: str, path: Path | None = None) -> None:
    """Its cubin was compared with the baseline, that day, on that driver."""
    with store_file.writing(path or default_path()) as connection:
        connection.execute("UPDATE decisions SET checked_day = ?, checked_driver = ? WHERE key = ?", (day, driver, key))


def forget(keys: Iterable[str], path: Path | None = None) -> int:
    """Take decisions out, and the measurements of situations that have no decision left; how many decisions went."""
    with store_file.writing(path or default_path()) as connection:
        gone = sum(connection.execute("DELETE FROM decisions WHERE key = ?", (key,)).rowcount for key in keys)
        connection.execute("DELETE FROM measurements WHERE situation NOT IN (SELECT situation FROM decisions)")
    return gone


def _insert(connection: sqlite3.Connection, row: Row) -> None:
    identity, evidence = json.dumps(row.identity, sort_keys=True), json.dumps(row.evidence, sort_keys=True)
    key, situation = row.key, situation_of(row.identity)
    if isinstance(row, Measured):
        values = (key, situation, row.kernel, identity, row.kind, evidence, row.made)
        connection.execute("INSERT OR REPLACE INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        return
    connection.execute(
        "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(key, situation, row.kernel, identity, row.variant, row.code, row.reason, row.cubin, evidence, row.made),
            *(row.checked_day, row.checked_driver),
        ),
    )


# --- taking rows elsewhere ---


def dump(path: Path | None = None) -> Iterator[str]:
    """The whole store as lines of JSON: a head, then one row each."""
    yield json.dumps({"format": FORMAT, "schema": SCHEMA_VERSION}) + "\n"
    for row in (*decisions(path), *measurements(path)):
        yield json.dumps({"row": type(row).__name__.lower(), "key": row.key, **_plain(row)}, sort_keys=True) + "\n"


def _plain(row: Row) -> dict[str, object]:
    data: dict[str, object] = {
        "kernel": row.kernel, "identity": row.identity, "evidence": row.evidence, "made": row.made
    }  # fmt: skip
    if isinstance(row, Measured):
        return {**data, "kind": row.kind}
    cubin = None if row.cubin is None else base64.b64encode(row.cubin).decode()
    return {**data, "variant": row.variant, "code": row.code, "reason": row.reason, "cubin": cubin}


def load(lines: Iterable[str], path: Path | None = None) -> tuple[int, int]:
    """Take rows in that ``dump`` wrote, all or none: (rows taken, rows left out because the store has one as new).

    A cubin that comes in counts as never checked. Raises InputError with the line for what ``dump`` never writes.
    """
    rows = list(_rows(lines))
    taken = 0
    with store_file.writing(path or default_path()) as connection:
        for row in rows:
            table = "measurements" if isinstance(row, Measured) else "decisions"
            old = connection.execute(f"SELECT made FROM {table} WHERE key = ?", (row.key,)).fetchone()
            if old is None or old[0] < row.made:
                _insert(connection, row)
                taken += 1
    return taken, len(rows) - taken


def _rows(lines: Iterable[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        try:
            data = json.loads(line)
            if number == 1:
                if data["format"] != FORMAT or data["schema"] != SCHEMA_VERSION:
                    raise InputError(
                        f"is no export of schema {SCHEMA_VERSION}", next_step="export it with this version of hybridcc"
                    )
                continue
            row = _row(data)
            if row.key != data["key"]:
                raise ValueError("its key is not the hash of its identity")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"is no row of an export: {error}", where=f"line {number}", next_step="export the store again"
            ) from None
        yield row


def _row(data: Mapping[str, object]) -> Row:
    row = dict(data)
    kind, _ = row.pop("row"), row.pop("key")
    _check_types(row, kernel=str, identity=dict, evidence=dict, made=float)
    if kind == "measured":
        if row["kind"] not in get_args(MeasuredKind):
            raise ValueError(f"{row['kind']} is no measurement")
        return Measured(**row)  # type: ignore[arg-type]
    _check_types(row, variant=str, code=str, reason=str)
    cubin = row["cubin"]
    decoded = None if cubin is None else base64.b64decode(str(cubin), validate=True)
    return replace(Decision(**{**row, "cubin": None}), cubin=decoded)  # type: ignore[arg-type]


def _check_types(row: Mapping[str, object], **types: type) -> None:
    for name, wanted in types.items():
        if not isinstance(row[name], wanted):
            raise ValueError(f"{name} is no {wanted.__name__}")
