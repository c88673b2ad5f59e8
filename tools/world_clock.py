"""The time of day anywhere."""

import difflib
import functools
import zoneinfo
from datetime import UTC, datetime
from typing import TypedDict

from stepwell import tool

_MAX_NAME = 60


class LocalTime(TypedDict):
    """A moment as a clock in that zone shows it."""

    timezone: str
    time: str
    weekday: str


@tool(read_only=True)
def get_current_time(timezone: str = "UTC") -> LocalTime:
    """Tell the current date, time and weekday in a time zone.

    Args:
        timezone: An IANA zone name, such as Europe/Berlin or America/New_York.
    """
    # Only a known name is ever given to zoneinfo, which would open it as a path.
    if timezone not in _zones():
        raise ValueError(_unknown_zone(timezone))
    moment = datetime.now(UTC).astimezone(zoneinfo.ZoneInfo(timezone))
    return {
        "timezone": timezone,
        "time": moment.isoformat(timespec="seconds"),
        "weekday": f"{moment:%A}",
    }


@functools.cache
def _zones() -> frozenset[str]:
    # The machine's own setting is listed too, but it is not a place.
    return frozenset(zoneinfo.available_timezones() - {"localtime"})


def _unknown_zone(name: str) -> str:
    near = _nearest(name)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Give an IANA name like Europe/Berlin."
    return f"Time zone {name[:_MAX_NAME]!r} does not exist. {hint}"


def _nearest(name: str) -> list[str]:
    # Models write "Tokyo" or "new york": a city alone is compared as well as the whole name.
    spellings: dict[str, str] = {}
    for zone in sorted(_zones()):
        spellings.setdefault(zone.casefold(), zone)
        spellings.setdefault(zone.rpartition("/")[2].casefold(), zone)
    wanted = "_".join(name[:_MAX_NAME].casefold().split())
    if wanted in spellings:
        return [spellings[wanted]]
    matches = difflib.get_close_matches(wanted, spellings, n=3, cutoff=0.7)
    return list(dict.fromkeys(spellings[match] for match in matches))
