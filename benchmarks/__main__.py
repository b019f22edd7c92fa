"""``python -m benchmarks``: the suite, raced and reported."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.suite import answers
from benchmarks.suite.case import names
from hybridcc.errors import HybridccError

RESULTS = Path(__file__).with_name("results")


def main() -> int:
    given = arguments().parse_args()
    try:
        return given.action(given)
    except HybridccError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _prompts(verbs)
    _answers(verbs)
    return parser


def _prompts(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser("prompts", help="write the prompts of kernels that have no recorded answer")
    verb.add_argument("-o", "--out", type=Path, default=Path("prompts.jsonl"))
    verb.add_argument("--all", action="store_true", help="also those that are answered")
    verb.add_argument("--samples", type=int, default=1, help="answers to ask for per prompt")
    verb.add_argument("--only", nargs="+", choices=names(), default=names(), metavar="KERNEL")
    verb.set_defaults(action=prompts)


def _answers(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser("answers", help="add a model's answers to the recordings of the kernels they are for")
    verb.add_argument("results", type=Path, help="the result file of the batch, or lines with custom_id and answer")
    verb.add_argument("--prompts", type=Path, default=Path("prompts.jsonl"), help="the file that `prompts` wrote")
    verb.add_argument("--model", default="", help="which model answered, where the results do not say")
    verb.add_argument("--date", default=datetime.now(UTC).date().isoformat(), help="when, as YYYY-MM-DD")
    verb.set_defaults(action=take_in)


def prompts(given: argparse.Namespace) -> int:
    from hybridcc.passes.rewrite import batch

    found = answers.unanswered(given.only, everything=given.all)
    count = batch.export([asked.prompt for asked in found], given.out, samples=given.samples)
    print(
        f"{count} prompts written to {given.out}, for {', '.join(sorted({asked.kernel for asked in found})) or 'none'}"
    )
    return 0


def take_in(given: argparse.Namespace) -> int:
    print("\n".join(answers.take_in(given.results, given.prompts, names(), given.date, given.model)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
