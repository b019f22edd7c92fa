"""``hybridcc verify``: are two PTX kernels equal for every input?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hybridcc.errors import InputError

if TYPE_CHECKING:
    from hybridcc.passes.facts import Fact, Term
    from hybridcc.verifying import Judgement

EXIT_CODES = {"proved": 0, "refuted": 1, "unknown": 4}


def verify(
    base: Annotated[Path, typer.Argument(help="The baseline, a PTX file.")],
    candidate: Annotated[Path, typer.Argument(help="The candidate, a PTX file with the same kernel.")],
    entry: Annotated[str | None, typer.Option(help="Which kernel of the files.")] = None,
    region: Annotated[
        str | None, typer.Option(help="CAND is the rewrite of this region of BASE alone (hybridcc regions).")
    ] = None,
    facts: Annotated[Path | None, typer.Option(help="JSON list of facts that you promise.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Where to write the certificate of a proof.")] = None,
    recheck: Annotated[
        Path | None, typer.Option(help="Check this certificate, with no search and with the other solver.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For the inputs that are tried first.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict and what it rests on as JSON.")] = False,
) -> None:
    """Prove that CANDIDATE does what BASE does. Exit codes: 0 proved, 1 refuted, 4 unknown, 2 bad input."""
    from hybridcc.passes.rewrite.recording import replace_file
    from hybridcc.passes.verdict import Proved
    from hybridcc.passes.verify import proving
    from hybridcc.verifying import Judgement, judge, pair

    old, new = _read(base), _read(candidate)
    promised = () if facts is None else read_facts(_read(facts))
    if recheck is not None:
        kernel, text, known = pair(old, new, entry, promised, region)
        judged = Judgement(proving.recheck(_read(recheck), kernel.ptx, text, kernel.entry, known), kernel, text)
    else:
        judged = judge(old, new, entry, promised, region=region, seed=seed)
    if isinstance(judged.verdict, Proved) and certificate is not None:
        replace_file(certificate, judged.verdict.certificate)
    word, told = _told(judged)
    typer.echo(
        json.dumps({**told, **_evidence(judged)}) if as_json else "\n".join(f"{k}: {v}" for k, v in told.items())
    )
    raise typer.Exit(EXIT_CODES[word])


def _told(judged: Judgement) -> tuple[str, dict[str, Any]]:
    from hybridcc.passes.verdict import Proved, Refuted, Unknown
    from hybridcc.passes.verify.proving import is_reproducible

    match judged.verdict:
        case Proved(document, aside):
            evidence = json.loads(document)
            return "proved", {
                "verdict": ", ".join(["proved", *(f"{sense} aside" for sense in aside)]),
                **{k: evidence[k] for k in ("solver", "queries", "seconds", "facts", "assumes")},
                "nodes": len(evidence["certificate"]["nodes"]),
            }
        case Refuted(counterexample):
            return "refuted", {"verdict": "refuted", "counterexample": counterexample}
        case Unknown(reason):
            told: dict[str, Any] = {"verdict": "unknown", "reason": reason}
            return "unknown", told | ({} if is_reproducible(judged.verdict) else {"reproducible": False})
        case _:
            raise AssertionError(f"the prover does not say {judged.verdict}")


def _evidence(judged: Judgement) -> dict[str, Any]:
    """What stands in --json besides: a proof's alignment and invariants, the launch of a refutation."""
    from hybridcc.passes.verdict import Proved
    from hybridcc.passes.verify.launch import as_data
    from hybridcc.passes.verify.proof.telling import alignment

    if judged.launch is not None:
        return {"launch": as_data(judged.launch, [a.name for a in judged.kernel.arguments])}
    if isinstance(judged.verdict, Proved):
        document = json.loads(judged.verdict.certificate)
        return {
            "facts_of_no_use": document["facts_of_no_use"],
            "alignment": alignment(
                json.dumps(document["certificate"]), judged.kernel.ptx, judged.candidate, judged.kernel.entry
            ),
        }
    return {}


def read_facts(text: str) -> tuple[Fact, ...]:
    """``[{"left": {"parameter": 5}, "relation": ">=", "right": 0}, …]``; terms are numbers, parameters, specials or
    ranges of bytes: ``{"parameter": 3, "bytes": {"parameter": 5, "size": 4}}``.

    Whatever stands in a file is the user's promise. Raises InputError.
    """
    from hybridcc.passes.facts import Fact, Origin, Relation

    try:
        found = json.loads(text)
        return tuple(Fact(_term(f["left"]), Relation(f["relation"]), _term(f["right"]), Origin.DECLARED) for f in found)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"facts that cannot be read: {error}",
            next_step='write [{"left": {"parameter": 5}, "relation": ">=", "right": 0}]',
        ) from error


def _term(given: Any) -> Term:
    from hybridcc.passes.facts import Bytes, Parameter, Special

    match given:
        case int():
            return given
        case {"parameter": int(), "bytes": count}:
            start = _term({k: v for k, v in given.items() if k != "bytes"})
            size = int(count.get("size", 1)) if isinstance(count, dict) else 1
            length = _term(count)
            if isinstance(start, Parameter) and isinstance(length, (Parameter, int)):
                return Bytes(start, length, size)
        case {"parameter": int(index), **rest}:
            return Parameter(index, str(rest.get("label", f"parameter {index}")))
        case {"special": str(name)}:
            return Special(name)
    raise ValueError(f"term {given!r}")


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise InputError(f"{error.strerror}", where=str(path), next_step="name a file that can be read") from error
    except UnicodeDecodeError as error:
        raise InputError("not a text file", where=str(path), next_step="name a text file") from error
