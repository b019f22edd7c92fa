"""The report of builds and of a benchmark's run: one model, the same numbers in each format, pages that hold up."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from hybridcc import sources
from hybridcc.cli import app
from hybridcc.manifest import files_of, manifest_of
from hybridcc.passes.kernel import Kernel
from hybridcc.pipeline import Options, optimize
from hybridcc.records import Budget, CandidateRecord, KernelRecord, Machine, Speed
from hybridcc.report import diffs
from hybridcc.report.model import Report
from hybridcc.report.notebook import Told
from hybridcc.report.read import read
from hybridcc.report.render import FORMATS, render, speed_text
from hybridcc.runtime import bundle
from tests.build.test_whole_path import KERNEL, SIGNATURE, pointer_walk
from tests.rewrite.test_feedback import Scripted

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "benchmarks" / "results" / "nvidia-h200" / "latest.json"
SCHEMA = json.loads((ROOT / "hybridcc" / "report" / "report.schema.json").read_text())
RATIOS = {"r0-0": 1.5173, "r0-1": 0.9241, "r0-2": 1.0007}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MOST_BYTES = 5_000_000
MOST_MILLISECONDS = 1000


def stand_in(kernel: Kernel, baseline: Machine, candidates: Sequence[CandidateRecord]) -> Mapping[str, Speed]:
    """Speeds by table: none was measured."""
    found = {}
    for c in candidates:
        ratio = RATIOS[c.name]
        kind = "same" if abs(ratio - 1) < 0.01 else "faster" if ratio > 1 else "slower"
        found[c.name] = Speed(kind, "", ratio, (ratio - 0.0103, ratio + 0.0104), "a stand-in", noise=0.004)
    return found


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> KernelRecord:
    path = tmp_path_factory.mktemp("reported") / "conv1d.py"
    path.write_text(KERNEL)
    (source,) = sources.load(str(path), ["sm_90"], signature=SIGNATURE)
    answers = (pointer_walk(4), pointer_walk(2), pointer_walk(8), pointer_walk(4, last=1), "no code <b>at all</b>")
    options = Options("tested", answers=5, launches=8, budget=Budget(0))
    return optimize(source.kernels, options, Scripted(answers), race=stand_in)


@pytest.fixture(scope="module")
def built(record: KernelRecord, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.write(tmp_path_factory.mktemp("bundles") / "conv1d", manifest_of(record), files_of(record), {}).folder


@pytest.fixture(scope="module")
def report(built: Path) -> Report:
    return read(built)


# --- one model ---


def test_every_candidate_has_one_fate_and_the_funnel_counts_them(report: Report) -> None:
    (architecture,) = report.kernels[0].architectures
    fates = {c.name: (c.fate, c.code) for c in architecture.candidates}
    assert fates == {
        "r0-0": ("chosen", "FASTER"),
        "r0-1": ("slower", "SLOWER"),
        "r0-2": ("tie", "SAME"),
        "r0-3": ("failed", "REFUTED"),
        "r0-4": ("failed", "SYNTAX"),
    }
    funnel = architecture.funnel
    assert (funnel.sampled, funnel.parsed, funnel.assembled, funnel.tested, funnel.proved) == (5, 4, 4, 3, 0)
    assert funnel.faster == 1
    assert funnel.stopped == {"REFUTED": 1, "SYNTAX": 1}


def test_the_verdict_line_keeps_speed_and_correctness_apart(report: Report) -> None:
    headline = report.kernels[0].architectures[0].headline
    assert re.match(
        r"FASTER 1\.52x \[1\.51, 1\.53\] sm_90 a stand-in r0-0 - verified: tested\(bitwise\), \d+/\d+ inputs", headline
    )


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_numbers_stand_in_every_format(report: Report, form: str) -> None:
    text = render(report, form, explain=True)
    for candidate in report.kernels[0].architectures[0].candidates:
        if candidate.speed.ratio is None:
            continue
        if form == "json":
            held = json.loads(text)["kernels"][0]["architectures"][0]["candidates"]
            own = next(c for c in held if c["name"] == candidate.name)
            assert own["speed"]["ratio"] == candidate.speed.ratio
        else:
            assert speed_text(candidate.speed) in text
        assert candidate.machine is not None
        assert str(candidate.machine.registers) in text


@pytest.mark.parametrize("place", ["bundle", "suite"])
def test_json_is_as_the_schema_says(report: Report, place: str) -> None:
    data = json.loads(render(report if place == "bundle" else read(SUITE), "json"))
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    data["schema_version"] = 99
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(data)


def test_what_was_not_measured_is_said_and_no_number_stands_for_it(tmp_path: Path, record: KernelRecord) -> None:
    from dataclasses import replace

    (architecture,) = record.architectures
    unmeasured = tuple(replace(c, speed=Speed("not_measured", "no sm_90 GPU here")) for c in architecture.candidates)
    selection = replace(architecture.selection, variant="baseline", code="NOT_MEASURED", reason="none", measured=False)
    changed = replace(record, architectures=(replace(architecture, candidates=unmeasured, selection=selection),))
    folder = bundle.write(tmp_path / "conv1d", manifest_of(changed), files_of(changed), {}).folder
    found = read(folder)
    assert found.summary["geomean"] is None
    assert found.kernels[0].architectures[0].funnel.faster is None
    for form in ("terminal", "markdown", "html"):
        text = render(found, form, explain=True)
        assert "not measured" in text
        assert "1.52x" not in text


def test_every_row_of_the_suite_is_listed() -> None:
    held = json.loads(SUITE.read_text())["kernels"]
    found = read(SUITE)
    assert [(r.kernel, r.size) for r in found.suite] == [(k["kernel"], k["size"]) for k in held]
    for form in ("terminal", "markdown", "html"):
        text = render(found, form)
        assert all(row.kernel in text for row in found.suite)


# --- differences ---


def test_names_alone_are_no_difference() -> None:
    head = ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
    code = "ld.param.u64 %a, [p];\nmov.u32 %b, 1;\nst.global.u32 [%a], %b;\nret;\n"
    one = f"{head}.reg .b64 %a; .reg .b32 %b;\n{code}}}\n"
    other = one.replace("%a", "%x9").replace("%b", "%y")
    assert all(row.mark in " …" for row in diffs.ptx(one, other, "k").rows)
    changed = [row for row in diffs.ptx(one, other.replace(", 1;", ", 2;"), "k").rows if row.mark not in " …"]
    assert [(row.mark, "1;" in row.left, "2;" in row.right) for row in changed] == [("~", True, True)]


def test_register_numbers_of_machine_code_are_not_compared() -> None:
    found = diffs.sass(["MOV R1, c[0x0][0x28]", "IADD3 R2, R1, 0x1, RZ"], ["MOV R7, c[0x0][0x28]", "EXIT"], "k")
    assert [row.mark for row in found.rows] == [" ", "~"]


# --- pages ---


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "rect", "line", "circle", "link", "img"):
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe", "object"):
            self.foreign.append(tag)
        self.foreign += [value for name, value in attrs if name in ("src", "href") and value]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


@pytest.mark.parametrize("place", ["bundle", "suite"])
def test_a_page_needs_nothing_but_itself(report: Report, place: str) -> None:
    text = render(report if place == "bundle" else read(SUITE), "html")
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.foreign == []
    assert "url(" not in text
    assert len(text.encode()) < MOST_BYTES
    assert "<b>at all</b>" not in text, "an answer is text, never markup"


def chromium(path: Path, *options: str) -> str:
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={path.parent / 'profile'}", *options, path.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


PROBE = """<script>addEventListener("load", () => setTimeout(() => {
const t = performance.getEntriesByType("navigation")[0];
document.body.dataset.seen = JSON.stringify([Math.round(t.domContentLoadedEventEnd), document.body.scrollWidth,
innerWidth, getComputedStyle(document.body).backgroundColor, document.querySelectorAll("svg circle").length]);
}))</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_the_page_in_time_and_in_its_width(
    report: Report, tmp_path: Path, width: int, scheme: str
) -> None:
    for name, held in (("bundle", report), ("suite", read(SUITE))):
        path = tmp_path / f"{name}.html"
        path.write_text(render(held, "html").replace("</body>", PROBE))
        chosen = f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"
        shown = chromium(path, chosen, f"--window-size={width},900", "--dump-dom")
        seen = re.search(r'data-seen="([^"]+)"', shown)
        assert seen is not None
        ready, wide, window, background, dots = json.loads(seen[1].replace("&quot;", '"'))
        assert ready < MOST_MILLISECONDS
        assert wide <= window
        assert background == ("rgb(13, 17, 23)" if scheme == "dark" else "rgb(255, 255, 255)")
        assert dots == (3 if name == "bundle" else sum(r.speeds["proved"].ratio is not None for r in held.suite))


