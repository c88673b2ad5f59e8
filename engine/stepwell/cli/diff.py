"""`diff`: the differences between two runs, or between two transitions of one run."""

import re
from typing import Annotated, Any

import typer
from rich.text import Text

from stepwell.cli.failure import WrongValue
from stepwell.cli.options import AppOption, JsonOption, RunArgument
from stepwell.cli.output import console, one_line, say, write_json
from stepwell.cli.session import engine
from stepwell.plain_json import dumps
from stepwell.views.runs import CallDifference, CallView, MessageView, PointView, RunDiff

WIDTH = 200
# Digits of a transition's number; SQLite's integers have more, and no run has that many.
LONGEST = 9
_STYLES = {"  ": "default", "- ": "red", "+ ": "green"}
_RANGE = re.compile(r"(\d*)\.\.(\d*)\Z")


def diff(
    run: RunArgument,
    other: Annotated[
        str,
        typer.Argument(
            help="Another run; or A..B, two transitions of the same one.", metavar="RUN|A..B"
        ),
    ],
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Show what differs between RUN and another run, or between two transitions of RUN.

    A..B may leave either out: A.. is up to now, ..B from the first one.
    """
    found = _RANGE.match(other)
    with engine(app, looks=True) as opened:
        if found is None:
            compared = opened.diff(run, other)
        else:
            begin, end = _transition(found[1]), _transition(found[2])
            if begin is None:
                begin = opened.history(run)[0].seq
            compared = opened.diff(run, run, left_at=begin, right_at=end)
    if json:
        write_json(compared)
    else:
        _show(compared)


def _transition(text: str) -> int | None:
    if len(text) > LONGEST:
        raise WrongValue(f"No run has {text} transitions.")
    return int(text) if text else None


def _show(found: RunDiff) -> None:
    _line("- ", _point(found.left))
    _line("+ ", _point(found.right))
    for one in found.changed:
        _line("  ", f"{one.name}: {_value(one.left)} → {_value(one.right)}")
    for call in found.calls:
        _show_call(call)
    words = found.transcript
    if words.left or words.right:
        _line("  ", f"messages in common: {words.common}; then")
    for message in words.left:
        _line("- ", _message(message))
    for message in words.right:
        _line("+ ", _message(message))
    if not (found.changed or found.calls or words.left or words.right):
        say("There is no difference.")


def _show_call(call: CallDifference) -> None:
    left, right = call.left, call.right
    if left and right and _asked(left) == _asked(right) and left.status != right.status:
        _line("  ", f"call {call.number} {_asked(left)}: {left.status} → {right.status}")
        return
    if left:
        _line("- ", f"call {call.number} {_asked(left)}: {left.status} {_outcome(left)}")
    if right:
        _line("+ ", f"call {call.number} {_asked(right)}: {right.status} {_outcome(right)}")


def _asked(call: CallView) -> str:
    edited = call.edited_arguments
    return f"{call.tool} {dumps(call.arguments if edited is None else edited)}"


def _outcome(call: CallView) -> str:
    return "" if call.outcome is None else dumps(call.outcome)


def _message(message: MessageView) -> str:
    label = f"{message.tool} result" if message.role == "tool" else message.role
    return f"{label}: {message.text or message.reasoning or ''}"


def _point(point: PointView) -> str:
    return f"{point.run} at {point.at}"


def _value(value: Any) -> str:
    return "none" if value is None else str(value)


def _line(sign: str, text: str) -> None:
    console().print(Text(f"{sign}{one_line(text, WIDTH)}", style=_STYLES[sign]), soft_wrap=True)
