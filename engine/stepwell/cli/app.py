"""All commands, put together."""

from importlib.metadata import version
from typing import Annotated

import typer

from stepwell.cli import (
    compare,
    database,
    decisions,
    drive,
    exposed,
    forks,
    health,
    look,
    schedules,
    steer,
    work,
)

app = typer.Typer(
    name="stepwell",
    help="LLM agents as durable runs: checkpointed, resumable, approvable, readable with SQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    drive.run,
    drive.resume,
    forks.fork,
    steer.send,
    work.worker,
    look.runs,
    look.show,
    look.history,
    exposed.context,
    compare.diff,
    decisions.approvals,
    decisions.approve,
    decisions.deny,
    decisions.cancel,
    look.workflows,
    look.tools,
    health.doctor,
    health.check,
):
    app.command()(command)
app.add_typer(schedules.schedule, name="schedule")
app.add_typer(database.db, name="db")


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
