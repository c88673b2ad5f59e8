"""`cancel`: end a run for good."""

from stepwell.cli.options import (
    AppOption,
    ByOption,
    JsonOption,
    RunArgument,
    person,
)
from stepwell.cli.output import write, write_json
from stepwell.cli.session import engine
from stepwell.machine import State


def cancel(
    run: RunArgument, by: ByOption = None, json: JsonOption = False, app: AppOption = None
) -> None:
    """End RUN for good: at once, or, while a process drives it, at its next record."""
    with engine(app) as opened:
        ended = opened.cancel(run, by=person(by))
    if json:
        write_json(ended)
    elif ended.state == State.CANCELLED:
        write(f"Run {ended.id} is cancelled.")
    else:
        write(f"Run {ended.id} is asked to stop; {ended.owner} obeys at its next record.")
