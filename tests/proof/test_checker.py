"""The judge refuses: forged certificates, certificates of other kernels, and proofs of what is not equal."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from mutate import mutants
from rewrites import FACTS, base, candidate

from hybridcc.errors import InputError
from hybridcc.passes.verdict import Proved, Unknown
from hybridcc.passes.verify import proving
from hybridcc.passes.verify.proof import reading
from hybridcc.ptx import parse

KERNEL = "mandelbrot"


@pytest.fixture(scope="module")
def proved() -> Proved:
    task = proving.Task(base(KERNEL), candidate(KERNEL, 1), KERNEL, FACTS[KERNEL], (1,))
    verdict = proving.run(task)
    assert isinstance(verdict, Proved)
    return verdict


def recheck(document: dict, new: str, facts=FACTS[KERNEL]):
    return proving.recheck(json.dumps(document), base(KERNEL), new, KERNEL, facts, backend_name="bitwuzla")


def test_a_certificate_is_about_two_kernels_and_no_others(proved: Proved) -> None:
    document = json.loads(proved.certificate)
    assert isinstance(recheck(document, candidate(KERNEL, 1)), Proved)
    verdict = recheck(document, candidate(KERNEL, 4))
    assert isinstance(verdict, Unknown)
    assert "other kernels" in verdict.reason


def test_a_right_certificate_does_not_carry_over_to_wrong_rewrites(proved: Proved) -> None:
    """Forge the digest, so that the certificate claims to be about a mutant: only harmless mutants pass."""
    document = json.loads(proved.certificate)
    right = candidate(KERNEL, 1)
    accepted = []
    for kind, text in itertools.islice(mutants(base(KERNEL), right, 7), 20):
        try:
            document["certificate"]["candidate"] = reading.read_program(parse(text), KERNEL).digest
            verdict = recheck(document, text)
        except (InputError, KeyError):
            continue
        if isinstance(verdict, Proved):
            accepted.append((kind, text))
    for kind, text in accepted:
        assert _harmless(right, text), f"{kind}: {set(text.splitlines()) ^ set(right.splitlines())}"


def _harmless(right: str, text: str) -> bool:
    """Same machine-independent effect by construction: commuted sums and products, a line twice, neighbours swapped."""
    from hybridcc.passes.verify.proof import attempt, terms
    from hybridcc.passes.verify.proof.premises import Premises
    from hybridcc.passes.verify.proof.sampling import entry_values, satisfies
    from hybridcc.passes.verify.proof.trace import Tracer

    terms.forget()
    first, second = (reading.read_program(parse(t), KERNEL) for t in (right, text))
    rng = random.Random(5)
    tracers = (Tracer(first, frozenset(), commuting=True), Tracer(second, frozenset(), commuting=True))
    for _ in range(300):
        values = entry_values(first, Premises(()), rng)
        if not satisfies(values, Premises(())):
            continue
        p = tracers[0].run(values)
        q = None if p is None else tracers[1].run(values, 4 * attempt.STEP_LIMIT)
        if p is not None and (q is None or (p.memory, p.ending) != (q.memory, q.ending)):
            return False
    return True


def test_a_forged_certificate_is_refused(proved: Proved) -> None:
    """Change one number or name somewhere in a certificate of two kernels that differ: it must never pass."""
    wrong = candidate(KERNEL, 1).replace("add.s32 %r11, %r11, 1;", "add.s32 %r11, %r11, 2;")
    assert wrong != candidate(KERNEL, 1)
    document = json.loads(proved.certificate)
    document["certificate"]["candidate"] = reading.read_program(parse(wrong), KERNEL).digest
    rng = random.Random(3)
    refused = 0
    for _ in range(25):
        forged = json.loads(json.dumps(document))
        _tamper(forged["certificate"], rng)
        try:
            verdict = recheck(forged, wrong)
        except InputError:
            refused += 1
            continue
        assert isinstance(verdict, Unknown), forged
        refused += 1
    assert refused == 25


def _tamper(certificate: dict, rng: random.Random) -> None:
    node = rng.choice(certificate["nodes"])
    match rng.randrange(6):
        case 0 if node["edges"]:
            edge = rng.choice(node["edges"])
            edge[rng.choice((1, 2))] = rng.randrange(6)
        case 1 if node["conditions"]:
            node["conditions"].append(
                rng.choice([k for k, t in enumerate(certificate["terms"]) if t[0] == "condition"])
            )
        case 2 if node["candidate"]:
            del node["candidate"][rng.choice(list(node["candidate"]))]
        case 3 if node["candidate"]:
            register = rng.choice(list(node["candidate"]))
            node["candidate"][register] = rng.randrange(len(certificate["terms"]))
        case 4 if node["symbols"]:
            rng.choice(node["symbols"])[3] = rng.choice(list(node["candidate"]) or ["%r11"])
        case _:
            certificate["nodes"].remove(node)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"certificate": {}}', '{"certificate": {"version": 1, "terms": [["atom"]]}}']
)
def test_what_is_no_certificate_is_bad_input(text: str) -> None:
    with pytest.raises(InputError):
        proving.recheck(text, base("saxpy"), base("saxpy"), "saxpy")


def test_the_edge_that_leaves_one_side_standing_is_refused(proved: Proved) -> None:
    document = json.loads(proved.certificate)
    for node in document["certificate"]["nodes"]:
        for edge in node["edges"]:
            edge[2] = 0
    verdict = recheck(document, candidate(KERNEL, 1))
    assert isinstance(verdict, Unknown)
