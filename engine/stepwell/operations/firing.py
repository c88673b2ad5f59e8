"""Fires schedules: each due time with the run that it starts, in one transaction."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from ulid import ULID

from stepwell import clock
from stepwell.errors import StepwellError, StoreError
from stepwell.recurring import occurrences
from stepwell.recurring.occurrences import Occurrence, OccurrenceStatus
from stepwell.recurring.rescheduling import ScheduleRow, fired
from stepwell.recurring.schedule import Schedule
from stepwell.recurring.template import Previous, render
from stepwell.rules.change import Change
from stepwell.rules.starting import RunOptions, new_run, start
from stepwell.state.records import ApprovePolicy
from stepwell.store import Store, schedules
from stepwell.store.schedules import Entry
from stepwell.workflow import Workflow, known

log = logging.getLogger("stepwell")

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Fired:
    """What has become of one due time just now.

    Attributes:
        run: the id of the run that it started.
    """

    schedule: str
    due: datetime
    status: str
    reason: str | None
    run: str | None


OnFired = Callable[[Fired], None]


@dataclass(frozen=True, slots=True)
class Firer:
    """Fires the schedules that this process may fire.

    Args:
        store: where they are.
        workflows: those that this process knows; schedules of others are left alone.
        declared: the schedules that its application declares; others' are left alone.
        check: raises if no run of a workflow can be driven, with its own model.
    """

    store: Store
    workflows: Mapping[str, Workflow]
    declared: Mapping[str, Schedule]
    check: Callable[[str, str | None], None]
    _told: set[tuple[int, int]] = field(default_factory=set)

    def fire_due(self) -> list[Fired]:
        """Deal with every due time that has come. What another process was faster with is not ours.

        Raises:
            StoreError: the database cannot be used; the next look continues.
        """
        with self.store.reading() as connection:
            numbers = schedules.due(connection, clock.now())
        done = []
        for number in numbers:
            try:
                done += self._fire(number)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - one schedule must not hold up the others
                self._tell_once(number, error)
        return done

    def trigger(self, row: ScheduleRow, by: str) -> Fired | None:
        """Start a run now, whatever the schedule and its last run say.

        Returns:
            None, and nothing was started, if the schedule was changed meanwhile.

        Raises:
            InvalidSchedule, InvalidInput, UnknownWorkflow, ConfigurationError: likewise.
        """
        now = clock.now()
        with self.store.reading() as connection:
            previous = schedules.previous(connection, row)
            while schedules.is_dealt_with(connection, row, now):
                now += _MILLISECOND
        ran = Occurrence(now, OccurrenceStatus.RAN)
        entry = Entry(ran, self._start(row.schedule(), now, previous, by), by)
        return next(iter(self._write(row, row, [entry])), None)

    def _fire(self, number: int) -> list[Fired]:
        now = clock.now()
        with self.store.reading() as connection:
            row = schedules.row(connection, number)
            if row is None or not self.is_ours(row):
                return []
            past = schedules.past(connection, row)
            previous = schedules.previous(connection, row)
        schedule = row.schedule()
        when = schedule.recurrence(row.anchor)
        firing = occurrences.fire(schedule, when, row.next_due, past, now)
        if firing is None:
            return []
        entries = [self._entry(schedule, one, previous) for one in firing.occurrences]
        return self._write(row, fired(row, schedule, firing, now), entries)

    def is_ours(self, row: ScheduleRow) -> bool:
        """Whether this process may fire it."""
        is_known = row.settings["workflow"] in self.workflows
        return is_known and (not row.declared or row.name in self.declared)

    def _write(self, row: ScheduleRow, then: ScheduleRow, entries: list[Entry]) -> list[Fired]:
        now, mask = clock.now(), self.store.mask
        entries = [schedules.masked(entry, mask) for entry in entries]
        written = self.store.write(lambda cursor: schedules.save(cursor, row, then, entries, now))
        return [
            Fired(
                schedule=row.name,
                due=entry.occurrence.due,
                status=entry.occurrence.status,
                reason=entry.occurrence.reason,
                run=entry.start.run.id if entry.start else None,
            )
            for entry in written or ()
        ]

    def _entry(self, schedule: Schedule, one: Occurrence, previous: Previous) -> Entry:
        """A due time with its run's start, or with why it cannot be started."""
        if one.status is not OccurrenceStatus.RAN:
            return Entry(one)
        by = f"schedule {schedule.name}"
        try:
            return Entry(one, self._start(schedule, one.due, previous, by))
        except StepwellError as error:
            return Entry(replace(one, status=OccurrenceStatus.FAILED, reason=str(error)))

    def _start(self, schedule: Schedule, due: datetime, previous: Previous, by: str) -> Change:
        workflow = known(self.workflows, schedule.workflow)
        self.check(schedule.workflow, None)
        tz = ZoneInfo(schedule.tz)
        before = replace(previous, due=previous.due.astimezone(tz)) if previous.due else previous
        text = render(schedule.input, due.astimezone(tz), before)
        options: RunOptions = {"key": schedule.key(due), "user": schedule.user}
        new = new_run(str(ULID()), text, ApprovePolicy.PARK, options)
        return self.store.mask.change(replace(start(workflow, new, clock.now()), by=by))

    def _tell_once(self, number: int, error: Exception) -> None:
        with self.store.reading() as connection:
            row = schedules.row(connection, number)
        if row is None or (number, row.revision) in self._told:
            return
        self._told.add((number, row.revision))
        log.warning("Schedule %r cannot be fired: %s", row.name, error)
