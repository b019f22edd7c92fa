"""What is read of ptxas's command line, held against ptxas's own help and ptxas's own behaviour."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridcc.dropin.command_line import FLAGS, VALUED, Command, Straight, read
from hybridcc.runtime.toolchain import find


def test_every_option_that_ptxas_has_is_known() -> None:
    told = subprocess.run([find("ptxas").path, "--help"], capture_output=True, text=True, check=True).stdout
    heads = re.findall(r"^(--[\w-]+)( <.*)?\s+\((-[\w-]+)\)", told, re.MULTILINE)
    assert len(heads) > 40
    assert {long: short for long, _, short in heads} == VALUED | FLAGS
    valued = {long for long, value, _ in heads if value.strip()}
    caches = {"--def-load-cache", "--def-store-cache", "--force-load-cache", "--force-store-cache"}
    assert valued | caches == set(VALUED)  # the help does not tell that these four take a value


@pytest.mark.parametrize(
    "arguments",
    [
        ["-arch=sm_90", "k.ptx"],
        ["-arch", "sm_90", "k.ptx", "-o", "k.cubin"],
        ["--gpu-name=sm_90", "--output-file=k.cubin", "k.ptx"],
        ["--gpu-name", "sm_90", "k.ptx", "--output-file", "k.cubin"],
        ["k.ptx", "-o=k.cubin", "-v", "-arch=sm_90"],
        ["-arch=sm_80", "k.ptx", "-arch=sm_90"],
    ],
)
def test_the_forms_of_input_architecture_and_output(arguments: list[str]) -> None:
    command = read(arguments)
    assert isinstance(command, Command)
    assert (command.input, command.arch, command.flags) == ("k.ptx", "sm_90", ())
    assert command.with_input("-") == tuple("-" if word == "k.ptx" else word for word in arguments)


def test_what_decides_the_machine_code_is_kept_in_order() -> None:
    line = "-m64 --opt-level=2 -O3 -maxrregcount 32 -dlcm=cg -c -lineinfo -v -arch sm_80 k.ptx -o out --fmad false -w"
    command = read(line.split())
    assert isinstance(command, Command)
    wanted = "-m64 --opt-level=2 -O3 -maxrregcount 32 -dlcm=cg -c -lineinfo --fmad false -w"
    assert command.flags == tuple(wanted.split())


def test_options_that_ptxas_does_not_tell_of_are_kept_in_one_word() -> None:
    """As Triton 3.9 calls it."""
    line = "-lineinfo -v --regAllocOptLevel=2 --gpu-name=sm_90a /tmp/k.ptx -o /tmp/k.ptx.o"
    command = read(line.split())
    assert isinstance(command, Command)
    assert (command.input, command.arch) == ("/tmp/k.ptx", "sm_90a")
    assert command.flags == ("-lineinfo", "--regAllocOptLevel=2")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--version", ""),
        ("-arch=sm_80 k.ptx -h", ""),
        ("", ""),
        ("-arch=sm_80 -o k.cubin", ""),
        ("-arch=sm_80 a.ptx b.ptx", "several inputs"),
        ("k.ptx -o k.cubin", "no architecture"),
        ("-arch=compute_80 k.ptx", "compute_80 is no architecture"),
        ("-arch=sm_80 --shiny k.ptx", "--shiny is no option"),
        ("-arch=sm_80 -v=true k.ptx", "-v=true takes no value"),
        ("-arch=sm_80 k.ptx -o", "-o lacks its value"),
        ("-arch=sm_80 -O 2 k.ptx", "-O lacks its value"),
        ("-arch=sm_80 -g k.ptx", "debugger"),
        ("-arch=sm_80 -e scale k.ptx", "some of the entries"),
        ("-arch=sm_80 -sanitize memcheck k.ptx", "instrumented"),
        ("-arch=sm_80 -ias .version", "on the command line"),
    ],
)
def test_what_is_left_to_ptxas_and_why(line: str, reason: str) -> None:
    straight = read(line.split())
    assert isinstance(straight, Straight)
    assert straight.reason.startswith(reason) if not reason else reason in straight.reason


def test_options_files_are_read_in_place(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text("-maxrregcount=32\n")
    outer.write_text(f"-O1 --options-file {inner} -arch=sm_86 -o 'a b.cubin'\n")
    command = read(["-w", "-optf", str(outer), "k.ptx", "-lineinfo"])
    assert isinstance(command, Command)
    assert (command.arch, command.flags) == ("sm_86", ("-w", "-O1", "-maxrregcount=32", "-lineinfo"))
    assert command.with_input("-") == ("-w", "-optf", str(outer), "-", "-lineinfo")
    outer.write_text("k.ptx -arch=sm_86")
    assert read([f"--options-file={outer}"]) == Straight("the input stands in an options file")
    outer.write_text(f"-optf {outer}")
    assert read([f"--options-file={outer}", "k.ptx"]) == Straight("options files name each other")
    with pytest.raises(OSError, match="none"):
        read(["-optf", str(tmp_path / "none"), "k.ptx"])


@given(st.lists(st.one_of(st.sampled_from([*VALUED, *VALUED.values(), *FLAGS, *FLAGS.values(), "-", "="]), st.text())))
def test_no_command_line_is_too_odd_to_read(arguments: list[str]) -> None:
    arguments = [word for word in arguments if "optf" not in word and "options-file" not in word]
    assert isinstance(read(arguments), Command | Straight)
