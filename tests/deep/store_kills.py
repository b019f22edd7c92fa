"""Many processes on one store, killed at random: no acknowledged row is lost, nothing is corrupt, nobody waits forever.

Run from the checkout: python -m tests.deep.store_kills [--processes 64] [--seconds 60] [--seed 0] [--folder FOLDER]
                       [--journal wal|delete] [--json FILE]

Each process writes rows as fast as it can and says so, one line a row, when the row was written; between writes it
reads one back. At random instants, four times per process on average, one gets SIGKILL and another takes its place.
At the end every acknowledged row must be there byte for byte, and SQLite's own integrity check must pass; the exit code
is 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from hybridcc.runtime import store, store_file

WRITER = """
import sys, time
from pathlib import Path
from hybridcc.runtime import store, store_file
path, who, journal = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if journal == "delete":
    store_file.MOUNTS = Path(sys.argv[4])
number = 0
while True:
    begin = time.monotonic()
    row = store.Decision("k", {"who": who, "number": number}, "v", "FASTER", "r", (who * 4000).encode(), {}, 1.0)
    store.save(row, path=path)
    took = time.monotonic() - begin
    sys.stdout.write(f"{number} {took:.4f}\\n")
    sys.stdout.flush()
    found = store.find(store.key_of({"who": who, "number": number // 2}), path)
    assert found is not None and found.cubin == (who * 4000).encode(), (who, number)
    number += 1
"""
STUCK_S = 30.0
"""A process that wrote nothing for so long, at the end, is taken for stuck."""


@dataclass(slots=True)
class Writer:
    who: str
    process: subprocess.Popen[bytes]
    said: Path
    complaints: Path
    killed: bool = False


@dataclass(slots=True)
class Result:
    processes: int
    seconds: float
    seed: int
    journal: str
    started: int = 0
    killed: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    integrity: str = ""
    slowest_write_s: float = 0.0
    median_write_s: float = 0.0
    stuck: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.lost or self.failed or self.stuck) and self.integrity == "ok" and self.killed > 0


def run(folder: Path, processes: int, seconds: float, seed: int = 0, journal: str = "wal") -> Result:
    """``journal`` "delete" makes the writers believe that the folder is on a network file system."""
    chance = random.Random(seed)
    result = Result(processes, seconds, seed, journal)
    path = folder / "store.sqlite3"
    (folder / "mounts").write_text(f"server:/export {folder.resolve()} nfs4 rw 0 0\n")
    alive = [_start(folder, path, result, journal) for _ in range(processes)]
    over: list[Writer] = []
    # The first rows come late where many interpreters start at once; the time counts from there.
    while not all(writer.said.stat().st_size for writer in alive) and not _failures(alive):
        time.sleep(0.1)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not _failures(alive):
        time.sleep(chance.uniform(0.0, 2 * seconds / (4 * processes)))
        victim = alive.pop(chance.randrange(len(alive)))
        _kill(victim, result)
        over.append(victim)
        alive.append(_start(folder, path, result, journal))
    _wait_for_progress(alive, result)
    result.failed += _failures(alive)
    for writer in alive:
        _kill(writer, result)
    _check(path, [*over, *alive], result)
    return result


def _start(folder: Path, path: Path, result: Result, journal: str) -> Writer:
    who = f"w{result.started}"
    result.started += 1
    said, complaints = folder / f"{who}.said", folder / f"{who}.err"
    with said.open("wb") as out, complaints.open("wb") as err:
        arguments = [sys.executable, "-c", WRITER, str(path), who, journal, str(folder / "mounts")]
        return Writer(who, subprocess.Popen(arguments, stdout=out, stderr=err), said, complaints)


def _kill(writer: Writer, result: Result) -> None:
    if writer.process.poll() is None:
        os.kill(writer.process.pid, signal.SIGKILL)
        writer.killed = True
        result.killed += 1
    writer.process.wait()


def _failures(writers: list[Writer]) -> list[str]:
    return [
        f"{w.who} ended with {w.process.returncode}: {w.complaints.read_text().strip()[-300:]}"
        for w in writers
        if w.process.poll() is not None
    ]


def _wait_for_progress(alive: list[Writer], result: Result) -> None:
    """No deadlock: whoever is alive writes another row."""
    sizes = {writer.who: writer.said.stat().st_size for writer in alive}
    deadline = time.monotonic() + STUCK_S
    waiting = list(alive)
    while waiting and time.monotonic() < deadline and not _failures(alive):
        time.sleep(0.05)
        waiting = [writer for writer in waiting if writer.said.stat().st_size == sizes[writer.who]]
    result.stuck += [writer.who for writer in waiting]


def _check(path: Path, writers: list[Writer], result: Result) -> None:
    kept = {store.key_of(row.identity): row.cubin for row in store.decisions(path)}
    times: list[float] = []
    for writer in writers:
        for line in writer.said.read_text().rpartition("\n")[0].splitlines():
            number, took = line.split()
            times.append(float(took))
            key = store.key_of({"who": writer.who, "number": int(number)})
            if kept.get(key) != (writer.who * 4000).encode():
                result.lost.append(f"{writer.who} {number}")
    result.acknowledged = len(times)
    times.sort()
    result.slowest_write_s, result.median_write_s = times[-1], times[len(times) // 2]
    with store_file.reading(path) as connection:
        assert connection is not None
        result.integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]


def as_json(result: Result) -> dict[str, object]:
    data = {name: getattr(result, name) for name in Result.__slots__}
    return {
        **data, "good": result.good, "sqlite": sqlite3.sqlite_version, "python": platform.python_version(),
        "cpus": os.cpu_count(), "system": f"{platform.system()} {platform.release()}",
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", choices=("wal", "delete"), default="wal")
    parser.add_argument("--folder", type=Path, help="where to put the store; a fresh temporary folder without it")
    parser.add_argument("--json", type=Path, help="where to write the result")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        result = run(Path(folder), given.processes, given.seconds, given.seed, given.journal)
    text = json.dumps(as_json(result), indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n")
    sys.exit(0 if result.good else 1)


if __name__ == "__main__":
    main()
