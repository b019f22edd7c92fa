"""The store's SQLite file: opened for one use at a time, among many processes, on whatever file system it stands.

Readers and writers go by SQLite's own rules (WAL, BEGIN IMMEDIATE, a busy timeout). Writers also take turns by a lock
on a file beside it, for two reasons: SQLite before 3.51.3 can corrupt a WAL file that two connections checkpoint and
write in the same instant (https://www.sqlite.org/wal.html#walresetbug), and its busy handler lets one of many waiting
writers starve. That lock is a POSIX one: a kill releases it, and a fork does not inherit it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import random
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from hybridcc.errors import OutputError

SCHEMA_VERSION = 2
VARIABLE = "HYBRIDCC_CACHE"
"""The folder for the store instead of ``~/.cache/hybridcc``."""

BUSY_S = 60.0
"""Longer than any writer holds the store; a process that was stopped in the middle of a write must not hang others."""

MOUNTS = Path("/proc/self/mounts")
NETWORK_TYPES = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "afs", "9p"),
        *("pvfs2", "orangefs", "panfs", "wekafs", "virtiofs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse"),
        *("fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs", "fuse.beegfs", "fuse.mfs", "fuse.rclone", "ocfs2", "gfs2"),
    }
)
"""Where the processes of several machines may meet: WAL needs memory that they share (https://www.sqlite.org/wal.html)."""

Journal: TypeAlias = Literal["wal", "delete"]

_SCHEMA = """
CREATE TABLE decisions (
    key TEXT PRIMARY KEY,
    situation TEXT NOT NULL,
    kernel TEXT NOT NULL,
    identity TEXT NOT NULL,
    variant TEXT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    cubin BLOB,
    evidence TEXT NOT NULL,
    made REAL NOT NULL,
    checked_day TEXT NOT NULL,
    checked_driver TEXT NOT NULL
);
CREATE INDEX decisions_by_situation ON decisions (situation, made);
CREATE INDEX decisions_by_kernel ON decisions (kernel);
CREATE TABLE measurements (
    key TEXT PRIMARY KEY,
    situation TEXT NOT NULL,
    kernel TEXT NOT NULL,
    identity TEXT NOT NULL,
    kind TEXT NOT NULL,
    evidence TEXT NOT NULL,
    made REAL NOT NULL
);
CREATE TABLE history (made REAL NOT NULL, what TEXT NOT NULL);
"""

_log = logging.getLogger("hybridcc")

_turn = threading.Lock()
"""Writers of this process: a POSIX lock does not hold between threads."""
_open_connection = threading.RLock()
"""Held while a connection is open; a fork waits for it, so that no connection ever crosses one."""


def _renew_locks() -> None:
    """In a forked child, where whichever thread held them is gone."""
    global _turn, _open_connection
    _turn, _open_connection = threading.Lock(), threading.RLock()


os.register_at_fork(
    before=lambda: _open_connection.acquire(),
    after_in_parent=lambda: _open_connection.release(),
    after_in_child=_renew_locks,
)


def default_path() -> Path:
    given = os.environ.get(VARIABLE)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(given) if given else cache / "hybridcc") / "decisions.sqlite3"


def network_type(path: Path) -> str:
    """The type of the network file system that ``path`` is on ("nfs4"), empty where it is on a disk of this machine
    or where nothing tells."""
    try:
        lines = MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    place = os.path.realpath(path)
    best, found = "", ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1])  # as in fstab(5)
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # a later mount hides an earlier one
            best, found = point, fields[2]
    return found if found in NETWORK_TYPES else ""


def journal(path: Path) -> Journal:
    return "delete" if network_type(path) else "wal"


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """A connection to read by, None where nothing was ever stored. Raises OutputError."""
    with _errors(path):
        if not path.is_file():
            yield None
            return
        with _connection(path) as connection:
            outdated = _version(connection) != SCHEMA_VERSION
            if not outdated:
                yield connection
        if outdated:
            with writing(path) as connection:
                yield connection


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection inside a transaction, committed where the block ends and undone where it raises. What was
    written is on the disk when this has returned. Raises OutputError."""
    with _errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _turn, _lock(path), _connection(path) as connection:
            _set_journal(connection, journal(path))
            connection.execute("BEGIN IMMEDIATE")
            try:
                _migrate(connection, path)
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise OutputError(
            f"the store cannot be used: {error}",
            where=str(path),
            next_step=f"set {VARIABLE} to a folder that you may write, or remove the file",
        ) from error


@contextmanager
def _connection(path: Path) -> Iterator[sqlite3.Connection]:
    with _open_connection, closing(sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        yield connection


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """This process's turn to write. Raises TimeoutError (an OSError) after BUSY_S."""
    deadline = time.monotonic() + BUSY_S
    with open(path.with_name(path.name + "-lock"), "ab") as file:
        while True:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError) as error:  # EAGAIN or EACCES: another process has it
                if time.monotonic() > deadline:
                    raise TimeoutError(f"another process has been writing it for {BUSY_S:.0f} s") from error
            time.sleep(random.uniform(0.001, 0.02))
        yield  # closing the file releases the lock


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _set_journal(connection: sqlite3.Connection, wanted: Journal) -> None:
    """SQLite does not wait for readers here, whatever the timeout."""
    deadline = time.monotonic() + BUSY_S
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != wanted:
        try:
            connection.execute(f"PRAGMA journal_mode = {wanted}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """An older schema's rows are dropped, which costs a race each, and it is said; a newer one's file is left alone."""
    found = _version(connection)
    if found == SCHEMA_VERSION:
        return
    if found > SCHEMA_VERSION:
        raise OutputError(
            f"the store is of a newer hybridcc (schema {found}; this one reads {SCHEMA_VERSION})",
            where=str(path),
            next_step=f"use that hybridcc, or set {VARIABLE} to another folder",
        )
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    rows = sum(connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables)
    for name in tables:
        connection.execute(f'DROP TABLE "{name}"')
    for statement in filter(str.strip, _SCHEMA.split(";")):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    if tables:
        what = f"started afresh: {rows} rows of schema {found} were dropped (now schema {SCHEMA_VERSION})"
        connection.execute("INSERT INTO history VALUES (?, ?)", (time.time(), what))
        _log.warning("%s: %s", path, what)
