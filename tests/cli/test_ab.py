"""``hybridcc ab``: two kernels against each other, up to the race here, and the race on a simulated GPU."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from hybridcc.cli import app
from hybridcc.cli.ab import exit_code, headline
from hybridcc.contest import Side, contest, record
from hybridcc.contest_inputs import arguments_of, varied
from hybridcc.passes.verify.launch import Launch
from hybridcc.runtime import device, race_children, toolchain
from hybridcc.runtime.assemble import assemble
from hybridcc.runtime.device import Device
from hybridcc.runtime.given_cubin import Entry, GivenCubin, examine
from tests.simulated.gpu import NOISE
from tests.simulated.worker import COMMAND

without_gpu = pytest.mark.skipif(device.available() is not None, reason="says what happens without a GPU")

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 px, .param .f32 a, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %d<4>;
    ld.param.u64 %d0, [px];
    ld.param.f32 %f0, [a];
    ld.param.u32 %r0, [n];
    cvta.to.global.u64 %d1, %d0;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r1, %r2, %r3, %r1;
    setp.ge.u32 %p, %r1, %r0;
    @%p bra $DONE;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    ld.global.f32 %f1, [%d3];
    mov.u32 %r4, 0;
$AGAIN:
    mul.rn.f32 %f1, %f1, %f0;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p, %r4, TRIPS;
    @%p bra $AGAIN;
    st.global.f32 [%d3], %f1;
$DONE:
    ret;
}
""".replace("TRIPS", "64")
ARGUMENTS = ("--arg", "f32[4096]=random", "--arg", "f32:1.5", "--arg", "u32:4096", "--grid", "16", "--block", "256")


@pytest.fixture
def ptx(tmp_path):
    path = tmp_path / "a.ptx"
    path.write_text(PTX)
    return path


def ab(*words):
    return CliRunner().invoke(app, ["ab", *map(str, words)])


def told(*words):
    done = ab(*words, "--json")
    return done.exit_code, json.loads(done.stdout)


def test_a_dry_run_tells_what_differs_and_what_would_be_raced(ptx):
    code, found = told(ptx, ptx, "--flags-b=-O0", "--dry-run", "--arch", "sm_90", *ARGUMENTS)
    assert code == 0
    a, b = found["static"]["a"], found["static"]["b"]
    assert not found["static"]["same_code"]
    assert b["registers"] > a["registers"]
    assert b["instructions"] != a["instructions"]
    assert found["static"]["opcodes"]
    assert b["made_by"] == a["made_by"] + " -O0"
    assert found["launch"].startswith("grid 16x1x1, block 256x1x1, arguments (float32[4096]")
    families = [re.findall(r"family ([\w ]+)", text)[0] for text in found["inputs_to_compare"]]
    assert families == ["example", "random", "signed", "nan", "infinity", "subnormal", "large", "zero"]
    text = ab(ptx, ptx, "--flags-b=-O0", "--dry-run", "--arch", "sm_90", *ARGUMENTS).stdout
    assert text.startswith("NOT MEASURED; outputs not compared\n  a dry run\n")
    assert f"registers     {a['registers']:>8} {b['registers']:>8}  +{b['registers'] - a['registers']}" in text


def test_launches_are_made_for_ptx_without_arguments(ptx):
    code, found = told(ptx, ptx, "--flags-b=-O0", "--dry-run", "--arch", "sm_90")
    assert code == 0
    assert found["generated"]
    assert len(found["inputs_to_compare"]) > 3


def test_the_same_machine_code_is_not_raced_whatever_it_is_called(ptx, tmp_path):
    other = tmp_path / "b.cubin"
    other.write_bytes(assemble(PTX.replace("entry scale", "entry otherwise"), "sm_90").bytes)
    code, found = told(ptx, other, *ARGUMENTS, "--arch", "sm_90")
    assert (code, found["speed"]["kind"], found["correctness"]["verdict"]) == (0, "same", "proved")
    assert [found["static"][one]["entry"] for one in "ab"] == ["scale", "otherwise"]
    one_more = tmp_path / "c.ptx"
    one_more.write_text(PTX.replace("64;\n    @%p bra $AGAIN", "65;\n    @%p bra $AGAIN"))
    assert not told(ptx, one_more, *ARGUMENTS, "--arch", "sm_90", "--dry-run")[1]["static"]["same_code"]


