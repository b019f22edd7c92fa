"""One file for many architectures: the selected cubins, and the baselines' PTX for devices that none of them runs on.

The CUDA driver loads it with no hybridcc (``cuModuleLoadData``, ``cuLibraryLoadData``) and picks what fits.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hybridcc.errors import InputError, ToolchainError
from hybridcc.runtime import toolchain
from hybridcc.runtime.choice import capability_of

TIMEOUT_S = 120


def fatbin(cubins: Mapping[str, bytes], ptx: Mapping[str, str]) -> bytes:
    """Both by architecture ("sm_90"). Equal arguments give equal bytes. Raises InputError for no cubin at all, and
    ToolchainError where the toolkit's fatbinary is missing or refuses."""
    if not cubins:
        raise InputError("there is no cubin to pack", next_step="build for one architecture at least")
    tool = toolchain.find("fatbinary")
    with tempfile.TemporaryDirectory(prefix="hybridcc-") as folder:
        images = []
        for arch, code in sorted(cubins.items()):
            images.append(_image("elf", arch, Path(folder, f"{arch}.cubin"), code))
        for arch, text in sorted(ptx.items()):
            images.append(_image("ptx", arch, Path(folder, f"{arch}.ptx"), text.encode()))
        target = Path(folder, "out.fatbin")
        done = subprocess.run(
            [tool.path, "--64", f"--create={target}", *images],
            capture_output=True, text=True, env=toolchain.environment(), timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode != 0 or not target.is_file():
            said = " ".join((done.stdout + done.stderr).split())
            raise ToolchainError(
                f"fatbinary {tool.version}: {said or f'exit status {done.returncode}'}",
                next_step="report this with the bundle",
            )
        return target.read_bytes()


def fallback(architectures: Mapping[str, str]) -> dict[str, str]:
    """Of PTX by architecture, what a device needs that no cubin runs on: of every major capability the highest that is
    for later devices too. Whichever device comes, the best PTX for it is among these (runtime/choice.py has the rule).
    """
    best: dict[int, tuple[int, str]] = {}
    for arch in architectures:
        parsed = capability_of(arch)
        if parsed is not None and not parsed[1]:
            (major, minor), _ = parsed
            best[major] = max(best.get(major, (-1, "")), (minor, arch))
    return {arch: architectures[arch] for _, arch in best.values()}


def _image(kind: str, arch: str, path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return f"--image3=kind={kind},sm={arch.removeprefix('sm_')},file={path}"
