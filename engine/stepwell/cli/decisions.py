"""`approvals`, `approve`, `deny`, `cancel`: what people decide."""

import json as json_module
from typing import Annotated, Any

import typer

from stepwell.cli.ask import describe
from stepwell.cli.options import (
    AppOption,
    ByOption,
    JsonOption,
    QuestionArgument,
    RunArgument,
    json_value,
    person,
)
from stepwell.cli.output import one_line, say, write, write_json
from stepwell.cli.session import engine
from stepwell.errors import InvalidInput
from stepwell.machine import State
from stepwell.views.runs import ApprovalView


def approvals(
    run: Annotated[
        str | None, typer.Argument(help="Only this run's questions.", metavar="[RUN]")
    ] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """List the questions that wait for a person, the oldest first."""
    with engine(app) as opened:
        pending = opened.approvals(run)
    if json:
        write_json(pending)
    elif not pending:
        say("Nothing waits for a person.")
    else:
        for question in pending:
            write(describe(question).strip() + "\n")


def approve(
    id: QuestionArgument,  # noqa: A002 - the name that users know
    by: ByOption = None,
    edit: Annotated[
        str | None, typer.Option(help="Arguments to run instead.", metavar="JSON")
    ] = None,
    all_of_tool: Annotated[
        bool, typer.Option("--all-of-tool", help="Also every further call of this tool.")
    ] = False,
    result: Annotated[
        str | None,
        typer.Option(help="In doubt: it happened, and returned this.", metavar="JSON"),
    ] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Let the call of question ID run; one in doubt runs again, or with --result has happened.

    Decides only: `stepwell resume` or a worker goes on.
    """
    options: dict[str, Any] = {"all_of_tool": all_of_tool}
    if edit is not None:
        options["edit"] = _object("--edit", edit)
    if result is not None:
        options["result"] = json_value("--result", result)
    with engine(app, needs_workflows=edit is not None) as opened:
        decided = opened.approve(id, by=person(by), **options)
    _report(decided, json=json)


def deny(
    id: QuestionArgument,  # noqa: A002 - the name that users know
    by: ByOption = None,
    reason: Annotated[str | None, typer.Option(help="Why; the model reads it.")] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Do not let the call of question ID run; for one in doubt: it did not happen.

    Decides only: `stepwell resume` or a worker goes on.
    """
    with engine(app) as opened:
        decided = opened.deny(id, by=person(by), reason=reason)
    _report(decided, json=json)


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


def _report(decided: ApprovalView, *, json: bool) -> None:
    if json:
        write_json(decided)
        return
    arguments = one_line(json_module.dumps(decided.arguments, ensure_ascii=False))
    edited = "edited and " if decided.edited else ""
    write(f"{decided.tool} {arguments}: {edited}{decided.status} by {decided.decided_by}.")
    say(f"`stepwell resume {decided.run}` goes on.")


def _object(option: str, text: str) -> dict[str, Any]:
    value = json_value(option, text)
    if not isinstance(value, dict):
        raise InvalidInput(f"{option} takes a JSON object.", "Such as '{\"a\": 1}'.")
    return value
