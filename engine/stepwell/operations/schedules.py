"""The operations on schedules: `Engine.schedules`."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict, Unpack

from stepwell import clock
from stepwell.errors import (
    InvalidSchedule,
    ScheduleConflict,
    StoreBusy,
    UnknownSchedule,
)
from stepwell.operations.firing import Firer, OnFired
from stepwell.operations.words import checked
from stepwell.recurring.occurrences import Occurrence
from stepwell.recurring.rescheduling import Revised, ScheduleRow, changed, new_row, paused, resumed
from stepwell.recurring.schedule import CatchUp, Overlap, Schedule
from stepwell.store import TRIES, Store, occurrence_log, schedules
from stepwell.store.schedules import Entry
from stepwell.views.schedules import OccurrenceView, ScheduleDetail, ScheduleView
from stepwell.workflow import known

UPCOMING = 5
LAST = 20
_RECURRENCES = ("cron", "every", "at")


class ScheduleChanges(TypedDict, total=False):
    """The settings of a schedule that can be changed, see `Schedule`."""

    workflow: str
    input: str
    cron: str | None
    every: str | None
    at: str | None
    tz: str
    overlap: Overlap | str
    catch_up: CatchUp | str
    backlog: int
    jitter: str | None
    pause_after: int | None
    user: str | None


class Schedules:
    """The schedules of one database.

    Args:
        store: the database.
        firer: starts runs for them, and knows what the application defines.
    """

    def __init__(self, store: Store, firer: Firer) -> None:
        self._store, self._firer = store, firer

    def add(self, schedule: Schedule) -> ScheduleDetail:
        """Begin to start a workflow again and again.

        Raises:
            UnknownWorkflow, InvalidSchedule: nothing was added.
            ScheduleConflict: there is one of this name.
        """
        self._check(schedule, is_new=True)
        if not self._insert(schedule, declared=False):
            raise ScheduleConflict(
                f"There is a schedule {schedule.name!r} already.",
                f"Change it with `stepwell schedule edit {schedule.name}`, or use another name.",
            )
        return self.get(schedule.name)

    def list(self) -> list[ScheduleView]:
        """All schedules, by name."""
        with self._store.reading() as connection:
            found = schedules.rows(connection)
            last = occurrence_log.last_of_each(connection)
        return [ScheduleView(**self._shown(row, last.get(row.name))) for row in found]

    def get(self, name: str) -> ScheduleDetail:
        """One schedule with its next and past due times.

        Raises:
            UnknownSchedule: there is none of this name.
        """
        row = self._row(name)
        with self._store.reading() as connection:
            last = occurrence_log.latest(connection, row.number, LAST)
        shown = self._shown(row, last[0] if last else None)
        return ScheduleDetail(**shown, upcoming=_upcoming(row), occurrences=tuple(last))

    def pause(
        self, name: str, *, by: str | None = None, reason: str | None = None
    ) -> ScheduleDetail:
        """Start nothing any more until `resume`.

        Raises:
            UnknownSchedule: there is none of this name.
        """
        checked("by", by)
        return self._revise(name, lambda row, now: paused(row, now, by, reason))

    def resume(self, name: str) -> ScheduleDetail:
        """Go on after a pause, with the next due time. Those that passed meanwhile are skipped.

        Raises:
            UnknownSchedule: there is none of this name.
        """
        return self._revise(name, resumed)

    def trigger(self, name: str, *, by: str | None = None) -> OccurrenceView:
        """Start a run now, also of a paused schedule, and beside a run that is still live.

        The due times to come stay as they are.

        Raises:
            UnknownSchedule, UnknownWorkflow, ConfigurationError: nothing was started.
        """
        checked("by", by)
        for _ in range(TRIES):
            fired = self._firer.trigger(self._row(name), by or "somebody")
            if fired is not None:
                with self._store.reading() as connection:
                    return occurrence_log.one(connection, name, fired.due)
        raise _changing(name)

    def edit(self, name: str, **changes: Unpack[ScheduleChanges]) -> ScheduleDetail:
        """Change settings. With another cron, every or at, the one before is given up.

        Raises:
            UnknownSchedule, UnknownWorkflow, InvalidSchedule: nothing was changed.
            ScheduleConflict: it is declared in code.
        """
        row = self._row(name)
        if row.declared:
            raise ScheduleConflict(
                f"Schedule {name!r} is declared in the code of an application.",
                "Change it there; pause, resume and trigger work here.",
            )
        settings: dict[str, Any] = {**row.settings, **changes}
        if any(changes.get(one) is not None for one in _RECURRENCES):
            settings |= {one: changes.get(one) for one in _RECURRENCES}
        wanted = Schedule(**settings)
        self._check(wanted, is_new="at" in changes)
        return self._revise(name, lambda row, now: changed(row, wanted, now, declared=False))

    def remove(self, name: str) -> None:
        """Delete a schedule and its record of due times. Its runs stay.

        Raises:
            UnknownSchedule: there is none of this name.
            ScheduleConflict: it is declared in code, and would come back.
        """
        row = self._row(name)
        if row.declared and name in self._firer.declared:
            raise ScheduleConflict(
                f"Schedule {name!r} is declared in the code of this application.",
                "Delete it there first, or pause it.",
            )
        self._store.write(lambda cursor: schedules.remove(cursor, row))

    def register(self) -> None:
        """Bring the schedules that the application declares into the database.

        A schedule with the same settings stays as it is; one with others is changed.
        """
        for name, wanted in self._firer.declared.items():
            with self._store.reading() as connection:
                row = schedules.row(connection, name)
            if row is None and self._insert(wanted, declared=True):
                continue
            with suppress(UnknownSchedule):  # removed meanwhile: the next start adds it
                self._declare(wanted)

    def firing(self, on_fired: OnFired | None) -> Callable[[], bool]:
        """The job of a worker's tick, after the application's schedules were registered.

        It says whether it started a run.
        """
        self.register()

        def fire() -> bool:
            fired = self._firer.fire_due()
            for one in fired:
                if on_fired is not None:
                    on_fired(one)
            return any(one.run is not None for one in fired)

        return fire

    def _declare(self, wanted: Schedule) -> None:
        self._revise(wanted.name, lambda row, now: changed(row, wanted, now, declared=True))

    def _check(self, schedule: Schedule, *, is_new: bool) -> None:
        known(self._firer.workflows, schedule.workflow)
        now = clock.now()
        if is_new and schedule.recurrence(now).after(now) is None:
            raise InvalidSchedule(
                f"{schedule.at} ({schedule.tz}) is past.",
                f"Name a time to come; or start it now: `stepwell run {schedule.workflow}`.",
            )

    def _insert(self, schedule: Schedule, *, declared: bool) -> bool:
        row = self._store.mask.schedule(new_row(schedule, clock.now(), declared=declared))
        return self._store.write(lambda cursor: schedules.add(cursor, row))

    def _revise(self, name: str, how: Callable[[ScheduleRow, datetime], Revised]) -> ScheduleDetail:
        for _ in range(TRIES):
            row, now = self._row(name), clock.now()
            then, passed = how(row, now)
            then = self._store.mask.schedule(then)
            if then == row or self._save(row, replace(then, updated_at=now), passed, now):
                return self.get(name)
        raise _changing(name)

    def _save(
        self, row: ScheduleRow, then: ScheduleRow, passed: Sequence[Occurrence], now: datetime
    ) -> bool:
        entries = [Entry(one) for one in passed]
        saved = self._store.write(lambda c: schedules.save(c, row, then, entries, now))
        return saved is not None

    def _row(self, name: str) -> ScheduleRow:
        checked("name", name)
        with self._store.reading() as connection:
            row = schedules.row(connection, name)
        if row is None:
            raise UnknownSchedule(
                f"There is no schedule {name!r}.", "`stepwell schedule list` shows all there are."
            )
        return row

    def _shown(self, row: ScheduleRow, last: OccurrenceView | None) -> dict[str, Any]:
        status, reason = self._status(row)
        names = ("declared", "next_due", "fire_at", "paused_at", "paused_by")
        times = ("created_at", "updated_at")
        return {
            **row.settings,
            **{name: getattr(row, name) for name in names + times},
            "status": status,
            "reason": reason,
            "last": last,
        }

    def _status(self, row: ScheduleRow) -> tuple[str, str | None]:
        """Its status in a word, and a remark."""
        try:
            schedule = row.schedule()
        except InvalidSchedule as error:
            return "broken", str(error)
        if schedule.workflow not in self._firer.workflows:
            return "broken", (
                f"This application defines no workflow {schedule.workflow!r}. It resumes when one "
                "does; or edit or remove it."
            )
        if row.declared and row.name not in self._firer.declared:
            return "orphaned", (
                "It was declared in code, and this application declares it no more. Declare it "
                f"again, or `stepwell schedule remove {row.name}`."
            )
        if row.paused_at is not None:
            return "paused", row.pause_reason
        return ("active" if row.next_due else "ended"), None


def _upcoming(row: ScheduleRow) -> tuple[datetime, ...]:
    try:
        return tuple(row.upcoming(UPCOMING, clock.now()))
    except InvalidSchedule:
        return ()


def _changing(name: str) -> StoreBusy:
    return StoreBusy(f"Schedule {name!r} was changed again and again meanwhile.", "Try again.")
