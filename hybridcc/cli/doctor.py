"""``hybridcc doctor``: what this machine has, and what each absence costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as data.")] = False,
) -> None:
    """Say what is and what is not available here. Exit code 3 when not even a baseline can be built."""
    from hybridcc.runtime.doctor import can_build, examine

    findings = examine()
    if as_json:
        import json

        data = {"can_build": can_build(findings), "findings": [asdict(finding) for finding in findings]}
        typer.echo(json.dumps(data, indent=1))
    else:
        group = ""
        for finding in findings:
            if finding.group != group:
                group = finding.group
                typer.echo(group)
            typer.echo(f"  {finding.state:8}{finding.name:17}{finding.detail}")
            if finding.cost:
                typer.echo(f"{'':10}costs: {finding.cost}")
            if finding.next_step:
                typer.echo(f"{'':10}next:  {finding.next_step}")
        typer.echo("kernels can be built here" if can_build(findings) else "kernels cannot be built here")
    if not can_build(findings):
        raise typer.Exit(3)
