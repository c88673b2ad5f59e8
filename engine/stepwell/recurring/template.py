"""Pure: inputs that say when they are due and what the run before answered."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from stepwell.errors import InvalidSchedule

NAMES = "due, previous.due and previous.answer"
# Any two; what a template makes of a first and of a later due time is tried with them.
_SOME = datetime(2027, 1, 2, 6, tzinfo=UTC), datetime(2027, 1, 1, 6, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Previous:
    """The last run that a schedule started before.

    Attributes:
        due: its due time, in the schedule's own zone; None before the first run.
        answer: None where there is none, or not yet.
    """

    due: datetime | None = None
    answer: str | None = None


def is_template(text: str) -> bool:
    """Whether there is anything to fill in; other inputs are left exactly as they are."""
    return "{{" in text or "{%" in text


def check(text: str) -> None:
    """Make sure that an input can be rendered.

    Raises:
        InvalidSchedule: it is no template, or uses a name that there is not.
    """
    render(text, _SOME[0], Previous())
    render(text, _SOME[0], Previous(_SOME[1], "An answer."))


def render(text: str, due: datetime, previous: Previous) -> str:
    """The input of one run.

    Args:
        text: the template.
        due: the due time, in the schedule's own zone.
        previous: the last run before it.

    Raises:
        InvalidSchedule: it cannot be made.
    """
    if not is_template(text):
        return text
    try:
        return str(_environment().from_string(text).render(due=due, previous=previous))
    except Exception as error:
        raise InvalidSchedule(
            f"The input is no template that can be filled in: {error}.",
            f"It may use {NAMES}, as in '{{{{ due }}}}'.",
        ) from error


@cache
def _environment() -> Any:
    """Jinja, kept from reaching anything but the values; imported only where it is needed."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, finalize=_shown, keep_trailing_newline=True
    )


def _shown(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return "" if value is None else value
