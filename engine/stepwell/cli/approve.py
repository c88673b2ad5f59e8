"""`approve`: let a call run."""

import json as json_module
from typing import Annotated, Any

import typer

from stepwell.cli.failure import WrongValue
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
from stepwell.engine import Engine
from stepwell.state.records import ApprovalKind
from stepwell.views.runs import ApprovalView


def approve(
    id: QuestionArgument,  # noqa: A002 - the name that users know
    by: ByOption = None,
    edit: Annotated[
        str | None, typer.Option(help="Run the call with these arguments instead.", metavar="JSON")
    ] = None,
    all_of_tool: Annotated[
        bool,
        typer.Option(
            "--all-of-tool", help="Also approve every later call of this tool in this run."
        ),
    ] = False,
    result: Annotated[
        str | None,
        typer.Option(help="For a call in doubt: it happened and returned this.", metavar="JSON"),
    ] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Approve the call in question ID. If it is in doubt, run it again, or record its --result.

    Only records the decision; `stepwell resume` or a worker continues the run.
    """
    options: dict[str, Any] = {"all_of_tool": all_of_tool}
    if edit is not None:
        options["edit"] = _object("--edit", edit)
    if result is not None:
        options["result"] = json_value("--result", result)
    with engine(app, needs_workflows=edit is not None) as opened:
        decided = opened.approve(id, by=person(by), **options)
        report_decision(decided, editor(opened, decided), json=json)


def editor(opened: Engine, decided: ApprovalView) -> str | None:
    """Who replaced the arguments of a call that a decision is about; None if they are the model's.

    Arguments are edited with an approval; a question about the same call in doubt comes later.
    """
    if not decided.edited:
        return None
    about_it = [each for each in opened.get(decided.run).approvals if each.call == decided.call]
    approved = [each.decided_by for each in about_it if each.kind == ApprovalKind.APPROVAL]
    return approved[-1] if approved else decided.decided_by


def report_decision(decided: ApprovalView, edited_by: str | None, *, json: bool) -> None:
    """Print a decision and the command that continues the run."""
    if json:
        write_json(decided)
        return
    arguments = one_line(json_module.dumps(decided.arguments, ensure_ascii=False))
    both = edited_by == decided.decided_by
    edited = f"edited by {edited_by}, " if edited_by and not both else "edited and " * both
    write(f"{decided.tool} {arguments}: {edited}{decided.status} by {decided.decided_by}.")
    say(f"`stepwell resume {decided.run}` continues the run.")


def _object(option: str, text: str) -> dict[str, Any]:
    value = json_value(option, text)
    if not isinstance(value, dict):
        raise WrongValue(f"{option} takes a JSON object.", "Such as '{\"a\": 1}'.")
    return value
