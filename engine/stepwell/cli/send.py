"""`send`: tells a run something."""

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
        str, typer.Argument(help="What to tell it; '-' reads standard input.", metavar="TEXT")
    ],
    by: Annotated[str | None, typer.Option(help="Who says it; by default, you.")] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Tell RUN something: its model reads it before it is asked again, after all results.

    Only sends. A run that is done goes on with it as the same conversation, by `stepwell resume`
    or a worker; `stepwell show` says which transition took it.
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
            return f"{goes_on} or a worker goes on with it."
        case State.CAPPED:
            return f"It waits: `stepwell resume {run.id} --max-turns +5` makes room for it."
        case State.FAILED:
            return f"It waits: {goes_on} tries again, and delivers it."
        case State.CANCELLED:
            return "The run was cancelled meanwhile: nobody reads it."
        case State.AWAITING_APPROVAL:
            return "It is delivered when the run's questions are decided and it goes on."
        case _ if run.owner:
            return f"{run.owner} delivers it before it asks the model again."
        case _:
            return f"{goes_on} or a worker delivers it."
