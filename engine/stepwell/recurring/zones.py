"""Pure: local times in a time zone, and the changes of its clocks."""

import difflib
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from stepwell.errors import InvalidSchedule

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


def zone(name: str) -> ZoneInfo:
    """The time zone of this name.

    Raises:
        InvalidSchedule: there is none.
    """
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # KeyError: what "not found" is
        near = difflib.get_close_matches(name, available_timezones(), n=1)
        example = near[0] if near else "Europe/Berlin"
        raise InvalidSchedule(
            f"There is no time zone {name!r}.",
            f'Name one of the IANA time zones, such as "{example}" or "UTC".',
        ) from None


def local(moment: datetime, tz: ZoneInfo) -> datetime:
    """The local time, without a zone."""
    return moment.astimezone(tz).replace(tzinfo=None, fold=0)


def instant(wall: datetime, tz: ZoneInfo, *, second: bool = False) -> datetime:
    """When the clocks show `wall`; the second time, where they show it twice."""
    return wall.replace(tzinfo=tz, fold=int(second)).astimezone(UTC)


def exists(wall: datetime, tz: ZoneInfo) -> bool:
    """Whether the clocks ever show this time."""
    return local(instant(wall, tz), tz) == wall


def after_gap(wall: datetime, tz: ZoneInfo) -> datetime:
    """The first moment after the gap that a time which does not exist falls into."""
    while not exists(wall, tz):
        wall += _MINUTE
    return instant(wall, tz)


def change_around(moment: datetime, tz: ZoneInfo) -> timedelta:
    """By how much the clocks are changed within a day of `moment`, either way."""
    offsets = [_offset(moment + apart, tz) for apart in (-_DAY, timedelta(), _DAY)]
    return max(offsets) - min(offsets)


def change_between(begin: datetime, end: datetime, tz: ZoneInfo) -> timedelta:
    """How much further the clocks are put forward at `end` than at `begin`."""
    return _offset(end, tz) - _offset(begin, tz)


def _offset(moment: datetime, tz: ZoneInfo) -> timedelta:
    return moment.astimezone(tz).utcoffset() or timedelta()
