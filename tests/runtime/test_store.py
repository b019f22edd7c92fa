"""Decisions kept: found under exactly what they rest on, whole after kills, safe among processes and forks."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from hybridcc.errors import InputError, OutputError
from hybridcc.runtime import store, store_file
from hybridcc.runtime.store import Decision, Measured
from tests.deep import store_kills

SITUATION = {"ptx": "ab", "device": "NVIDIA H200", "grid": [4, 1, 1], "driver": "13.0"}


def decision(made=10.0, policy="proved", **changes):
    identity = {"situation": {**SITUATION, **changes}, "policy": policy}
    return Decision("k", identity, "region0-1", "FASTER", "faster 5.2x", b"\x7fELF\0", {"ratio": 5.2}, made)


def measurement(variant="aa", **changes):
    return Measured("k", {"situation": {**SITUATION, **changes}, "variant": variant}, "slower", {"ratio": 0.5}, 10.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "store.sqlite3"


def test_rows_come_back_as_they_went(path):
    assert store.find(decision().key, path) is None
    assert store.measured([measurement().key], path) == {}
    assert not store.has_kernel("k", path)
    store.save(decision(), measurement(), path=path)
    assert store.find(decision().key, path) == decision()
    assert store.measured([measurement().key, "other"], path) == {measurement().key: measurement()}
    assert store.has_kernel("k", path)
    assert not store.has_kernel("kk", path)
    baseline = Decision("k", {"situation": {"ptx": "cd"}}, "baseline", "NOT_FASTER", "same", None, {}, 11.0)
    store.save(baseline, path=path)
    assert store.find(baseline.key, path) == baseline
    assert store.decisions(path) == (baseline, decision())


@pytest.mark.parametrize("change", [{"ptx": "ac"}, {"driver": "13.1"}, {"grid": [4, 1, 2]}, {"extra": 0}])
def test_whatever_a_row_rests_on_is_in_its_key(change):
    assert decision(**change).key != decision().key
    assert measurement(**change).key != measurement().key
    assert measurement("bb").key != measurement().key


def test_the_order_of_an_identity_does_not_matter():
    assert store.key_of(dict(reversed(SITUATION.items()))) == store.key_of(SITUATION)


def test_a_newer_decision_replaces_the_older_and_a_situation_lists_newest_first(path):
    store.save(decision(), path=path)
    newer = Decision("k", decision().identity, "baseline", "NOT_FASTER", "tie", None, {}, 20.0)
    store.save(newer, path=path)
    assert store.find(newer.key, path) == newer
    other = decision(30.0, policy="tested")
    store.save(other, decision(40.0, ptx="zz"), path=path)
    assert list(store.for_situation(store.key_of(SITUATION), path)) == [other, newer]


def test_several_rows_are_saved_all_or_none(path):
    store.save(decision(), path=path)
    bad = Decision("k", {"situation": {"ptx": "x"}}, "v", "FASTER", "r", "no bytes", None, None)  # type: ignore[arg-type]
    with pytest.raises(OutputError):
        store.save(measurement(), bad, path=path)
    assert store.measurements(path) == ()
    assert store.decisions(path) == (decision(),)


def test_a_check_is_marked_with_its_day_and_driver(path):
    store.save(decision(), path=path)
    store.mark_checked(decision().key, "2025-06-01", "580.95", path)
    found = store.find(decision().key, path)
    assert found is not None
    assert (found.checked_day, found.checked_driver) == ("2025-06-01", "580.95")


def test_to_forget_a_decision_is_to_forget_what_was_measured_for_it(path):
    store.save(decision(), measurement(), decision(ptx="other"), measurement(ptx="other"), path=path)
    assert store.forget([decision().key, "nobody"], path) == 1
    assert store.decisions(path) == (decision(ptx="other"),)
    assert store.measurements(path) == (measurement(ptx="other"),)


# --- schemas ---


def test_rows_of_an_older_schema_are_dropped_never_misread_and_that_is_said(path, caplog):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as old:
        old.execute("CREATE TABLE decisions (key TEXT, what TEXT)")
        old.execute("INSERT INTO decisions VALUES (?, 'old')", (decision().key,))
        old.execute("PRAGMA user_version = 1")
        old.commit()
    with caplog.at_level(logging.WARNING, "hybridcc"):
        assert store.find(decision().key, path) is None
    said = "started afresh: 1 rows of schema 1 were dropped"
    assert said in caplog.text
    assert [what.startswith(said) for _, what in store.history(path)] == [True]
    store.save(decision(), path=path)
    assert store.find(decision().key, path) == decision()
    assert len(store.history(path)) == 1


def test_a_store_of_a_newer_hybridcc_is_left_as_it_is(path):
    store.save(decision(), path=path)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 99")
    for use in (lambda: store.find("", path), lambda: store.save(decision(made=11.0), path=path)):
        with pytest.raises(OutputError, match="schema 99") as caught:
            use()
        assert store_file.VARIABLE in caught.value.next_step
    with closing(sqlite3.connect(path)) as newer:
        assert newer.execute("SELECT made FROM decisions").fetchall() == [(10.0,)]


# --- places ---


def test_a_place_that_cannot_be_used_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="store") as caught:
        store.save(decision(), path=tmp_path / "file" / "store.sqlite3")
    assert store_file.VARIABLE in caught.value.next_step
    (tmp_path / "garbage").write_text("this is no database, and long enough to be seen as none" * 20)
    with pytest.raises(OutputError):
        store.find(decision().key, tmp_path / "garbage")


def test_an_empty_file_is_a_store_that_was_about_to_be_made(path):
    path.parent.mkdir()
    path.touch()
    assert store.find(decision().key, path) is None
    assert store.history(path) == ()


def test_the_folder_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(store_file.VARIABLE, str(tmp_path))
    assert store.default_path().parent == tmp_path
    monkeypatch.delenv(store_file.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.default_path().parent == tmp_path / "hybridcc"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/home/ann/.cache", "nfs4"),
        ("/home/ann/scratch/x", ""),
        ("/home/annette", ""),
        ("/data/with space/x", "lustre"),
        ("/data/ünï/x", "cifs"),
        ("/over/x", "ceph"),
        ("/usr", ""),
    ],
)
def test_network_file_systems_are_known_by_the_deepest_mount(place, expected, tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\nserver:/ann /home/ann nfs4 rw 0 0\n/dev/sdb /home/ann/scratch xfs rw 0 0\n"
        "a@tcp:/l /data/with\\040space lustre rw 0 0\n//s/x /data/ünï cifs rw 0 0\n"
        "/dev/sdc /over ext4 rw 0 0\nmon:/ /over ceph rw 0 0\nbroken\n"
    )
    monkeypatch.setattr(store_file, "MOUNTS", mounts)
    assert store_file.network_type(Path(place)) == expected


def test_no_table_of_mounts_is_no_network(monkeypatch, tmp_path):
    monkeypatch.setattr(store_file, "MOUNTS", tmp_path / "absent")
    assert store_file.network_type(tmp_path) == ""


def test_the_journal_follows_the_file_system(path, tmp_path, monkeypatch):
    def mode():
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("PRAGMA journal_mode").fetchone()[0]

    store.save(decision(), path=path)
    assert mode() == "wal"
    (tmp_path / "mounts").write_text(f"s:/ {tmp_path.resolve()} nfs rw 0 0\n")
    monkeypatch.setattr(store_file, "MOUNTS", tmp_path / "mounts")
    store.save(measurement(), path=path)
    assert mode() == "delete"
    assert store.find(decision().key, path) == decision()


# --- many at once ---


def test_a_writer_that_was_stopped_in_the_middle_is_an_error_for_others_and_no_hang(path, monkeypatch):
    store.save(decision(), path=path)
    hold = "import sys, time\nfrom pathlib import Path\nfrom hybridcc.runtime import store_file\n"
    hold += "with store_file.writing(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", hold, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        monkeypatch.setattr(store_file, "BUSY_S", 0.2)
        with pytest.raises(OutputError, match="another process has been writing"):
            store.save(decision(made=11.0), path=path)
        assert store.find(decision().key, path) == decision()  # readers do not wait for a writer
    finally:
        holder.kill()
        holder.communicate()
    store.save(decision(made=12.0), path=path)
    found = store.find(decision().key, path)
    assert found is not None
    assert found.made == 12.0


def test_threads_and_forks_at_once(path):
    """Children forked while other threads write: each can use the store, and no row is lost."""
    script = """
