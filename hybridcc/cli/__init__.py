"""The command line: verbs over files, stdin and stdout. Each verb is one function in a module beside this.

Nothing heavy is imported before a verb runs, so that ``hybridcc --help`` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hybridcc import __version__
from hybridcc.cli import ab, build, compare, doctor, profile, prompts, ptx, region, regions, run, store, try_, verify
from hybridcc.cli.guard import guarded

app = typer.Typer(
    name="hybridcc",
    help="Make GPU kernels faster: a language model proposes PTX, checks decide, the fastest verified cubin runs.",
    epilog="Exit codes: 0 done, 1 policy violated, 2 bad usage or input, 3 toolchain or device failure, "
    "4 unknown or inconclusive where an answer was required, 125 untestable (git bisect), 130 interrupted.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # rich would double the time of --help
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"hybridcc {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options of every verb."""


app.command("build")(guarded(build.build))
app.command("run")(guarded(run.run))
app.command("ab")(guarded(ab.ab))
app.command("compare")(guarded(compare.compare))
app.command("regions")(guarded(regions.regions))
app.command("region")(guarded(region.region))
app.command("try")(guarded(try_.try_))
app.command("profile")(guarded(profile.profile))
app.command("prompts")(guarded(prompts.prompts))
app.add_typer(prompts.answers, name="answers")
app.command("verify")(guarded(verify.verify))
app.command("fmt")(guarded(ptx.fmt))
app.add_typer(store.app, name="store")
app.command("doctor")(guarded(doctor.doctor))


def main() -> None:
    """The entry point of the ``hybridcc`` script."""
    app()
