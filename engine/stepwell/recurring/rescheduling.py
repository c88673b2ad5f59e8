"""Pure: a schedule's row after it was made, fired, changed or resumed."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from stepwell.errors import InvalidSchedule
from stepwell.plain_json import clean
from stepwell.recurring import occurrences
from stepwell.recurring.occurrences import Firing, Occurrence
from stepwell.recurring.schedule import Schedule

# What decides when a schedule is due; where none of it changes, its due times stay.
_WHEN = ("cron", "every", "at", "tz", "jitter")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """A schedule as it is stored.

    Attributes:
        settings: what `Schedule` is made of; they may not be valid for this code any more.
        declared: whether it comes from the code of an application.
        revision: grows with every change.
        anchor: where an interval is counted from.
        next_due, fire_at: the next due time that was not handled, without and with jitter.
        last_run: the number of the last run that it started.
        counted_from: failures before that moment do not count.
    """

    number: int
    settings: dict[str, Any]
    declared: bool
    revision: int
    anchor: datetime
    next_due: datetime | None
    fire_at: datetime | None
    last_run: int | None
    counted_from: datetime
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.settings["name"])

    def schedule(self) -> Schedule:
        """Its settings.

        Raises:
            InvalidSchedule: they are not valid any more.
        """
        return Schedule(**self.settings)

    def upcoming(self, count: int, now: datetime) -> list[datetime]:
        """The next due times. First the one that is overdue, if it is still to be dealt with.

        Raises:
            InvalidSchedule: see `schedule`.
        """
        when, found = self.schedule().recurrence(self.anchor), self.next_due
        coming: list[datetime] = []
        if found is not None and found <= now:
            coming += [found] if self.paused_at is None else []
            found = when.after(now)
        while found is not None and len(coming) < count:
            coming.append(found)
            found = when.after(found)
        return coming


Revised = tuple[ScheduleRow, tuple[Occurrence, ...]]
"""The new row, and the decision on due times that have passed."""


def new_row(schedule: Schedule, now: datetime, *, declared: bool) -> ScheduleRow:
    """A schedule that is due from now on. The database gives the row its number."""
    row = ScheduleRow(
        number=0,
        settings=_settings(schedule),
        declared=declared,
        revision=1,
        anchor=now,
        next_due=None,
        fire_at=None,
        last_run=None,
        counted_from=now,
        paused_at=None,
        paused_by=None,
        pause_reason=None,
        created_at=now,
        updated_at=now,
    )
    return _due_after(row, schedule, now)


def fired(row: ScheduleRow, schedule: Schedule, firing: Firing, now: datetime) -> ScheduleRow:
    """The row after the decisions on its due times were written."""
    then = _next(row, schedule, firing.next_due)
    if firing.pause is not None:
        then = replace(then, paused_at=now, paused_by=None, pause_reason=firing.pause)
    return then


def paused(row: ScheduleRow, now: datetime, by: str | None, reason: str | None) -> Revised:
    """A person's pause."""
    if row.paused_at is not None:
        return row, ()
    return replace(row, paused_at=now, paused_by=clean(by), pause_reason=clean(reason)), ()


def resumed(row: ScheduleRow, now: datetime) -> Revised:
    """The end of a pause: due times that have passed meanwhile are skipped."""
    if row.paused_at is None:
        return row, ()
    going = replace(row, paused_at=None, paused_by=None, pause_reason=None, counted_from=now)
    schedule = row.schedule()
    when = schedule.recurrence(row.anchor)
    passed = occurrences.lapse(schedule, when, row.next_due, now, "the schedule was paused")
    return _next(going, schedule, passed.next_due), passed.occurrences


def changed(row: ScheduleRow, wanted: Schedule, now: datetime, *, declared: bool) -> Revised:
    """Other settings. Only where they say when it is due, it is due anew."""
    settings = _settings(wanted)
    then = replace(row, settings=settings, declared=declared)
    if all(settings[name] == row.settings[name] for name in _WHEN):
        return then, ()
    passed: tuple[Occurrence, ...] = ()
    try:
        before = row.schedule()
    except InvalidSchedule:  # then it is unknown which times were due
        pass
    else:
        when, reason = before.recurrence(row.anchor), "the schedule was changed"
        passed = occurrences.lapse(before, when, row.next_due, now, reason).occurrences
    return _due_after(then, wanted, now), passed


def _due_after(row: ScheduleRow, schedule: Schedule, now: datetime) -> ScheduleRow:
    anchor = now.replace(microsecond=0)
    return _next(replace(row, anchor=anchor), schedule, schedule.recurrence(anchor).after(now))


def _next(row: ScheduleRow, schedule: Schedule, due: datetime | None) -> ScheduleRow:
    return replace(row, next_due=due, fire_at=schedule.fires_at(due) if due else None)


def _settings(of: Schedule) -> dict[str, Any]:
    settings: dict[str, Any] = clean(asdict(of))
    return settings