import os, sys, threading, warnings
from pathlib import Path
from hybridcc.runtime import store
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on forks among threads, which is what is tried here
path = Path(sys.argv[1])
def write(who):
    for number in range(15):
        store.save(store.Decision("k", {"who": who, "n": number}, "v", "FASTER", "r", b"x" * 9000, {}, 1.0), path=path)
threads = [threading.Thread(target=write, args=(who,)) for who in range(3)]
for thread in threads: thread.start()
children = []
for child in range(5):
    pid = os.fork()
    if not pid:
        write(f"child{child}")
        os._exit(0)
    children.append(pid)
for thread in threads: thread.join()
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
assert len(store.decisions(path)) == 8 * 15, len(store.decisions(path))
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fork_waits_until_no_connection_is_open(path):
    store.save(decision(), path=path)
    inside, leave, order = threading.Event(), threading.Event(), []

    def read():
        with store_file.reading(path):
            inside.set()
            leave.wait(10)
            order.append("closed")

    def fork():
        pid = os.fork()
        if not pid:
            os._exit(0)
        order.append("forked")
        os.waitpid(pid, 0)

    reader = threading.Thread(target=read)
    reader.start()
    assert inside.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on forks among threads
        forker = threading.Thread(target=fork)
        forker.start()
        forker.join(0.2)
        assert order == []
        leave.set()
        forker.join(10)
    reader.join(10)
    assert order == ["closed", "forked"]


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_what_was_acknowledged_survives_kills_at_any_instant(tmp_path, journal):
    """A slice of tests/deep/store_kills.py, which runs 64 processes for a minute."""
    result = store_kills.run(tmp_path, processes=6, seconds=2.0, seed=1, journal=journal)
    assert result.good, store_kills.as_json(result)
    assert result.acknowledged > 50
    assert result.killed > 6


