"""``hybridcc compare``: two runs of the suite. The runs are the committed one of an H200 and changes of it."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hybridcc.cli import app
from hybridcc.report.comparison import Kind, compare, read

LATEST = Path(__file__).parents[2] / "benchmarks" / "results" / "nvidia-h200" / "latest.json"


@pytest.fixture
def run() -> dict[str, Any]:
    return json.loads(LATEST.read_text())


def written(folder: Path, data: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "latest.json").write_text(json.dumps(data))
    return folder


def told(*words: object, environment: dict[str, str] | None = None) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["compare", *map(str, words)], env=environment)
    return done.exit_code, done.output


def scaled(run: dict[str, Any], kernel: str, by: float) -> dict[str, Any]:
    """The run with one kernel's rewrites so many times as fast."""
    changed = copy.deepcopy(run)
    for row in changed["kernels"]:
        if row["kernel"] == kernel:
            row["over_stock"]["proved"] *= by
            for measured in row["measurements"].values():
                measured["ratio"] *= by
                measured["interval"] = [bound * by for bound in measured["interval"]]
    return changed


def test_a_run_against_itself_is_the_same_in_every_row() -> None:
    found = compare(read(LATEST, "proved"), read(LATEST.parent, "proved"))
    assert len(found.rows) == 64
    assert {row.kind for row in found.rows} == {Kind.SAME}
    assert found.geomean == pytest.approx(1)
    assert told(LATEST, LATEST.parent, "--strict")[0] == 0


@pytest.mark.parametrize("seed", range(20))
def test_measured_again_within_its_noise_is_never_a_change(run: dict[str, Any], seed: int, tmp_path: Path) -> None:
    """Each ratio moves inside its own interval, which keeps its width."""
    draw = random.Random(seed)
    for row in run["kernels"]:
        for measured in row["measurements"].values():
            low, high = measured["interval"]
            moved = draw.uniform(low, high) / measured["ratio"]
            measured["ratio"] *= moved
            measured["interval"] = [low * moved, high * moved]
    again = read(written(tmp_path / "again", run), "proved")
    assert not {row.kind for row in compare(read(LATEST, "proved"), again).rows} & {Kind.FASTER, Kind.SLOWER}


def test_what_is_slower_fails_and_by_how_much_can_be_chosen(run: dict[str, Any], tmp_path: Path) -> None:
    slower = written(tmp_path / "new", scaled(run, "gemv", 0.95))
    code, text = told(LATEST, slower)
    assert code == 1
    assert "2 slower" in text.replace("62 same, ", "")
    assert "| gemv | large | 1.657 (r0-1) | 1.574 (r0-1) | 0.950 |" in text
    assert told(LATEST, slower, "--fail-on", "slower:4%")[0] == 1
    assert told(LATEST, slower, "--fail-on", "slower:6%")[0] == 0
    assert told(slower, LATEST)[0] == 0, "the other way round it is faster"


def test_the_step_summary_gets_the_table(run: dict[str, Any], tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    _, text = told(LATEST, LATEST, environment={"GITHUB_STEP_SUMMARY": str(summary)})
    assert summary.read_text() == "before\n" + text
    assert text.count("\n|") == 66


def test_json_holds_every_row(run: dict[str, Any], tmp_path: Path) -> None:
    code, text = told(LATEST, written(tmp_path / "new", scaled(run, "colsum", 1.1)), "--json")
    data = json.loads(text)
    assert code == 0
    assert data["schema_version"] == 1
    assert {row["kernel"] for row in data["rows"] if row["kind"] == "faster"} == {"colsum"}
    assert data["geomean"] == pytest.approx(1.1 ** (2 / 64))


def test_rows_of_one_run_alone_are_listed_and_in_no_mean(run: dict[str, Any], tmp_path: Path) -> None:
    run["kernels"] = [row for row in run["kernels"] if row["kernel"] == "gemv"]
    run["kernels"][0]["void"] = "the baseline is not deterministic"
    found = compare(read(LATEST, "proved"), read(written(tmp_path / "new", run), "proved"))
    assert len(found.rows) == 64
    assert len(found.measured) == 1
    assert sum(row.kind is Kind.NOT_MEASURED for row in found.rows) == 63


def test_nothing_measured_twice_is_untestable(run: dict[str, Any], tmp_path: Path) -> None:
    run["kernels"] = []
    empty = written(tmp_path / "new", run)
    assert told(LATEST, empty)[0] == 3
    assert told(LATEST, empty, "--bisect")[0] == 125


def test_a_wide_interval_is_undecided_and_fails_only_where_asked(run: dict[str, Any], tmp_path: Path) -> None:
    for row in run["kernels"]:
        if row["kernel"] == "gemv":
            for measured in row["measurements"].values():
                measured["interval"] = [measured["ratio"] * 0.8, measured["ratio"] * 1.2]
    wide = written(tmp_path / "new", run)
    assert told(LATEST, wide)[0] == 0
    assert told(LATEST, wide, "--strict")[0] == 4


def test_another_gpu_is_refused_unless_asked_for(run: dict[str, Any], tmp_path: Path) -> None:
    run["machine"]["gpu"]["name"] = "NVIDIA A100"
    other = written(tmp_path / "new", run)
    code, text = told(LATEST, other)
    assert code == 2
    assert "different GPUs" in text
    code, text = told(LATEST, other, "--across")
    assert code == 0
    assert "Other conditions: gpu: NVIDIA H200 and NVIDIA A100." in text


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"suite_format": 99}'])
def test_what_is_no_result_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    code, said = told(LATEST, file)
    assert code == 2
    assert "x.json" in said
    assert told(LATEST, tmp_path / "missing.json")[0] == 2
    assert told(LATEST, LATEST, "--fail-on", "faster")[0] == 2
