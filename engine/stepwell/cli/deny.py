"""`deny`: refuse a call."""

from typing import Annotated

import typer

from stepwell.cli.approve import editor, report_decision
from stepwell.cli.options import (
    AppOption,
    ByOption,
    JsonOption,
    QuestionArgument,
    person,
)
from stepwell.cli.session import engine


def deny(
    id: QuestionArgument,  # noqa: A002 - the name that users know
    by: ByOption = None,
    reason: Annotated[str | None, typer.Option(help="Why; the model reads it.")] = None,
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Deny the call in question ID. If it is in doubt, record that it did not happen.

    Only records the decision; `stepwell resume` or a worker continues the run.
    """
    with engine(app) as opened:
        decided = opened.deny(id, by=person(by), reason=reason)
        report_decision(decided, editor(opened, decided), json=json)
