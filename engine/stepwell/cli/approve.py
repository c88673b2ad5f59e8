"""`approve`: let a call run."""

import json as json_module
from typing import Annotated, Any

import typer

from stepwell.cli.options import (
    AppOption,
    ByOption,
    JsonOption,
    QuestionArgument,
    json_value,
    person,
)
from stepwell.cli.output import one_line, say, write, write_json
from stepwell.cli.session import engine
from stepwell.errors import InvalidInput
from stepwell.views.runs import ApprovalView


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
    report_decision(decided, json=json)


def report_decision(decided: ApprovalView, *, json: bool) -> None:
    """Print a decision and the command that continues the run."""
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
