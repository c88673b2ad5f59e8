"""`approvals`: list the questions that wait for a person."""

from typing import Annotated

import typer

from stepwell.cli.ask import describe
from stepwell.cli.options import AppOption, FullOption, JsonOption
from stepwell.cli.output import say, write, write_json
from stepwell.cli.session import engine


def approvals(
    run: Annotated[
        str | None, typer.Argument(help="Only the questions of this run.", metavar="[RUN]")
    ] = None,
    full: FullOption = False,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """List the questions that wait for a person, the oldest first."""
    with engine(app, looks=True) as opened:
        pending = opened.approvals(run)
    if json:
        write_json(pending)
    elif not pending:
        say("No question is waiting.")
    else:
        for question in pending:
            write(describe(question, stderr=False, full=full).strip() + "\n")