# --- the verb and the notebook ---


def test_the_verb_writes_each_format(built: Path, tmp_path: Path) -> None:
    for form in ("json", "html"):
        out = tmp_path / f"report.{form}"
        done = CliRunner().invoke(app, ["report", str(built), "--format", form, "-o", str(out)])
        assert done.exit_code == 0, done.output
        assert out.read_text() == render(read(built), form)
    folder = CliRunner().invoke(app, ["report", str(built.parent)])
    assert folder.exit_code == 0
    assert "FASTER 1.52x" in folder.output


@pytest.mark.parametrize("content", [None, "{}", "not JSON", '{"suite_format": 1}', "[]"])
def test_what_cannot_be_reported_is_named(tmp_path: Path, content: str | None) -> None:
    place = tmp_path if content is None else tmp_path / "x.json"
    if content is not None:
        place.write_text(content)
    done = CliRunner().invoke(app, ["report", str(place)])
    assert done.exit_code == 2, done.output
    assert "next:" in done.output


def test_a_notebook_shows_the_page_and_a_terminal_the_text(record: KernelRecord) -> None:
    told = Told.of("conv1d: FASTER", [record])
    assert str(told) == "conv1d: FASTER"
    shown = told._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "FASTER 1.52x" in shown
    assert Told.of("not optimized <yet>", ())._repr_html_() == "<pre>not optimized &lt;yet&gt;</pre>"
