"""What was built for a case, as one JSON file: made on one machine, raced on another."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.suite.building import Built, Variant
from hybridcc.errors import InputError
from hybridcc.passes.rewrite.recording import replace_file
from hybridcc.runtime.race_job import Contender

FORMAT = 1


def save(built: Built, folder: Path) -> Path:
    """Raises OutputError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{built.name}.json"
    replace_file(path, json.dumps({"format": FORMAT, **asdict(built)}, default=_encoded) + "\n")
    return path


def read(path: Path) -> Built:
    """Raises InputError for a file that ``save`` did not write."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        if data.pop("format") != FORMAT:
            raise ValueError("of another version of the suite")
        contenders = {name: _contender(data.pop(name)) for name in ("stock", "fastmath", "twin")}
        variants = tuple(_variant(each) for each in data.pop("variants"))
        return Built(**contenders, variants=variants, **{name: _tuple(value) for name, value in data.items()})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"no build of the suite: {error}", where=str(path), next_step="make it with python -m benchmarks build"
        ) from error


def _encoded(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{value!r} has no place in a build")


def _contender(data: Mapping[str, Any]) -> Contender:
    twins = data["twins"]
    given = {
        **data,
        "cubin": base64.b64decode(data["cubin"]),
        "counted": base64.b64decode(data["counted"]),
        "twins": None if twins is None else tuple(base64.b64decode(twin) for twin in twins),
    }
    return Contender(**given)


def _variant(data: Mapping[str, Any]) -> Variant:
    return Variant(**{**data, "contender": _contender(data["contender"]), "policies": tuple(data["policies"])})


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
