"""A bundle is the same when built again, explains itself, and cannot be altered without that being seen."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridcc.errors import InputError, OutputError
from hybridcc.inspecting import Check, check
from hybridcc.passes.facts import Bytes, Fact, Origin, Parameter, RegionInput, RegionValue, Relation, Special, Sum
from hybridcc.passes.facts_data import from_data, to_data
from hybridcc.runtime import bundle
from tests.ahead.conftest import WORDS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("ahead")


@pytest.fixture
def copy(out: Path, tmp_path: Path) -> Path:
    shutil.copytree(out / "folder" / "sum", tmp_path / "sum")
    return tmp_path / "sum"


def test_a_second_build_makes_the_same_bytes_but_for_the_log(out: Path) -> None:
    folder, file = bundle.load(out / "folder" / "sum"), bundle.load(out / "again" / "sum.zip")
    assert folder.manifest == file.manifest
    assert folder.identity == file.identity
    assert {name: folder.read(name) for name in folder.manifest["files"]} == {
        name: file.read(name) for name in file.manifest["files"]
    }
    log = json.loads((out / "folder" / "sum" / "log.json").read_bytes())
    assert log["proofs"]["sm_80 r0-0"] > 0


def test_a_single_file_has_the_same_bytes_wherever_it_is_written(out: Path, tmp_path: Path) -> None:
    held = bundle.load(out / "again" / "sum.zip")
    files = {name: held.read(name) for name in held.manifest["files"]}
    bundle.write_file(tmp_path / "a.zip", held.manifest, files)
    bundle.write_file(tmp_path / "a.zip", held.manifest, dict(reversed(files.items())))
    assert (tmp_path / "a.zip").read_bytes() == held.folder.read_bytes()
    (tmp_path / "mine.zip").write_bytes(b"precious")
    with pytest.raises(OutputError, match="no bundle"):
        bundle.write_file(tmp_path / "mine.zip", held.manifest, files)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip", "mine.zip"]


def states(found: Path) -> dict[tuple[str, str], str]:
    return {(each.what, each.where): each.state for each in check(bundle.load(found))}


@pytest.mark.parametrize("place", ["folder/sum", "again/sum.zip"])
def test_every_check_is_repeated_from_the_files(place: str, out: Path) -> None:
    found = states(out / place)
    assert set(found.values()) == {"holds"}
    for arch in ("sm_80", "sm_90a"):
        assert ("proof", f"{arch} r0-0") in found
        assert ("counterexample", f"{arch} r0-1") in found
        assert ("selection", f"selected.{arch}.cubin") in found
        assert {("assembly", f"{name}.{arch}.cubin") for name in ("baseline", "r0-0", "r0-1")} <= found.keys()
    assert ("answers", "prompts.jsonl") in found


@given(data=st.data())
def test_a_changed_byte_or_a_missing_end_is_refused_with_the_files_name(data: Any, out: Path) -> None:
    original = bundle.load(out / "folder" / "sum")
    name = data.draw(st.sampled_from(sorted(original.manifest["files"])))
    path = original.folder / name
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    altered = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    try:
        path.write_bytes(data.draw(st.sampled_from([altered, content[:at], content + b"\0"])))
        with pytest.raises(InputError) as caught:
            list(check(original))
        assert caught.value.where == str(path)
    finally:
        path.write_bytes(content)


@given(cut=st.integers(1, 4000))
def test_a_truncated_single_file_is_refused(cut: int, out: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    content = (out / "again" / "sum.zip").read_bytes()
    place = tmp_path_factory.mktemp("cut") / "sum.zip"
    place.write_bytes(content[:-cut])
    with pytest.raises(InputError, match=r"sum\.zip"):
        list(check(bundle.load(place)))


def altered(place: Path, change: Any) -> list[Check]:
    """The checks that fail after a change that keeps every hash right: ``change`` gets manifest and files."""
    held = bundle.load(place)
    manifest = json.loads(json.dumps(held.manifest))
    files = {name: held.read(name) for name in held.manifest["files"]}
    change(manifest, files)
    bundle.write(place, manifest, files)
    return [each for each in check(bundle.load(place)) if each.state == "fails"]


def test_another_cubin_in_place_of_the_selected_one(copy: Path) -> None:
    def change(manifest: Any, files: dict[str, bytes]) -> None:
        files["selected.sm_80.cubin"] = files["r0-1.sm_80.cubin"]

    assert [(c.what, c.where) for c in altered(copy, change)] == [("selection", "selected.sm_80.cubin")]


def test_a_selection_that_the_policy_does_not_accept(copy: Path) -> None:
    def change(manifest: Any, files: dict[str, bytes]) -> None:
        manifest["architectures"][0]["selection"]["variant"] = "r0-1"
        files["selected.sm_80.cubin"] = files["r0-1.sm_80.cubin"]

    (failed,) = altered(copy, change)
    assert "r0-1 is refuted, and the policy accepts proved" in failed.detail


def test_ptx_that_is_not_what_was_assembled_and_proved(copy: Path) -> None:
    wrong = (copy / "r0-1.sm_80.ptx").read_bytes()

    def change(manifest: Any, files: dict[str, bytes]) -> None:
        files["r0-0.sm_80.ptx"] = wrong
        manifest["architectures"][0]["candidates"][0]["ptx_sha256"] = bundle.sha256(wrong)

    failed = altered(copy, change)
    assert {(c.what, c.where) for c in failed} >= {("assembly", "r0-0.sm_80.cubin"), ("proof", "sm_80 r0-0")}


def test_a_verdict_that_was_made_up(copy: Path) -> None:
    def change(manifest: Any, files: dict[str, bytes]) -> None:
        good, wrong, _ = manifest["architectures"][0]["candidates"]
        wrong["verdict"] = good["verdict"]

    assert ("proof", "sm_80 r0-1") in {(c.what, c.where) for c in altered(copy, change)}


def test_an_answer_that_nobody_gave(copy: Path) -> None:
    def change(manifest: Any, files: dict[str, bytes]) -> None:
        files["prompts.jsonl"] = files["prompts.jsonl"].replace(WORDS.encode(), b"I would not.")

    assert [c.what for c in altered(copy, change)] == ["answers"]


def test_a_file_that_no_build_wrote(copy: Path) -> None:
    (copy / "payload.cubin").write_bytes(b"x")
    assert states(copy)["files", "payload.cubin"] == "fails"


def hybridcc(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "hybridcc", *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_verb(out: Path, copy: Path) -> None:
    told = hybridcc("inspect", out / "folder")
    assert told.returncode == 0, told.stderr
    assert "sm_80, sm_90a: proved, not measured: r0-0 selected" in told.stdout
    assert "p0: float32 array of 1, layout C (data at 0)" in told.stdout
    assert len(json.loads(hybridcc("inspect", "--json", out / "again" / "sum.zip").stdout)["kernels"]) == 1
    (copy / "r0-1.sm_80.ptx").write_bytes(b"")
    told = hybridcc("inspect", "--check", copy)
    assert told.returncode == 2
    assert str(copy / "r0-1.sm_80.ptx") in told.stderr


PARAMETERS = st.builds(Parameter, st.integers(0, 9), st.text(max_size=5))
SIMPLE = st.one_of(
    st.integers(-(2**63), 2**63), PARAMETERS, st.builds(Special, st.text(max_size=5)),
    st.builds(RegionInput, st.integers(0, 9)), st.builds(RegionValue, st.text(max_size=5)),
)  # fmt: skip
PARTS = st.lists(st.tuples(st.integers(), SIMPLE.filter(lambda t: not isinstance(t, int))), max_size=3).map(tuple)
TERMS = st.one_of(
    SIMPLE,
    st.builds(Bytes, PARAMETERS, st.one_of(PARAMETERS, st.integers()), st.integers(1, 16)),
    st.builds(Sum, PARTS, st.integers()),
)


PLACES = st.text(max_size=3)


@given(st.builds(Fact, TERMS, st.sampled_from(Relation), st.none() | TERMS, st.sampled_from(Origin), PLACES))
def test_facts_come_back_from_a_manifest(fact: Fact) -> None:
    assert from_data(json.loads(json.dumps(to_data(fact)))) == fact


@pytest.mark.parametrize("data", [None, {}, {"left": True, "relation": "==", "right": 1, "origin": "isa", "place": ""}])
def test_what_is_no_fact(data: object) -> None:
    with pytest.raises(InputError, match="no fact"):
        from_data(data)
