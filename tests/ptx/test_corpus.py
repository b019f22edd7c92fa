"""Every file of the corpus goes through the parser and printer, and stays the same program."""

from pathlib import Path

import pytest

from hybridcc.errors import RenameRefused
from hybridcc.ptx import parse
from hybridcc.ptx.canonical import Kind, canonical, canonical_key, rename_module
from hybridcc.ptx.debug import register_names
from hybridcc.ptx.nodes import Section
from tests.ptx.cubins import CORPUS, assemble, corpus_files, refused_by_ptxas

REFUSED = refused_by_ptxas()


def name(file: Path) -> str:
    return file.relative_to(CORPUS).as_posix()


every_file = pytest.mark.parametrize("file", corpus_files(), ids=name)
every_assembling_file = pytest.mark.parametrize("file", [f for f in corpus_files() if name(f) not in REFUSED], ids=name)


@every_file
def test_printing_and_parsing_again_changes_nothing(file: Path) -> None:
    module = parse(file.read_text(), file.name)
    printed = str(module)
    assert parse(printed) == module
    assert str(parse(printed)) == printed


@every_assembling_file
def test_printed_and_renamed_the_machine_code_is_the_same(file: Path, tmp_path: Path) -> None:
    text = file.read_text()
    module = parse(text, file.name)
    original = assemble(text, tmp_path)
    assert original.keys() & {n for n in original if n.startswith((".text", ".nv.global"))}
    assert assemble(str(module), tmp_path) == original
    if any(isinstance(i, Section) and register_names(i) for i in module.items):
        assert "debug" in text
        with pytest.raises(RenameRefused, match="debugger"):
            rename_module(module, numbered())
    else:
        assert assemble(str(rename_module(module, numbered())), tmp_path) == original


def numbered():
    count = 0

    def new(kind: Kind, old: str, type_: str) -> str:
        nonlocal count
        count += 1
        return {"register": "%", "label": "$", "variable": "", "parameter": ""}[kind] + f"renamed_{count}"

    return new


@every_file
def test_the_canonical_form_stands_still_and_forgets_names(file: Path) -> None:
    module = parse(file.read_text(), file.name)
    for entry in module.entries[:2]:
        form = canonical(module, entry.name)
        assert parse(str(form)) == form
        assert canonical(form, "kernel") == form
        if not any(isinstance(i, Section) and register_names(i) for i in module.items):
            assert canonical_key(rename_module(module, numbered()), entry.name) == canonical_key(module, entry.name)
