"""`send`: send a message to a run."""

from typing import Annotated

import typer

from stepwell.cli import streams
from stepwell.cli.options import AppOption, JsonOption, RunArgument, person
from stepwell.cli.output import say, write, write_json
from stepwell.cli.session import engine
from stepwell.machine import State
from stepwell.views.runs import RunDetail


def send(
    run: RunArgument,
    text: Annotated[
        str, typer.Argument(help="The message; '-' reads standard input.", metavar="TEXT")
    ],
    by: Annotated[str | None, typer.Option(help="Who sends it (default: you).")] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Send a message to RUN. Its model reads it before its next turn, after all tool results.

    Only sends it. A finished run continues the same conversation with `stepwell resume` or a
    worker; `stepwell show` names the transition that delivered it.
    """
    said = streams.read_input(text)
    with engine(app, needs_workflows=True) as opened:
        sent = opened.send(run, said, by=person(by))
        to = opened.get(sent.run)
    if json:
        write_json(sent)
    else:
        write(f"Sent to run {sent.run}.")
        say(what_follows(to))


def what_follows(run: RunDetail) -> str:
    """When something that was sent to a run is delivered, and what helps."""
    goes_on = f"`stepwell resume {run.id}`"
    match State(run.state):
        case State.DONE:
            return f"{goes_on} or a worker continues the conversation."
        case State.CAPPED:
            return f"It waits: `stepwell resume {run.id} --max-turns +5` makes room for it."
        case State.FAILED:
            return f"It waits: {goes_on} tries again, and delivers it."
        case State.CANCELLED:
            return "The run was cancelled meanwhile: the message will not be read."
        case State.AWAITING_APPROVAL:
            return "It is delivered once the run's questions are decided and the run continues."
        case _ if run.owner:
            return f"{run.owner} delivers it before it asks the model again."
        case _:
            return f"{goes_on} or a worker delivers it."
