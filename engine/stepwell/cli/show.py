"""`show`: print one run."""

from typing import Annotated

import typer

from stepwell.cli.options import AppOption, FullOption, JsonOption, RunArgument
from stepwell.cli.output import write_json
from stepwell.cli.run_text import show_run, show_trace
from stepwell.cli.session import engine


def show(
    run: RunArgument,
    full: FullOption = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Reasoning, calls and observations by step.")
    ] = False,
    at: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**9, metavar="N", help="Show the run as it was after transition N."
        ),
    ] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Show RUN: its state, its conversation, its calls and the decisions of people."""
    with engine(app, looks=True) as opened:
        found = opened.get(run, at=at)
    if json:
        write_json(found)
    elif trace:
        show_trace(found, full=full)
    else:
        show_run(found, full=full)
