"""All commands, put together."""

from importlib.metadata import version
from typing import Annotated

import typer

from stepwell.cli.approvals import approvals
from stepwell.cli.approve import approve
from stepwell.cli.cancel import cancel
from stepwell.cli.check import check
from stepwell.cli.context import context
from stepwell.cli.db import db
from stepwell.cli.deny import deny
from stepwell.cli.diff import diff
from stepwell.cli.doctor import doctor
from stepwell.cli.fork import fork
from stepwell.cli.history import history
from stepwell.cli.resume import resume
from stepwell.cli.run import run
from stepwell.cli.runs import runs
from stepwell.cli.schedule import schedule
from stepwell.cli.send import send
from stepwell.cli.show import show
from stepwell.cli.tools import tools
from stepwell.cli.worker import worker
from stepwell.cli.workflows import workflows

app = typer.Typer(
    name="stepwell",
    help="LLM agents as durable runs: checkpointed, resumable, approvable, readable with SQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    run,
    resume,
    fork,
    send,
    worker,
    runs,
    show,
    history,
    context,
    diff,
    approvals,
    approve,
    deny,
    cancel,
    workflows,
    tools,
    doctor,
    check,
):
    app.command()(command)
app.add_typer(schedule, name="schedule")
app.add_typer(db, name="db")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stepwell {version('stepwell')}")
        raise typer.Exit


@app.callback()
def stepwell(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """LLM agents as durable runs: checkpointed, resumable, approvable, readable with SQL."""
