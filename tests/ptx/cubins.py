"""What ptxas makes of a text, as far as names and positions have no part in it."""

from __future__ import annotations

import csv
import re
import struct
import subprocess
from pathlib import Path

from hybridcc.runtime.toolchain import find

CORPUS = Path(__file__).parents[1] / "corpus"
CODE = re.compile(r"\.(text|nv\.info|nv\.constant|nv\.shared|nv\.global)")


def corpus_files() -> list[Path]:
    return sorted(CORPUS.glob("*/*.ptx"))


def refused_by_ptxas() -> frozenset[str]:
    """Files of the corpus that ptxas 13.0 cannot take, by their path below the corpus."""
    with (CORPUS / "SOURCES.tsv").open(newline="") as handle:
        return frozenset(r["file"] for r in csv.DictReader(handle, delimiter="\t") if r["ptxas13_own"] != "ok")


def architecture(ptx: str) -> str:
    found = re.search(r"^\.target\s+(sm_\w+)", ptx, re.M)
    assert found is not None
    return found[1]


def assemble(ptx: str, folder: Path) -> dict[str, bytes]:
    """The code sections of the cubin by name; fails the test with the log of ptxas."""
    source, cubin = folder / "module.ptx", folder / "module.cubin"
    source.write_text(ptx)
    command = [str(find("ptxas").path), "-c", "-arch", architecture(ptx), str(source), "-o", str(cubin)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return code_sections(cubin.read_bytes())


def code_sections(elf: bytes) -> dict[str, bytes]:
    """Sections of a 64-bit little-endian ELF file that hold code and what the driver needs to run it."""
    assert elf[:6] == b"\x7fELF\x02\x01"
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_at = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names = elf[headers[names_at][4] :]
    found: dict[str, bytes] = {}
    for name_at, kind, _, _, offset, length in headers:
        name = names[name_at : names.index(b"\0", name_at)].decode()
        if CODE.match(name):
            # Shared memory has no content in the file (nor has what is of type 8, SHT_NOBITS), only a size.
            empty = kind == 8 or name.startswith(".nv.shared")
            found[name] = length.to_bytes(8, "little") if empty else elf[offset : offset + length]
    return found