@without_gpu
def test_without_a_gpu_it_says_so_and_ends_with_three_or_as_untestable(ptx):
    words = ptx, ptx, "--flags-b=-O0", *ARGUMENTS
    done = ab(*words)
    assert done.exit_code == 3
    assert "nothing was raced" in done.stderr
    assert "next:" in done.stderr
    assert "registers" in done.stdout  # what could be said is said
    code, found = told(*words, "--bisect")
    assert code == found["exit_code"] == 125
    assert found["speed"]["kind"] == "not_measured"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["{a}"], "two files"),
        (["{a}", "{a}.nowhere", *ARGUMENTS], "No such file"),
        (["{a}", "{broken}", *ARGUMENTS], "broken.ptx:"),
        (["{a}", "{junk}", *ARGUMENTS], "neither PTX text nor a cubin"),
        (["{a}", "{a}", "--arg", "f32[8]"], "takes parameters of [8, 4, 4] bytes"),
        (["{a}", "{a}", "--entry", "other", *ARGUMENTS], "no kernel other (kernels: scale)"),
        (["{a}", "{a}", "--ptxas-b", "/bin/true", *ARGUMENTS], "no ptxas"),
        (["{a}", "{a}", "--flags", "'-O1", *ARGUMENTS], "flags"),
        (["{a}", "{a}", "--grid", "x", *ARGUMENTS[:6]], "--grid"),
        (["{sm_80}", "{a}", "--arch", "sm_90", *ARGUMENTS], "is for sm_80"),
        (["{sm_80}", "{sm_80}", "--flags", "-O1", *ARGUMENTS], "assembled already"),
        (["{sm_80}", "{sm_80}"], "does not say what its parameters are"),
        (["--replay", "{a}.nowhere"], "not an exported contest"),
    ],
)
def test_bad_input_is_told_and_untestable_in_a_bisection(ptx, tmp_path, words, says):
    broken, junk, sm_80 = tmp_path / "broken.ptx", tmp_path / "junk.cubin", tmp_path / "sm_80.cubin"
    broken.write_text(PTX.replace("mul.rn.f32", "mul.rn.f31"))
    junk.write_bytes(b"\xff\xfe junk")
    if "{sm_80}" in words:
        sm_80.write_bytes(assemble(PTX, "sm_80").bytes)
        words = [*words, *([] if "--arch" in words else ["--arch", "sm_80"])]
    named = [w.format(a=ptx, broken=broken, junk=junk, sm_80=sm_80) for w in words]
    done = ab(*named)
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert "next:" in done.stderr
    again = ab(*named, "--bisect")
    assert again.exit_code == 125
    assert says in again.stderr


def test_another_ptxas_is_run_and_named(ptx):
    program = toolchain.find("ptxas").path
    words = (ptx, ptx, "--ptxas-a", program, "--assembler", "ptxas", "--dry-run", "--arch", "sm_90", *ARGUMENTS)
    _, found = told(*words)
    assert found["static"]["a"]["made_by"] == found["static"]["b"]["made_by"]
    assert found["static"]["a"]["made_by"].startswith("ptxas 13.")


def test_what_is_exported_runs_again(ptx, tmp_path):
    folder = tmp_path / "kept"
    words = (ptx, ptx, "--flags-b=-O1", "--flags=-O0", "--dry-run", "--arch", "sm_90", *ARGUMENTS, "--seed", "5")
    _, before = told(*words, "--export", folder)
    assert {path.name for path in folder.iterdir()} == {
        "a.cubin", "a.ptx", "b.cubin", "b.ptx", "launch.npz", "ab.json",
    }  # fmt: skip
    _, after = told("--replay", folder, "--dry-run")
    for one in "ab":
        for name in ("cubin_sha256", "ptx_sha256", "made_by", "registers", "entry"):
            assert before["static"][one][name] == after["static"][one][name]
    assert before["launch"] == after["launch"]
    assert before["inputs_to_compare"] == after["inputs_to_compare"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("")
    assert ab(*words, "--export", tmp_path / "mine").exit_code == 2
    assert (tmp_path / "mine" / "precious").exists()


def test_a_cubin_tells_its_kernels_and_parameters():
    second = PTX[PTX.index(".visible") :].replace("entry scale", "entry second").replace(".param .f32 a, ", "")
    two = PTX + second.replace("ld.param.f32 %f0, [a];", "mov.f32 %f0, 0f40000000;")
    for arch in ("sm_80", "sm_90", "sm_100"):
        made = assemble(two, arch)
        found = examine(made.bytes, "two.cubin")
        assert found.arch == arch
        assert {e.name: e.parameters for e in found.entries} == {"scale": (8, 4, 4), "second": (8, 4)}
        for entry in found.entries:
            assert entry.registers == made.resources(entry.name).registers


def test_varied_values_leave_whole_numbers_and_the_launch_alone():
    launch = Launch((1, 1, 1), (32, 1, 1), (np.ones(64, "f4"), np.arange(64), np.float32(2)))
    made = list(varied(launch, 0))
    assert len({np.asarray(each.values[0]).tobytes() for each in made}) == len(made)
    assert all(np.array_equal(np.asarray(each.values[1]), np.arange(64)) for each in made)
    assert np.asarray(launch.values[0]).sum() == 64
    assert any(np.isnan(np.asarray(each.values[0])).any() for each in made)


# --- the race, on a simulated GPU ---

DEVICE = Device(0, "Simulated GPU", "sm_90", "13.0", 132, 1 << 32, 1 << 20, "ab" * 16)
SIZE = 256


def simulated_side(us=20.0, **what):
    code = json.dumps({"kernel": "double", "us": us, "size": SIZE, "grid": 4, **what}).encode()
    entry = Entry("k", 32, 0, 0, (8, 8))
    return Side("x.cubin", None, GivenCubin(code, "sm_90", (entry,), ()), entry, "given as a cubin", None)


def simulated(monkeypatch, a, b, budget_s=1.5):
    monkeypatch.setattr(race_children, "WORKER", COMMAND)
    monkeypatch.setenv(NOISE, json.dumps({"sigma": 0.001}))
    values = (np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32))
    launch = Launch((4, 1, 1), (64, 1, 1), values)
    launches = (launch, *list(varied(launch, 0))[:2])
    found = contest(
        a, b, arguments_of(values), launches, DEVICE, budget_s=budget_s, seed=0, progress=lambda message: None
    )
    return record(found, DEVICE, budget_s, 0)


