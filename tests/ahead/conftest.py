"""One build that several modules look at, in one process of a parallel run (xdist_group "ahead")."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybridcc.building import build
from tests.ahead.recorded import SUM, four_at_a_time, record

WORDS = "I would unroll the loop."
ARCHITECTURES = ("sm_80", "sm_90a")


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``folder/sum`` and the same build once more as ``again/sum.zip``: a proved answer, which is selected, a refuted
    one, and one that is no PTX."""
    folder = tmp_path_factory.mktemp("ahead")
    recording = record(folder / "sum.jsonl", four_at_a_time(), four_at_a_time(last=1), WORDS)
    for name in ("folder", "again"):
        build(
            SUM, folder / name, arch=ARCHITECTURES, rewriter=f"replay:{recording}", select="proved",
            fatbin=True, header=True, single_file=name == "again",
        )  # fmt: skip
    return folder
