"""``hybridcc store`` from the shell."""

from __future__ import annotations

import json
import time

import pytest
from typer.testing import CliRunner

from hybridcc.cli import app
from hybridcc.runtime import store
from hybridcc.runtime.store import Decision, Measured

NOW = time.time()
DAY = 86400


def situation(**changes):
    return {"ptx": "ab", "device": "NVIDIA H200", "driver": "13.0", "shape": {"grid": [4, 1, 1]}, **changes}


def decision(kernel, age_days, cubin: bytes | None = b"\x7fELF", **changes):
    reason = "faster 5.20x" if cubin else "no variant is faster"
    variant, code = ("region0-1", "FASTER") if cubin else ("baseline", "NOT_FASTER")
    identity = {"situation": situation(kernel=kernel, **changes), "accept": "proved"}
    return Decision(kernel, identity, variant, code, reason, cubin, {"ratio": 5.2}, NOW - age_days * DAY)


OLD, NEW, PLAIN = decision("conv1d", 100, driver="12.9"), decision("conv1d", 1), decision("saxpy", 2, None)


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HYBRIDCC_CACHE", str(tmp_path / "cache"))
    measured = Measured("conv1d", {**NEW.identity, "variant": "f00d"}, "faster", {"ratio": 5.2}, NOW)
    store.save(OLD, NEW, PLAIN, measured)


def hybridcc(*arguments, code=0, stdin=None):
    done = CliRunner().invoke(app, ["store", *arguments], input=stdin)
    assert done.exit_code == code, done.output
    return done


def keys():
    return {each.key for each in store.decisions()}


def test_list_is_newest_first_and_narrows_to_a_kernel():
    lines = hybridcc("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [each.key[:12] for each in (NEW, PLAIN, OLD)]
    assert "conv1d  NVIDIA H200  faster 5.20x" in lines[0]
    data = json.loads(hybridcc("list", "--kernel", "saxpy", "--json").stdout)
    assert [each["key"] for each in data["decisions"]] == [PLAIN.key]
    assert data["history"] == []


def test_an_empty_store_is_said_and_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv("HYBRIDCC_CACHE", str(tmp_path / "empty"))
    done = hybridcc("list")
    assert done.stdout == ""
    assert "no decision is kept" in done.stderr
    assert not (tmp_path / "empty").exists()


def test_show_names_what_it_rests_on_and_writes_the_code(tmp_path):
    text = hybridcc("show", NEW.key[:10], "--cubin", str(tmp_path / "code")).stdout
    assert (tmp_path / "code").read_bytes() == b"\x7fELF"
    assert "situation.shape.grid: [4, 1, 1]" in text
    assert "measured f00d: faster 5.200x" in text
    data = json.loads(hybridcc("show", NEW.key, "--json").stdout)
    assert data["identity"] == NEW.identity
    assert [each["kind"] for each in data["measured"]] == ["faster"]
    assert "no machine code" in hybridcc("show", PLAIN.key, "--cubin", "x", code=2).stderr


def test_show_wants_one_decision():
    assert "3 keys begin with" in hybridcc("show", "", code=2).stderr
    assert "hybridcc store list" in hybridcc("show", "nothing", code=2).stderr


def test_export_and_import_move_it(tmp_path, monkeypatch):
    before = store.decisions()
    hybridcc("export", str(tmp_path / "all.jsonl"))
    piped = hybridcc("export").stdout
    assert piped == (tmp_path / "all.jsonl").read_text()
    monkeypatch.setenv("HYBRIDCC_CACHE", str(tmp_path / "other"))
    assert "4 rows taken" in hybridcc("import", str(tmp_path / "all.jsonl")).stderr
    assert store.decisions() == before
    assert "0 rows taken, 4 left out" in hybridcc("import", "-", stdin=piped).stderr
    (tmp_path / "all.jsonl").write_text(piped.replace("H200", "H100"))
    assert "all.jsonl, line 2" in hybridcc("import", str(tmp_path / "all.jsonl"), code=2).stderr
    assert "no such file" in hybridcc("import", "absent", code=2).stderr


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--older-than", "30"], [NEW, PLAIN]),
        (["--kernel", "conv1d"], [PLAIN]),
        (["--kernel", "conv1d", "--older-than", "30"], [NEW, PLAIN]),
        (["--driver", "13.0"], [OLD]),
        (["--all"], []),
        (["--all", "--dry-run"], [OLD, NEW, PLAIN]),
        (["--kernel", "nobody"], [OLD, NEW, PLAIN]),
    ],
    ids=lambda value: " ".join(value) if all(isinstance(v, str) for v in value) else str(len(value)),
)
def test_prune_takes_out_what_every_option_is_true_of(options, left):
    hybridcc("prune", *options)
    assert keys() == {each.key for each in left}
    assert len(store.measurements()) == (NEW in left)


def test_prune_without_a_reason_takes_nothing():
    assert "--older-than" in hybridcc("prune", code=2).stderr
    assert len(keys()) == 3


def test_a_store_that_cannot_be_used_is_one_message(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HYBRIDCC_CACHE", str(tmp_path / "cache2"))
    (tmp_path / "cache2").mkdir()
    (tmp_path / "cache2" / "decisions.sqlite3").write_bytes(b"garbage" * 300)
    told = hybridcc("list", code=2).stderr
    assert told.startswith("hybridcc: error [OUTPUT]")
    assert "HYBRIDCC_CACHE" in told
