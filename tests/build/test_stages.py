"""``--dump-stages``: what each stage gave, in the order of the data."""

from __future__ import annotations

import json
from pathlib import Path

from hybridcc import sources
from hybridcc.pipeline import Options, optimize
from hybridcc.records import Budget
from hybridcc.stages import dump
from tests.build.test_whole_path import KERNEL, SIGNATURE, hybridcc, pointer_walk
from tests.rewrite.test_feedback import Scripted


def test_every_stage_has_its_files(tmp_path: Path) -> None:
    path = tmp_path / "conv1d.py"
    path.write_text(KERNEL)
    (source,) = sources.load(str(path), ["sm_80"], signature=SIGNATURE)
    options = Options("tested", answers=3, launches=6, budget=Budget(0))
    answers = (pointer_walk(4), pointer_walk(4, last=1), "no code")
    record = optimize(source.kernels, options, Scripted(answers))
    dump(tmp_path / "stages", source.kernels, record, options)
    place = tmp_path / "stages" / "conv1d"
    assert (place / "1-frontend/sm_80.ptx").read_text() == source.kernels[0].ptx
    assert "x.shape[0] >= 0" in (place / "1-frontend/sm_80.facts.txt").read_text()
    assert "// fact: " in (place / "2-regions/sm_80/r0.ptx").read_text()
    (prompt,) = (place / "3-prompts").iterdir()
    assert prompt.read_text() == record.exchanges[0].prompt
    given = {path.read_text() for path in (place / "4-answers").iterdir()}
    assert given == set(answers)
    candidates = record.architectures[0].candidates
    spliced = {path.stem for path in (place / "5-spliced/sm_80").iterdir()}
    assert spliced == {c.name for c in candidates if c.ptx is not None} == {"r0-0", "r0-1"}
    for name in ("baseline", *spliced):
        assert (place / f"6-assembled/sm_80/{name}.cubin").stat().st_size > 0
        assert "EXIT" in (place / f"6-assembled/sm_80/{name}.sass").read_text()
        assert "registers" in (place / f"6-assembled/sm_80/{name}.log").read_text()
    verdicts = {p.stem: json.loads(p.read_text()) for p in (place / "7-verdicts/sm_80").iterdir()}
    assert {name: v["verdict"] and v["verdict"]["kind"] for name, v in verdicts.items()} == {
        "r0-0": "tested", "r0-1": "refuted", "r0-2": None,
    }  # fmt: skip
    assert json.loads((place / "8-selection/sm_80.json").read_text())["code"] == "NOT_MEASURED"


def test_a_build_writes_them_beside_its_bundle(tmp_path: Path) -> None:
    path = tmp_path / "conv1d.py"
    path.write_text(KERNEL)
    where = ("--signature", SIGNATURE, "--arch", "sm_80", "--rewriter", "none", "-o", tmp_path / "out")
    built = hybridcc("build", path, *where, "--dump-stages", tmp_path / "stages")
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "stages/conv1d/8-selection/sm_80.json").is_file()
    assert (tmp_path / "stages/conv1d/2-regions/sm_80/r0.ptx").is_file()
    refused = hybridcc("build", path, *where, "--dump-stages", path)
    assert refused.returncode != 0
    assert "next:" in refused.stderr
    assert "Traceback" not in refused.stderr
