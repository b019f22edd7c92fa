"""``hybridcc verify``: are two PTX kernels equal for every input?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hybridcc.errors import InputError

if TYPE_CHECKING:
    from hybridcc.passes.facts import Fact, Term
    from hybridcc.passes.verdict import Verdict

EXIT_CODES = {"proved": 0, "refuted": 1, "unknown": 4}


def verify(
    base: Annotated[Path, typer.Argument(help="The baseline, a PTX file.")],
    candidate: Annotated[Path, typer.Argument(help="The candidate, a PTX file with the same kernel.")],
    entry: Annotated[str | None, typer.Option(help="Which kernel of the files.")] = None,
    facts: Annotated[Path | None, typer.Option(help="JSON list of facts that you promise.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Where to write the certificate of a proof.")] = None,
    recheck: Annotated[
        Path | None, typer.Option(help="Check this certificate, with no search and with the other solver.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Prove that CANDIDATE does what BASE does. Exit codes: 0 proved, 1 refuted, 4 unknown, 2 bad input."""
    from hybridcc.passes.rewrite.recording import replace_file
    from hybridcc.passes.verdict import NAN_PAYLOADS, Proved
    from hybridcc.passes.verify import proving

    old, new = _read(base), _read(candidate)
    promised = () if facts is None else read_facts(_read(facts))
    if recheck is not None:
        verdict = proving.recheck(_read(recheck), old, new, entry, promised)
    else:
        refuted = _refutation(old, new, entry)
        verdict = refuted or proving.prove(old, new, entry, promised)
        if refuted and _refutation(old, new, entry, payloads_aside=True) is None:
            proved = proving.prove(old, new, entry, promised)
            verdict = proved if isinstance(proved, Proved) and NAN_PAYLOADS in proved.aside else refuted
    word, told = _told(verdict)
    if isinstance(verdict, Proved) and certificate is not None:
        replace_file(certificate, verdict.certificate)
    typer.echo(json.dumps(told) if as_json else "\n".join(f"{k}: {v}" for k, v in told.items()))
    raise typer.Exit(EXIT_CODES[word])


LAUNCHES = 32


def _refutation(old: str, new: str, entry: str | None, *, payloads_aside: bool = False) -> Verdict | None:
    """A launch on which the executor tells the two apart. What it cannot run is left to the proof."""
    from hybridcc.errors import HybridccError
    from hybridcc.frontends.ptx_file import from_text
    from hybridcc.passes.verdict import Refuted
    from hybridcc.passes.verify.bare import with_arguments
    from hybridcc.passes.verify.testing import examine, reference_for

    kernels = from_text(old, entry, name="base")
    if len(kernels) != 1:
        raise InputError(f"{len(kernels)} kernels", next_step="name one with --entry")
    try:
        reference = reference_for(with_arguments(kernels[0]))
        verdict = examine(reference, new, most=LAUNCHES, payloads_aside=payloads_aside).verdict
    except HybridccError:
        return None  # no inputs can be made, or the candidate is no PTX: the proof says which
    return verdict if isinstance(verdict, Refuted) else None


def _told(verdict: Verdict) -> tuple[str, dict[str, Any]]:
    from hybridcc.passes.verdict import Proved, Refuted, Unknown

    match verdict:
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
            return "unknown", {"verdict": "unknown", "reason": reason}
        case _:
            raise AssertionError(f"the prover does not say {verdict}")


def read_facts(text: str) -> tuple[Fact, ...]:
    """``[{"left": {"parameter": 5}, "relation": ">=", "right": 0}, …]``; terms are numbers, parameters or specials.

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
    from hybridcc.passes.facts import Parameter, Special

    match given:
        case int():
            return given
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