@pytest.mark.slow
def test_64_processes_for_a_minute(tmp_path):
    result = store_kills.run(tmp_path, processes=64, seconds=60.0)
    assert result.good, store_kills.as_json(result)


# --- taken elsewhere ---


def test_an_export_comes_in_as_it_went_out_but_for_the_check(path, tmp_path):
    store.save(decision(), decision(ptx="other"), measurement(), path=path)
    store.mark_checked(decision().key, "2025-06-01", "580.95", path)
    lines = list(store.dump(path))
    assert len(lines) == 4
    other = tmp_path / "other.sqlite3"
    assert store.load(lines, other) == (3, 0)
    assert store.find(decision().key, other) == decision()  # never checked there
    assert store.measurements(other) == (measurement(),)
    assert store.load(lines, other) == (0, 3)
    store.save(decision(made=1.0), path=other)
    assert store.load(lines, other) == (1, 2)  # the newer of two stays


def _change(line, **changes):
    return json.dumps({**json.loads(line), **changes})


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: ["not JSON", *lines[1:]],
        lambda lines: [_change(lines[0], schema=1), *lines[1:]],
        lambda lines: [lines[0], _change(lines[1], identity={"ptx": "another"})],
        lambda lines: [lines[0], _change(lines[1], cubin="?")],
        lambda lines: [lines[0], _change(lines[1], made="now")],
        lambda lines: [lines[0], _change(lines[1], extra=1)],
        lambda lines: [lines[0], "[]"],
        lambda lines: [lines[0], lines[1], lines[2][:-30]],
        lambda lines: [*lines[:2], _change(lines[2], kind="inconclusive")],
    ],
)
def test_what_is_no_export_brings_nothing_in(spoil, path, tmp_path):
    store.save(decision(), measurement(), path=path)
    other = tmp_path / "other.sqlite3"
    with pytest.raises(InputError) as caught:
        store.load(spoil(list(store.dump(path))), other)
    assert "export" in caught.value.next_step
    assert store.decisions(other) == ()
