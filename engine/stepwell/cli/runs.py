"""`runs`: list runs."""

from typing import Annotated

import typer

from stepwell.cli.options import AppOption, JsonOption
from stepwell.cli.output import (
    one_line,
    say,
    state_text,
    turns_text,
    write_json,
    write_table,
)
from stepwell.cli.session import engine
from stepwell.machine import State


def runs(
    state: Annotated[State | None, typer.Option(help="Only runs in this state.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only runs of this workflow.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most this many.")] = 20,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """List runs, the newest first."""
    with engine(app, looks=True) as opened:
        found = opened.runs(state=state, workflow=workflow, limit=limit)
    if json:
        write_json(found)
        return
    if not found:
        say("There are no such runs.")
        return
    rows = [
        (
            run.id,
            one_line(run.workflow),
            state_text(run.state, stuck=run.stuck),
            f"{run.created_at:%F %H:%M}",
            turns_text(run),
            str(run.used.tool_calls),
            one_line(run.input),
        )
        for run in found
    ]
    columns = ("run", "workflow", "state", "created", "turns", "calls", "input")
    write_table(columns, rows, cut={"created", "turns", "input"})
