"""A kernel under NVIDIA's compute-sanitizer: what it does to memory that comparing results does not show.

The tool is the user's own, from a CUDA toolkit on the PATH; nothing is installed for it. Kernels run tens of times
slower under it, and are not timed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from hybridcc.errors import ToolchainError
from hybridcc.passes.kernel import Argument
from hybridcc.passes.verify.launch import Launch
from hybridcc.runtime import race_children, race_job
from hybridcc.runtime.device import Device
from hybridcc.runtime.race import BASELINE
from hybridcc.runtime.race_job import Contender

Tool: TypeAlias = Literal["memcheck", "racecheck", "synccheck", "initcheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck", "synccheck", "initcheck")
FOUND = 97
"""The exit code that compute-sanitizer is told to give for errors found."""

TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one tool says. ``clean`` None: it could not run, and ``text`` says why; False: ``text`` is its report."""

    tool: Tool
    clean: bool | None
    text: str = ""


def find() -> Path:
    """Raises ToolchainError where there is no compute-sanitizer."""
    found = shutil.which("compute-sanitizer")
    if found is None:
        raise ToolchainError(
            "compute-sanitizer is not on the PATH",
            next_step="install NVIDIA's CUDA toolkit, which has it, and put its bin folder on the PATH; or leave out "
            "--sanitize",
        )
    return Path(found)


def sanitize(
    contender: Contender,
    arguments: Sequence[Argument],
    launch: Launch,
    device: Device,
    *,
    tools: Sequence[Tool] = TOOLS,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[Finding, ...]:
    """Run one cubin on copies of the launch's values under each tool. Raises ToolchainError where there is none."""
    program = find()
    alone = replace(contender, name=BASELINE, twins=None, counted=b"")
    found = []
    job = race_job.job_of((alone,), arguments, launch, device.uuid, timed=False, compared=2)
    with race_job.folder_for(launch) as folder:
        race_job.write(folder, replace(job, shapes=(), scrub=False), (alone,), launch)
        for tool in tools:
            progress(f"{contender.name}: {tool}")
            found.append(_run(program, tool, folder))
    return tuple(found)


def _run(program: Path, tool: Tool, folder: Path) -> Finding:
    command = [str(program), "--tool", tool, "--error-exitcode", str(FOUND), *race_children.WORKER]
    try:
        done = subprocess.run(
            command,
            input=f"{folder}\n",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            env={**os.environ, "PYTHONPATH": race_children.python_path()},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding(tool, None, f"it did not end within {TIMEOUT_S:.0f} s")
    return read(tool, done.returncode, done.stdout + done.stderr)


def read(tool: Tool, code: int, said: str) -> Finding:
    """``said`` is the tool's lines (they begin with =========) among the racing process's own."""
    lines = [line.removeprefix("=========").strip() for line in said.splitlines() if line.startswith("=========")]
    told = [json.loads(line) for line in said.splitlines() if line.startswith('{"event"')]
    report = "\n".join(line for line in lines if line and not line.startswith("COMPUTE-SANITIZER"))
    if code == FOUND:
        return Finding(tool, False, report)
    if code == 0 and any(message["event"] == "done" for message in told):
        return Finding(tool, True, report)
    stopped = [message["reason"] for message in told if message["event"] in ("stop", "failed")]
    return Finding(tool, None, "; ".join([*stopped, *lines[-1:]]) or f"it ended with {code}")
