"""Pure: inputs that name their due time and the answer of the previous run."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from types import FrameType
from typing import Any

from stepwell.errors import InvalidSchedule

NAMES = "due, previous.due and previous.answer"
# The characters that a template may produce, and the lines of code that it may take to do so.
LONGEST = 1_000_000
MOST_LINES = 1_000_000
# The longest text or list that a multiplication may produce, and the largest exponent.
MOST_REPEATED = 10_000
# Any two, to try a template with a first and with a later due time.
_SOME = datetime(2027, 1, 2, 6, tzinfo=UTC), datetime(2027, 1, 1, 6, tzinfo=UTC)
# Each makes a text of any length in one step.
_PADDING = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map"})
_PADDING_FILTERS = ("center", "format", "indent", "wordwrap")


class TooMuch(Exception):
    """A template takes too long, or produces too much."""


@dataclass(frozen=True, slots=True)
class Previous:
    """The previous run that a schedule started.

    Attributes:
        due: its due time, in the schedule's own zone; None before the first run.
        answer: None if it has no answer, or none yet.
    """

    due: datetime | None = None
    answer: str | None = None


def is_template(text: str) -> bool:
    """Whether there is anything to fill in. Other inputs are used unchanged."""
    return "{{" in text or "{%" in text


def check(text: str) -> None:
    """Make sure that an input can be rendered, for the first run and for a later one.

    Raises:
        InvalidSchedule: it is not a template, uses an unknown name, or would be empty.
    """
    for previous in (Previous(), Previous(_SOME[1], "An answer.")):
        if not render(text, _SOME[0], previous).strip():
            when = "later runs" if previous.due else "the first run"
            raise InvalidSchedule(
                f"The input template is empty for {when}.",
                "Give it a text for that case, such as '{{ previous.answer or \"Start.\" }}'.",
            )


def render(text: str, due: datetime, previous: Previous) -> str:
    """The input of one run.

    Args:
        text: the template.
        due: the due time, in the schedule's own zone.
        previous: the last run before it.

    Raises:
        InvalidSchedule: it cannot be rendered, takes too long, or produces too much.
    """
    if not is_template(text):
        return text
    try:
        template = _environment().from_string(text)
        with _bounded():
            return _joined(template.generate(due=due, previous=previous))
    except Exception as error:
        raise InvalidSchedule(
            f"The input template cannot be rendered: {error}.",
            f"It may use {NAMES}, as in '{{{{ due }}}}'.",
        ) from error


def _joined(pieces: Iterator[str]) -> str:
    found, length = [], 0
    for piece in pieces:
        found.append(piece)
        length += len(piece)
        if length > LONGEST:
            raise TooMuch(f"it produces more than {LONGEST:,} characters")
    return "".join(found)


@contextmanager
def _bounded() -> Iterator[None]:
    """Stop this thread's code after a number of lines: a count, not a clock, so a pure limit."""
    left = MOST_LINES

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        left -= event == "line"
        if left < 0:
            raise TooMuch("it takes too long")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@cache
def _environment() -> Any:
    """Jinja, kept from reaching anything but the values; imported only where it is needed."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Bounded(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**", "%"})

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return attr not in _PADDING and super().is_safe_attribute(obj, attr, value)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_size(operator, left, right)
            return super().call_binop(context, operator, left, right)

    made = Bounded(undefined=StrictUndefined, finalize=_shown, keep_trailing_newline=True)
    for name in ("lipsum", "namespace"):
        del made.globals[name]
    for name in _PADDING_FILTERS:
        del made.filters[name]
    return made


def _check_size(operator: str, left: Any, right: Any) -> None:
    """Refuse an operation that takes long, or makes much, in one step."""
    numbers = [one for one in (left, right) if isinstance(one, int)]
    sized = [len(one) for one in (left, right) if isinstance(one, str | list | tuple)]
    is_much = {
        "*": bool(numbers and sized) and max(numbers) * max(sized) > MOST_REPEATED,
        "**": any(abs(one) > MOST_REPEATED for one in numbers),
        "%": isinstance(left, str),
    }
    if is_much[operator]:
        raise TooMuch(f"'{operator}' would produce too much")


def _shown(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return "" if value is None else value
