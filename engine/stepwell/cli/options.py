"""The options that many commands share, each written once."""

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
    typer.Option("--app", help="Module that defines the workflows.", metavar="MODULE"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
FullOption = Annotated[bool, typer.Option("--full", help="Shorten nothing.")]
ByOption = Annotated[
    str | None, typer.Option("--by", help="Who decides; by default, you.", metavar="NAME")
]
RunArgument = Annotated[
    str, typer.Argument(help="A run's id, the beginning of one, or 'last'.", metavar="RUN")
]
OneRun = Annotated[
    str | None,
    typer.Argument(help="A run's id, the beginning of one, or 'last'.", metavar="[RUN]"),
]
MaxTurns = Annotated[int | None, typer.Option(min=0, help="Model calls at most.")]
MaxToolCalls = Annotated[int | None, typer.Option(min=0, help="Tool calls at most.")]
MaxTokens = Annotated[int | None, typer.Option(min=0, help="Tokens read and written at most.")]
MaxCost = Annotated[str | None, typer.Option(help="USD at most.", metavar="USD", callback=_amount)]
MaxSeconds = Annotated[
    int | None, typer.Option(min=0, help="Seconds at most; waiting for people is not counted.")
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
    """What an option was given as JSON.

    Raises:
        WrongValue: it is none.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise WrongValue(f"{option} is not JSON: {error}.", "Quote it: '{\"a\": 1}'.") from error


def person(by: str | None) -> str:
    """The name that a decision is recorded under."""
    try:
        return str(clean(by or getpass.getuser()))
    except (KeyError, OSError):  # a container's user may have no name
        return "somebody"
