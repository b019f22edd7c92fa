"""A region written out, edited by hand, and taken back through every check."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hybridcc.passes.regions import body
from hybridcc.passes.splice import splice
from hybridcc.ptx import parse
from hybridcc.runtime.assemble import assemble
from hybridcc.sources import load
from tests.build.test_whole_path import KERNEL, SIGNATURE, hybridcc, pointer_walk

KERNELS = sorted((Path(__file__).parents[1] / "proof" / "kernels").glob("*.ptx"))


def code(answer: str) -> str:
    return answer.removeprefix("```ptx\n").rstrip().removesuffix("```")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "conv1d.py"
    path.write_text(KERNEL)
    return path


def written(target: Path, *options: str) -> Path:
    out = target.parent / "r.ptx"
    run = hybridcc("region", target, "--signature", SIGNATURE, "-o", out, *options)
    assert run.returncode == 0, run.stderr
    assert f"hybridcc try {out}" in run.stdout
    return out


def edited(path: Path, text: str) -> Path:
    """The file with another rewrite under its comments."""
    head = [line for line in path.read_text().splitlines() if line.startswith("//")]
    path.write_text("\n".join([*head, "", text]))
    return path


def test_a_region_says_where_it_comes_from_and_what_is_known(target: Path) -> None:
    text = written(target).read_text()
    for part in (f"// target: {target}", f"// signature: {SIGNATURE}", "// region: r0", "// in: %in0 .b64  w.shape[0]",
                 "// out: %out0 .f32", "// fact: %in0 >= 0  [frontend]", "fma.rn.f32"):  # fmt: skip
        assert part in text


def test_a_right_rewrite_passes_and_a_wrong_one_is_told_what_it_does(target: Path) -> None:
    path = edited(written(target), code(pointer_walk(4)))
    right = hybridcc("try", path, "--accept", "tested")
    assert right.returncode == 0, right.stdout + right.stderr
    assert right.stdout.startswith("r0: passed\n  tested(bitwise)")
    wrong = hybridcc("try", edited(path, code(pointer_walk(4, last=1))), "--accept", "tested")
    assert wrong.returncode == 1
    assert wrong.stdout.startswith("r0: REFUTED\n  refuted: y[")
    assert "enters the region with" in wrong.stdout
    assert "%out0 must be 0x" in wrong.stdout
    refused = hybridcc("try", edited(path, "ret;"), "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["fate"]["code"] == "LEAVES"


def test_a_failed_answer_of_a_bundle_can_be_taken_up(target: Path) -> None:
    prompts, results, recorded = (target.parent / name for name in ("p.jsonl", "r.jsonl", "conv1d.answers.jsonl"))
    assert hybridcc("prompts", target, "--signature", SIGNATURE, "--arch", "sm_80", "-o", prompts).returncode == 0
    asked = json.loads(prompts.read_text())["custom_id"]
    results.write_text(json.dumps({"custom_id": asked, "answer": pointer_walk(4, last=1)}) + "\n")
    imported = hybridcc("answers", "import", results, "--prompts", prompts, "--model", "by hand", "-o", recorded)
    assert imported.returncode == 0, imported.stderr
    out = target.parent / "out"
    built = hybridcc("build", target, "--signature", SIGNATURE, "--arch", "sm_80", "--accept", "tested", "-o", out)
    assert built.returncode == 0, built.stderr
    path = written(target, "--take", f"{out / 'conv1d'}:r0-0")
    text = path.read_text()
    assert "// r0-0 was: REFUTED: refuted: y[" in text
    assert "setp.gt.s64 %p, %n, 1;" in text
    path.write_text(text.replace("setp.gt.s64 %p, %n, 1;", "setp.gt.s64 %p, %n, 0;"))
    mended = hybridcc("try", path, "--accept", "tested")
    assert mended.returncode == 0, mended.stdout
    missing = hybridcc("region", target, "--signature", SIGNATURE, "--take", f"{out / 'conv1d'}:r9-9", "-o", path)
    assert missing.returncode == 2
    assert "holds no candidate r9-9" in missing.stderr


def test_the_whole_kernel_as_one_region(target: Path) -> None:
    path = written(target, "--region", "body")
    text = path.read_text()
    assert "// region: body" in text
    assert "ld.param" in text
    renamed = re.sub(r"%t(\d+)\b", r"%mine\1", text)
    assert hybridcc("try", edited(path, renamed.partition("\n\n")[2])).stdout.startswith("body: SASS_UNCHANGED")


def test_bad_files_are_refused_with_the_way_out(target: Path) -> None:
    path = written(target)
    lone = target.parent / "lone.ptx"
    lone.write_text("add.s64 %out0, %in0, 1;\n")
    for bad, said in ((lone, "does not say which region"), (target.parent / "none.ptx", "cannot be read")):
        run = hybridcc("try", bad)
        assert run.returncode == 2
        assert said in run.stderr
    target.write_text(KERNEL.replace("s += x[i + k] * w[k]", "s += x[i + k] + w[k]"))
    run = hybridcc("try", path)
    assert run.returncode == 2
    assert "no longer the region that this was made of" in run.stderr
    run = hybridcc("region", target, "--signature", SIGNATURE, "--region", "r7")
    assert run.returncode == 2
    assert "name one of: r0, body" in run.stderr


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_a_body_spliced_over_itself_is_the_same_machine_code(path: Path) -> None:
    kernel = load(str(path), ["sm_80"])[0].kernels[0]
    whole = body(kernel)
    assert whole.eligible, whole.ineligible
    assert (whole.live_in, whole.live_out) == ((), ())
    text = splice(parse(kernel.ptx), whole, whole.text).text
    assert assemble(text, "sm_80").bytes == assemble(kernel.ptx, "sm_80").bytes


def test_a_body_that_ends_at_two_places_says_so() -> None:
    from hybridcc.passes.kernel import Kernel

    ptx = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .pred %p;\n"
        ".reg .b32 %r;\nmov.u32 %r, %tid.x;\nsetp.eq.u32 %p, %r, 0;\n@%p ret;\nbar.sync 0;\nret;\n}\n"
    )
    found = body(Kernel("k", "k", ptx, "sm_80", "ptx"))
    assert found.ineligible is not None
    assert "LEAVES" in str(found.ineligible)
