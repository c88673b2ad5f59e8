"""The store: every run on one SQLite file, written by one connection, read by any number."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from sqlalchemy import select

from stepwell import clock
from stepwell.envelope import Envelope
from stepwell.errors import KeyConflict, LeaseLost, NotSent
from stepwell.machine import State
from stepwell.rules.change import Change
from stepwell.rules.fork import Fate
from stepwell.rules.mask import Mask
from stepwell.rules.recovery import cancel_instead
from stepwell.state.circumstances import Circumstances, Today
from stepwell.state.inbox import InboxEntry, InboxKind
from stepwell.state.records import RunRow
from stepwell.state.snapshot import Snapshot
from stepwell.store import claim, forked_runs, inbox, load, past, record, today
from stepwell.store.claim import Owned
from stepwell.store.database import Database
from stepwell.store.owner import this_process
from stepwell.store.states import in_states
from stepwell.store.tables import run

T = TypeVar("T")
Forking = Callable[[Snapshot, Fate], Change]
TRIES = 20
_NOTHING = Mask()


class Store(Database):
    """All reading and writing of one database, from any thread.

    Args:
        file: the SQLite file; it and its folder are created if they are missing.
        synchronous: SQLite's pragma of that name.
        mask: replaces secrets in everything that is written.
        upgrade: whether an older schema is brought to this version, after a copy.

    Raises:
        SchemaTooNew, SchemaTooOld, StoreError: the file cannot be used; it was not touched.
    """

    def __init__(
        self,
        file: Path,
        synchronous: str = "full",
        mask: Mask = _NOTHING,
        *,
        upgrade: bool = False,
    ) -> None:
        super().__init__(file, synchronous, upgrade=upgrade)
        self.mask = mask

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self._worker: int | None = None

    def load(self, number: int, at: int | None = None) -> Snapshot:
        """The run as it was last recorded, or as it was after transition `at`.

        Raises:
            UnknownTransition: it has none of that number.
        """
        with self.reading() as connection:
            if at is None:
                return load.load(connection, number)
            return past.snapshot(past.rewound(connection, number, at))

    def glance(self, number: int) -> tuple[RunRow, bool]:
        """A run's own row, without the rest, and whether anything that was sent to it waits."""
        with self.reading() as connection:
            return load.row(connection, number)

    def numbers(self, states: Collection[State]) -> list[int]:
        """The numbers of all runs in these states, the oldest first."""
        query = select(run.c.number).where(in_states(states))
        with self.reading() as connection:
            return list(connection.execute(query.order_by(run.c.number)).scalars())

    def begin(self, change: Change, until: datetime | None = None) -> Snapshot:
        """Record a run's first transition.

        Args:
            change: made by `starting.start`.
            until: when the lease of this process ends, if it is to drive the run from the start.

        Raises:
            KeyConflict: its workflow has a run with this key already.
        """
        if until is not None:
            owned = change.run._replace(owner=self.worker(), fence=1, lease_until=until)
            change = replace(change, run=owned)
        stored = self.mask.change(change)
        begun = _value(self.write(lambda cursor: record.begin(cursor, stored, None)))
        snapshot = Snapshot(begun)
        snapshot.extend(change.messages)
        return snapshot

    def fork(self, number: int, at: int, how: Forking) -> RunRow:
        """Begin a run as a copy of another up to one of its transitions.

        Args:
            number: the original's.
            at: which transition.
            how: makes the first transition from the past original and its calls' later outcomes.

        Raises:
            UnknownTransition: the original has none of that number.
            LeaseLost: it changed at every try; nothing was written.
        """
        tries = TRIES
        while True:
            with self.reading() as connection:
                then = past.snapshot(past.rewound(connection, number, at))
                seen = forked_runs.family(connection, number)
            change = self.mask.change(how(then, seen.fate))
            begun = self.write(partial(forked_runs.fork, change=change, seen=seen))
            tries -= 1
            if tries <= 0 or not isinstance(begun, LeaseLost):
                return _value(begun)

    def record(self, snapshot: Snapshot, change: Change, *, driven: bool = True) -> Change:
        """Record one transition and take it into `snapshot`; both or neither.

        A change that lets go of a run whose cancel was accepted meanwhile gives way to the cancel.

        Args:
            snapshot: the run as it was; afterwards, as it is.
            change: made from that snapshot.
            driven: whether this process's worker caused it, or a person did.

        Returns:
            the change that was recorded.

        Raises:
            LeaseLost: the run has moved on; nothing was written.
            StoreBusy, StoreFull, StoreError: nothing was written.
        """
        worker = self.worker() if driven else None
        stored = self.mask.change(change)
        written = self.write(lambda cursor: record.record(cursor, stored, worker))
        if isinstance(written, record.CancelAsked):
            given = Circumstances(now=clock.now())
            ended = cancel_instead(snapshot, change, written.by, given)
            return self.record(snapshot, ended, driven=driven)
        snapshot.run, snapshot.inbox = _value(written)
        change.apply(snapshot)
        return change

    def revise(
        self, number: int, how: Callable[[Snapshot], Change | None], *, tries: int = TRIES
    ) -> Change | None:
        """Change a run from outside its driver, based on its present state.

        Args:
            number: the run's.
            how: makes the change, or returns None if there is nothing to do.
            tries: how often to start again if another process changes the run in between.

        Returns:
            the recorded change; None if there was nothing to change.

        Raises:
            LeaseLost: it changed at every try; nothing was written.
        """
        while True:
            snapshot = self.load(number)
            change = how(snapshot)
            if change is None:
                return None
            tries -= 1
            try:
                return self.record(snapshot, change, driven=False)
            except LeaseLost:
                if tries <= 0:
                    raise

    def claim(
        self,
        workflows: Collection[str],
        now: datetime,
        until: datetime,
        number: int | None = None,
        limits: Mapping[str, int] = MappingProxyType({}),
        known: Snapshot | None = None,
    ) -> Snapshot | None:
        """A due run, or the one asked for if it is due, now driven by this process.

        Args:
            workflows: only runs of these.
            now: the time.
            until: when the lease ends.
            number: only this run.
            limits: by workflow, how many of its runs may be driven at once, by all processes.
            known: the run as this process has recorded it; read again only if it has moved on.
        """
        owner = self.worker()
        found = self.write(
            lambda cursor: claim.claim(
                cursor,
                owner=owner,
                now=now,
                until=until,
                workflows=workflows,
                number=number,
                limits=limits,
            )
        )
        if found is None:
            return None
        if known is not None:
            with self.reading() as connection:
                if load.renew(connection, found, known):
                    return known
        return self.load(found)

    def renew(
        self, leases: Mapping[int, int], now: datetime, until: datetime
    ) -> dict[int, str | None]:
        """Extend this process's leases (fence by run); see `claim.renew`."""
        owner = self.worker()
        return self.write(lambda cursor: claim.renew(cursor, owner, leases, now, until))

    def release(self, number: int, fence: int) -> bool:
        """Give a run back between two steps; see `claim.release`."""
        owner = self.worker()
        return self.write(lambda cursor: claim.release(cursor, owner, number, fence))

    def request_cancel(self, number: int, by: str) -> bool:
        """Ask the driver of a run to end it. False if no process drives it."""
        asked = self.mask.text(by)
        return self.write(lambda cursor: claim.request_cancel(cursor, number, asked))

    def send(
        self,
        number: int,
        kind: InboxKind,
        by: str | None,
        *,
        text: str | None = None,
        amounts: Mapping[str, Any] | None = None,
    ) -> int:
        """Put an entry into a run's inbox; the process that drives the run delivers it.

        Returns:
            the entry's number.

        Raises:
            NotSent: the run was cancelled.
        """
        said, sender = self.mask.optional(text), self.mask.optional(by)
        new = inbox.New(number, kind, said, amounts, sender, clock.now())
        return _value(self.write(lambda cursor: inbox.send(cursor, new)))

    def waiting(self, number: int) -> tuple[InboxEntry, ...]:
        """Entries that were sent to a run and not delivered yet, the oldest first."""
        with self.reading() as connection:
            return inbox.waiting(connection.exec_driver_sql, number)

    def sleeping(self, workflows: Collection[str], talking: Collection[str]) -> list[int]:
        """Ended runs that a waiting inbox entry lets continue; see `inbox.sleeping`."""
        with self.reading() as connection:
            return inbox.sleeping(connection, workflows, talking)

    def keep_late(self, number: int, call: int, outcome: Envelope) -> None:
        """Keep the late outcome of an abandoned call as evidence."""
        kept = self.mask.value(outcome)
        self.write(lambda cursor: claim.keep_late(cursor, number, call, kept))

    def owned(self, number: int | None = None) -> list[Owned]:
        """Every run that has an owner, or the one asked for."""
        with self.reading() as connection:
            return claim.owned(connection, number)

    def is_coming(self, workflows: Collection[str], now: datetime) -> bool:
        """Whether a run of these workflows is in progress elsewhere, or waits for a retry."""
        me = self.worker()
        with self.reading() as connection:
            return claim.is_coming(connection, me, workflows, now)

    def today(self, run: RunRow, now: datetime) -> Today:
        """Today's usage of its workflow's runs (UTC)."""
        with self.reading() as connection:
            return today.today(connection, run, now)

    def worker(self) -> int:
        """The number under which this process drives runs."""
        with self._starting:
            if self._worker is None:
                now, process = clock.now(), this_process()
                self._worker = self.write(lambda cursor: claim.register(cursor, process, now))
            return self._worker


def _value(result: T | LeaseLost | KeyConflict | NotSent) -> T:
    if isinstance(result, LeaseLost | KeyConflict | NotSent):
        raise result
    return result
