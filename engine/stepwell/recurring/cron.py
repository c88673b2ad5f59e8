"""Pure: cron expressions of five fields, read as crontab does, in a time zone's local time."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from stepwell.errors import InvalidSchedule
from stepwell.recurring import zones

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, or L for the month's last day",
    "month": "1 to 12, or jan to dec",
    "day-of-week": "0 to 7 with 0 and 7 for Sunday, or sun to sat",
}
HOURS = 24
_ONE_VALUE = re.compile(r"\b(?P<first>\w+)-(?P<last>\w+)/0*[1-9]\d*\b")
# Any; of a common year, so that 29 February is far away.
_SOME_TIME = datetime(2026, 1, 1)  # noqa: DTZ001 - local time
_EXAMPLE = 'such as "0 6 * * mon" for Mondays at 06:00'


@dataclass(frozen=True)
class Cron:
    """A cron expression in a time zone.

    Where clocks are changed, cronsim is not asked: near a change of half an hour it leaves out
    due times, and one asked for within a repeated hour may lie in the past. It gives local times.
    """

    fields: str
    tz: ZoneInfo

    def after(self, moment: datetime) -> datetime | None:
        """The first due time after `moment`, in UTC; None if there is none for fifty years.

        With `*` for the hour, every passing hour counts, those that the clocks show twice too. A
        local time with a given hour is due once: the first time, or where the clocks leave it
        out, at the end of the gap.
        """
        begin = zones.local(moment, self.tz) - zones.change_around(moment, self.tz)
        repeated = None
        for wall in CronSim(self.fields, begin):
            is_shown = zones.exists(wall, self.tz)
            if not is_shown and self.every_hour:
                continue
            read = zones.instant if is_shown else zones.after_gap
            first = read(wall, self.tz)
            if first > moment:
                return first if repeated is None else min(repeated, first)
            if self.every_hour and repeated is None:
                second = zones.instant(wall, self.tz, second=True)
                repeated = second if second > moment else None
        return repeated

    @cached_property
    def every_hour(self) -> bool:
        """Whether it means every hour of a day."""
        return len(self._parsed.hours) == HOURS

    def explain(self) -> str:
        """The expression in words."""
        text = self._parsed.explain()
        if not self._parsed.day_and:
            text += " (either makes a day match)"
        return text

    def note(self, due: datetime, before: datetime) -> str | None:
        """A warning for readers of due times: the clocks change.

        Args:
            due: a due time.
            before: the due time before it, or now.
        """
        said = []
        change = zones.change_between(before, due, self.tz)
        if change:
            way = "forward" if change > timedelta() else "back"
            said.append(f"clocks were put {way} by {abs(change) // timedelta(minutes=1)} min")
        wall = zones.local(due, self.tz)
        if wall.hour not in self._parsed.hours or wall.minute not in self._parsed.minutes:
            said.append("the time itself does not exist that day")
        first, second = (zones.instant(wall, self.tz, second=n) for n in (False, True))
        if first != second:
            said.append(f"the {'first' if due == first else 'second'} of two {wall:%H:%M}")
        return "; ".join(said) or None

    @cached_property
    def _parsed(self) -> CronSim:
        return CronSim(self.fields, _SOME_TIME)


def parse(text: str, tz: ZoneInfo) -> Cron:
    """The expression that `text` is.

    Raises:
        InvalidSchedule: it is not a cron expression, or has no due time for fifty years.
    """
    words = text.split()
    if len(words) == 1 and words[0].startswith("@"):
        fields = NICKNAMES.get(words[0].lower())
        if fields is None:
            raise InvalidSchedule(
                f"There is no cron expression {text!r}.", f"There are {', '.join(NICKNAMES)}."
            )
        return Cron(fields, tz)
    if len(words) != len(FIELDS):
        raise InvalidSchedule(
            f"The cron expression {text!r} has {len(words)} fields instead of {len(FIELDS)}.",
            f"Write {', '.join(FIELDS)}, {_EXAMPLE}.",
        )
    fields = _ONE_VALUE.sub(_one_value, " ".join(words))
    try:
        has_due_time = any(True for _ in CronSim(fields, _SOME_TIME))
    except CronSimError as error:
        raise _explained(text, words, str(error)) from None
    if not has_due_time:
        raise _never(text)
    return Cron(fields, tz)


def _one_value(found: re.Match[str]) -> str:
    """A range of one value with a step as that value; cronsim takes it for an open range."""
    first, last = found["first"].lower(), found["last"].lower()
    numbers = first.isdigit() and last.isdigit() and int(first) == int(last)
    return found["first"] if numbers or first == last else found[0]


def _explained(text: str, words: list[str], error: str) -> InvalidSchedule:
    """Which field is wrong, and what would be right."""
    name = error.removeprefix("Bad ")
    field = words[list(FIELDS).index(name)]
    if name == "day-of-month" and _is_right(f"0 0 {field} * *"):
        return _never(text)  # only the months are too short for it
    return InvalidSchedule(
        f"The cron expression {text!r} has a bad {name}: {field!r}.",
        f"It may be {FIELDS[name]}; lists such as 1,3, ranges that go upwards such as 1-5, and "
        f"steps such as */2; {_EXAMPLE}.",
    )


def _is_right(fields: str) -> bool:
    try:
        CronSim(fields, _SOME_TIME)
    except CronSimError:
        return False
    return True


def _never(text: str) -> InvalidSchedule:
    return InvalidSchedule(
        f"The cron expression {text!r} never comes: no such month has such a day.",
        'For the last day of every month write "0 6 L * *".',
    )
