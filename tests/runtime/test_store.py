"""Decisions kept: found under exactly what they rest on, whole after kills, safe among processes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from hybridcc.errors import OutputError
from hybridcc.runtime import store
from hybridcc.runtime.store import Decision

IDENTITY = {"ptx": "ab", "device": "NVIDIA H200", "grid": [4, 1, 1], "driver": "13.0"}


def decision(**changes):
    return Decision({**IDENTITY, **changes}, "region0-1", "FASTER", "faster 5.2x", b"\x7fELF\0", {"ratio": 5.2}, 10.0)


def test_a_decision_comes_back_as_it_went(tmp_path):
    path = tmp_path / "deep" / "store.sqlite3"
    assert store.find(decision().key, path) is None
    store.save(decision(), path)
    assert store.find(decision().key, path) == decision()
    baseline = Decision({**IDENTITY, "ptx": "cd"}, "baseline", "NOT_FASTER", "same", None, {}, 11.0)
    store.save(baseline, path)
    assert store.find(baseline.key, path) == baseline


@pytest.mark.parametrize("change", [{"ptx": "ac"}, {"driver": "13.1"}, {"grid": [4, 1, 2]}, {"extra": 0}])
def test_whatever_a_decision_rests_on_is_in_its_key(change):
    assert decision(**change).key != decision().key


def test_the_order_of_an_identity_does_not_matter():
    assert store.key_of(dict(reversed(IDENTITY.items()))) == store.key_of(IDENTITY)


def test_a_newer_decision_replaces_the_older(tmp_path):
    path = tmp_path / "store.sqlite3"
    store.save(decision(), path)
    newer = Decision(IDENTITY, "baseline", "NOT_FASTER", "tie", None, {}, 20.0)
    store.save(newer, path)
    assert store.find(newer.key, path) == newer


def test_rows_of_another_schema_are_dropped_and_not_misread(tmp_path):
    path = tmp_path / "store.sqlite3"
    with sqlite3.connect(path) as old:
        old.execute("CREATE TABLE decisions (key TEXT, what TEXT)")
        old.execute("INSERT INTO decisions VALUES (?, 'old')", (decision().key,))
        old.execute("PRAGMA user_version = 99")
    old.close()
    assert store.find(decision().key, path) is None
    store.save(decision(), path)
    assert store.find(decision().key, path) == decision()


def test_a_place_that_cannot_be_used_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="store") as caught:
        store.save(decision(), tmp_path / "file" / "store.sqlite3")
    assert store.VARIABLE in caught.value.next_step
    (tmp_path / "garbage").write_text("this is no database, and long enough to be seen as none" * 20)
    with pytest.raises(OutputError):
        store.find(decision().key, tmp_path / "garbage")


def test_the_folder_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(store.VARIABLE, str(tmp_path))
    assert store.default_path().parent == tmp_path
    monkeypatch.delenv(store.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.default_path().parent == tmp_path / "hybridcc"


WRITER = """
import sys
from pathlib import Path
from hybridcc.runtime import store
for number in range(10_000):
    row = store.Decision({"who": sys.argv[2], "number": number}, "v", "FASTER", "r", b"x" * 5000, {}, 0.0)
    store.save(row, Path(sys.argv[1]))
    print(number, flush=True)
"""


def test_what_was_acknowledged_survives_a_kill_at_any_instant(tmp_path):
    path = tmp_path / "store.sqlite3"
    store.save(decision(), path)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(who)], stdout=subprocess.PIPE, text=True)
        for who in range(3)
    ]
    deadline = time.monotonic() + 60
    first = [writer.stdout.readline() for writer in writers if writer.stdout]
    assert len(first) == 3
    assert time.monotonic() < deadline
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
    for who, writer in enumerate(writers):
        said, _ = writer.communicate()
        complete = said.rpartition("\n")[0].split()
        for number in (0, *map(int, complete)):
            assert store.find(store.key_of({"who": str(who), "number": number}), path) is not None
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert store.find(decision().key, path) == decision()
