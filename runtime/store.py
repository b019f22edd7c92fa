"""What was selected, where and why: one row per decision, in a SQLite file under the user's cache folder.

A row's key is a hash of everything the decision rests on, so a changed kernel, assembler, driver, GPU or launch shape
finds no row, and an old row is never wrong, only unused. Rows are written whole in one transaction; SQLite's
write-ahead log keeps a killed process from leaving half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hybridcc.errors import OutputError

SCHEMA_VERSION = 1
VARIABLE = "HYBRIDCC_CACHE"
"""The folder for the store instead of ``~/.cache/hybridcc``."""

BUSY_MS = 10_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS decisions (
    key TEXT PRIMARY KEY,
    identity TEXT NOT NULL,
    variant TEXT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    cubin BLOB,
    evidence TEXT NOT NULL,
    made REAL NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """``identity`` is what it rests on, in clear; ``cubin`` is None where the baseline was selected; ``evidence`` is
    JSON-ready: verdict, ratio, interval. ``made`` is seconds since 1970."""

    identity: Mapping[str, object]
    variant: str
    code: str
    reason: str
    cubin: bytes | None = field(repr=False)
    evidence: Mapping[str, object]
    made: float = field(default_factory=time.time)

    @property
    def key(self) -> str:
        return key_of(self.identity)


def key_of(identity: Mapping[str, object]) -> str:
    """Equal identities have equal keys, in whatever order their entries stand."""
    text = json.dumps({"schema": SCHEMA_VERSION, **identity}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def default_path() -> Path:
    given = os.environ.get(VARIABLE)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(given) if given else cache / "hybridcc") / "decisions.sqlite3"


def find(key: str, path: Path | None = None) -> Decision | None:
    """The decision under that key, or None. Raises OutputError when the store cannot be read."""
    path = path or default_path()
    if not path.is_file():
        return None
    with _open(path) as connection:
        row = connection.execute(
            "SELECT identity, variant, code, reason, cubin, evidence, made FROM decisions WHERE key = ?", (key,)
        ).fetchone()
    if row is None:
        return None
    identity, variant, code, reason, cubin, evidence, made = row
    return Decision(json.loads(identity), variant, code, reason, cubin, json.loads(evidence), made)


def save(decision: Decision, path: Path | None = None) -> None:
    """Put the decision in, in place of an older one under its key. Raises OutputError."""
    with _open(path or default_path()) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                decision.key,
                json.dumps(decision.identity, sort_keys=True),
                decision.variant,
                decision.code,
                decision.reason,
                decision.cubin,
                json.dumps(decision.evidence, sort_keys=True),
                decision.made,
            ),
        )
        connection.execute("COMMIT")


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for one use: none is kept, so none can cross a fork."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=BUSY_MS / 1000, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            connection.execute("PRAGMA journal_mode = WAL")
            _migrate(connection)
            yield connection
    except (OSError, sqlite3.Error) as error:
        raise OutputError(
            f"the store cannot be used: {error}",
            where=str(path),
            next_step=f"set {VARIABLE} to a folder that you may write, or remove the file",
        ) from error


def _migrate(connection: sqlite3.Connection) -> None:
    """Rows of another schema are dropped: they cost a race each, and are never misread."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
        connection.execute("DROP TABLE IF EXISTS decisions")
        connection.execute(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")
