"""Options that several commands share."""

import getpass
import json
from typing import Annotated, Any

import typer

from stepwell.cli.failure import WrongValue
from stepwell.errors import InvalidInput
from stepwell.plain_json import clean
from stepwell.rules.allowances import amounts


def _amount(text: str | None) -> str | None:
    """A cost as it was written, if it is one."""
    try:
        amounts({"max_cost": text})
    except InvalidInput as error:
        raise WrongValue(error.message, error.hint) from error
    return text


AppOption = Annotated[
    str | None,
    typer.Option("--app", help="The module that defines the workflows.", metavar="MODULE"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
FullOption = Annotated[bool, typer.Option("--full", help="Shorten nothing.")]
ByOption = Annotated[
    str | None, typer.Option("--by", help="Who decides (default: you).", metavar="NAME")
]
RunArgument = Annotated[
    str,
    typer.Argument(
        help="A run's id, an unambiguous beginning or end of it, or 'last'.", metavar="RUN"
    ),
]
OneRun = Annotated[
    str | None,
    typer.Argument(
        help="A run's id, an unambiguous beginning or end of it, or 'last'.", metavar="[RUN]"
    ),
]
MaxTurns = Annotated[int | None, typer.Option(min=0, help="Limit of model calls.")]
MaxToolCalls = Annotated[int | None, typer.Option(min=0, help="Limit of tool calls.")]
MaxTokens = Annotated[int | None, typer.Option(min=0, help="Limit of input and output tokens.")]
MaxCost = Annotated[
    str | None, typer.Option(help="Limit of cost in USD.", metavar="USD", callback=_amount)
]
MaxSeconds = Annotated[
    int | None, typer.Option(min=0, help="Limit of seconds; waiting for people does not count.")
]
MoreTurns = Annotated[
    int, typer.Option("--max-turns", min=0, metavar="+N", help="Raise the limit of model calls.")
]
MoreToolCalls = Annotated[
    int,
    typer.Option("--max-tool-calls", min=0, metavar="+N", help="Raise the limit of tool calls."),
]
MoreTokens = Annotated[
    int, typer.Option("--max-tokens", min=0, metavar="+N", help="Raise the limit of tokens.")
]
MoreCost = Annotated[
    str,
    typer.Option("--max-cost", metavar="+USD", help="Raise the limit of cost.", callback=_amount),
]
MoreSeconds = Annotated[
    int, typer.Option("--max-seconds", min=0, metavar="+N", help="Raise the limit of time.")
]
QuestionArgument = Annotated[
    str,
    typer.Argument(
        help="A question's id, or a run's id or 'last' with exactly one question.", metavar="ID"
    ),
]


def json_value(option: str, text: str) -> Any:
    """The value of an option that takes JSON.

    Raises:
        WrongValue: it is not JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise WrongValue(f"{option} is not JSON: {error}.", "Quote it: '{\"a\": 1}'.") from error


def person(by: str | None) -> str:
    """The name that a decision is recorded with."""
    try:
        return str(clean(by or getpass.getuser()))
    except (KeyError, OSError):  # the user of a container may not have a name
        return "somebody"
