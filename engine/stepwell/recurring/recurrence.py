"""Pure: when something is due again: by a cron expression, at an interval, or once."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from stepwell.errors import InvalidSchedule
from stepwell.recurring import zones

_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_DURATION = re.compile(
    "".join(rf"(?:(?P<{name}>\d{{1,6}}){unit})?" for unit, name in _UNITS.items())
)
LONGEST = timedelta(days=3660)
YEARS = range(1971, 3000)


class Recurrence(Protocol):
    """Says when something is due."""

    def after(self, moment: datetime) -> datetime | None:
        """The first due time after `moment`, in UTC; None if there is none."""


@dataclass(frozen=True, slots=True)
class Every:
    """An interval of real time. It is counted from `anchor`, so that no delay adds up."""

    interval: timedelta
    anchor: datetime

    def after(self, moment: datetime) -> datetime:
        """The first due time after `moment`."""
        passed = max((moment - self.anchor) // self.interval, 0)
        return self.anchor + (passed + 1) * self.interval


@dataclass(frozen=True, slots=True)
class Once:
    """A single moment."""

    moment: datetime

    def after(self, moment: datetime) -> datetime | None:
        """That moment, as long as it is to come."""
        return self.moment if self.moment > moment else None


def duration(text: str) -> timedelta:
    """The time span that `text` is, such as "15m" or "1h30m".

    Raises:
        InvalidSchedule: it is none, or not between a second and ten years.
    """
    found = _DURATION.fullmatch(text.strip())
    parts = {name: int(digits) for name, digits in found.groupdict("0").items()} if found else {}
    length = timedelta(**parts) if parts else timedelta()
    if not timedelta(seconds=1) <= length <= LONGEST:
        raise InvalidSchedule(
            f"{text!r} is not a duration between 1 second and 10 years.",
            'Write a number and its unit, such as "90s", "15m", "1h30m", "2d" or "1w".',
        )
    return length


def once(text: str, tz: ZoneInfo) -> Once:
    """The moment that `text` names: a local time of `tz`, or one with an offset of its own.

    Raises:
        InvalidSchedule: it is none, or a local time that the clocks show twice or not at all.
    """
    try:
        wall = datetime.fromisoformat(text.strip())
    except ValueError:
        wall = None
    if wall is None or not re.search(r"\d[T ]\d", text) or wall.year not in YEARS:
        raise InvalidSchedule(
            f"{text!r} is not a date and time.", 'Write "2027-01-01T09:00", as local time.'
        )
    if wall.tzinfo is not None:
        return Once(wall.astimezone(UTC))
    if not zones.exists(wall, tz):
        later = zones.after_gap(wall, tz).astimezone(tz)
        raise InvalidSchedule(
            f"The local time {text} does not exist in {tz.key}: clocks are put forward over it.",
            f'The first time after it is "{later:%Y-%m-%dT%H:%M}".',
        )
    both = [zones.instant(wall, tz, second=second).astimezone(tz) for second in (False, True)]
    if both[0].utcoffset() != both[1].utcoffset():
        first, second = (one.isoformat(timespec="minutes") for one in both)
        raise InvalidSchedule(
            f"The local time {text} comes twice in {tz.key}: clocks are put back over it.",
            f'Say which one is meant: "{first}" or "{second}".',
        )
    return Once(both[0].astimezone(UTC))