@pytest.mark.parametrize(("us", "kind", "code"), [(10.0, "faster", 0), (20.0, "same", 0), (25.0, "slower", 1)])
def test_speed_with_spread_control_and_conditions(monkeypatch, us, kind, code):
    found = simulated(monkeypatch, simulated_side(), simulated_side(us))
    speed = found["speed"]
    assert speed["kind"] == kind, speed
    assert speed["interval"][0] <= speed["ratio"] <= speed["interval"][1]
    assert speed["noise_floor"] < 0.01
    assert found["correctness"]["verdict"] == "tested"
    assert found["correctness"]["compared_launches"] >= 140
    assert len(found["correctness"]["inputs"]) == 3
    assert found["conditions"]["samples"] > 0
    assert exit_code(found, 0.0, False, False) == code
    assert exit_code(found, 0.5, True, True) == 0
    assert f"{speed['ratio']:.3f}x [" in headline(speed)


@pytest.mark.parametrize("does", ["faults", "does nothing", "writes out of bounds"])
def test_other_bits_are_a_refutation_and_nothing_is_timed(monkeypatch, does):
    found = simulated(monkeypatch, simulated_side(), simulated_side(does=does))
    assert found["correctness"]["verdict"] == "refuted"
    assert found["correctness"]["deviation"]
    assert found["speed"]["kind"] == "not_measured"
    assert exit_code(found, 0.0, False, True) == 1


def test_a_baseline_that_is_random_proves_nothing(monkeypatch):
    found = simulated(monkeypatch, simulated_side(does="is random"), simulated_side())
    assert found["correctness"]["verdict"] == "unknown"
    assert "not deterministic" in found["speed"]["reason"]
    assert exit_code(found, 0.0, False, False) == 3
    assert exit_code(found, 0.0, False, True) == 125


def test_undecided_is_a_failure_only_where_that_is_asked():
    found = {"correctness": {"verdict": "tested"}, "speed": {"kind": "inconclusive", "interval": (0.9, 1.1)}}
    assert [exit_code(found, 0.0, *flags) for flags in ((False, False), (True, False), (True, True))] == [0, 4, 125]


# --- the race, on a GPU ---


@pytest.mark.gpu
@pytest.mark.skipif(device.available() is None, reason=f"no GPU: {device.why_none()}")
@pytest.mark.parametrize(
    ("trips", "flags", "code", "kind"),
    [("64", ["--always"], 0, None), ("60", [], 1, "not_measured"), ("64", ["--flags-b=-O0"], 1, "slower")],
)
def test_on_a_gpu(tmp_path, trips, flags, code, kind):
    """A (whose product runs over) against itself, against one of so few trips that it is finite, and its own -O0."""
    a, b = tmp_path / "a.ptx", tmp_path / "b.ptx"
    a.write_text(PTX.replace("%r4, 64", "%r4, 20000"))
    b.write_text(PTX.replace("%r4, 64", f"%r4, {trips}" if trips != "64" else "%r4, 20000"))
    found_code, found = told(a, b, *ARGUMENTS, "--budget-s", "4", *flags)
    assert found_code == code, found
    assert kind is None or found["speed"]["kind"] == kind
    if kind is None:
        assert found["speed"]["kind"] in ("same", "inconclusive")
