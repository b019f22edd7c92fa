"""``python -m benchmarks``: the suite, raced and reported."""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.suite import answers
from benchmarks.suite.case import MEASURED, names
from hybridcc.errors import HybridccError

RESULTS = Path(__file__).with_name("results")
BUILT = Path("out/suite")

KEY_FIGURES = (
    *("geomean_vs_stock_loops", "geomean_vs_stock_all", "geomean_vs_cuda_cpp", "min_ratio_vs_stock"),
    *("kernels", "proved", "losses"),
)


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
    _run(verbs)
    _build(verbs)
    _report(verbs)
    _prompts(verbs)
    _answers(verbs)
    return parser


def _run(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser("run", help="build, race and write results; needs a GPU")
    _building(verb)
    verb.add_argument("--seconds", type=float, default=540.0, help="for all of it; no race is begun after")
    verb.add_argument("--built", type=Path, help="what `build` wrote; without it everything is built first")
    verb.add_argument("--choices", type=Path, help="results of an earlier run: race what that one chose, alone")
    verb.add_argument("--sizes", nargs="+", choices=MEASURED, default=MEASURED)
    verb.add_argument("--out", type=Path, default=RESULTS, help="folder for <gpu>/suite-<time>.json")
    verb.add_argument("--rehearse", action="store_true", help="everything that needs no GPU, on the CPU's executor")
    verb.set_defaults(action=run)


def _build(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser("build", help="build what `run --built` races; needs no GPU")
    _building(verb)
    verb.add_argument("--arch", default="sm_90")
    verb.add_argument("--seconds", type=float, default=7200.0, help="what is not judged by then counts as no answer")
    verb.add_argument("-o", "--out", type=Path, default=BUILT)
    verb.set_defaults(action=build)


def _building(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--only", nargs="+", choices=names(), default=names(), metavar="KERNEL")
    verb.add_argument("--rewriter", default=answers.RECORDED, help="recorded, or what hybridcc build --rewriter takes")
    verb.add_argument("--answers", type=int, default=8, help="rewrites to ask for per region")
    verb.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that build")


def _report(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser("report", help="write benchmarks/RESULTS.md from results")
    verb.add_argument("results", type=Path, nargs="?", help="a results file; the newest run here if not given")
    verb.add_argument("-o", "--out", type=Path, default=RESULTS.with_name("RESULTS.md"))
    verb.set_defaults(action=report)


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


def run(given: argparse.Namespace) -> int:
    """Exit status 1 where something failed or a kernel is slower than stock."""
    if given.rehearse:
        return rehearse(given)
    from benchmarks.suite import choices, results
    from benchmarks.suite.run import Options
    from benchmarks.suite.run import run as run_suite
    from hybridcc.runtime.device import current

    device = current()
    before = choices.of_results(results.read(given.choices), device.name) if given.choices else None
    options = Options(
        given.only,
        given.rewriter,
        given.jobs,
        given.seconds,
        given.answers,
        given.out,
        given.built,
        before,
        given.sizes,
    )
    data = run_suite(options, device, _tell)
    _tell(json.dumps({name: data["summary"][name] for name in KEY_FIGURES}, indent=1))
    for failure in data["failures"]:
        _tell(f"failed: {failure['part']}: {failure['error'].splitlines()[0]}")
    return 1 if data["failures"] or data["summary"]["losses"] else 0


def rehearse(given: argparse.Namespace) -> int:
    from benchmarks.suite.build_all import read_all
    from benchmarks.suite.case import load
    from benchmarks.suite.rehearsing import misfits
    from benchmarks.suite.rehearsing import rehearse as one

    wrong = 0
    for name in given.only:
        found = one(load(name))
        bad = [] if found.right else [f"not what NumPy says: {found.errors} {found.twin_errors}"]
        bad += [f"the twin differs: {found.differs}"] if found.differs else []
        wrong += bool(bad)
        regions = ", ".join(f"{region} {share:.0%}" for region, share in found.regions.items()) or "no hot region"
        _tell(f"{name:16s} {'; '.join(bad) or 'as NumPy says, and the twin bit for bit'}; {regions}")
    status = _built(given, BUILT, "sm_90", given.seconds)
    for name, built in read_all(given.only, BUILT)[0].items():
        wrong += bool(found := misfits(load(name), built))
        if found:
            _tell(f"{name}: {', '.join(found)} would be launched with parameters that it does not have")
    return status or int(bool(wrong))


def build(given: argparse.Namespace) -> int:
    return _built(given, given.out, given.arch, given.seconds)


def _built(given: argparse.Namespace, out: Path, arch: str, seconds: float) -> int:
    from benchmarks.suite import built_file
    from benchmarks.suite.build_all import build_all

    built, failed = build_all(
        given.only, arch, given.rewriter, jobs=given.jobs, seconds=seconds, samples=given.answers, progress=_tell
    )
    for each in built.values():
        built_file.save(each, out)
    _tell(f"{len(built)} written to {out}, {len(failed)} failed")
    return 1 if failed else 0


def report(given: argparse.Namespace) -> int:
    from benchmarks.suite import results
    from benchmarks.suite.report import markdown

    found = [given.results] if given.results else sorted(RESULTS.glob(f"*/{results.LATEST}"))
    given.out.write_text(markdown([results.read(path) for path in found]))
    _tell(f"written to {given.out}")
    return 0


def _tell(message: str) -> None:
    print(message, flush=True)


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
