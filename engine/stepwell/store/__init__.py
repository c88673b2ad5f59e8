"""The store: every run on one SQLite file, written by one thread, read by any number."""

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from stepwell import clock
from stepwell.change import Change
from stepwell.errors import KeyConflict, LeaseLost, StoreError
from stepwell.owner import this_process
from stepwell.snapshot import RunRow, Snapshot
from stepwell.store import claim, connections, load, record, schema
from stepwell.store.claim import Owned
from stepwell.store.committer import Committer

T = TypeVar("T")


class Store:
    """All reading and writing of one database, from any thread.

    Args:
        file: the SQLite file; it and its folder are made where they are missing.
        synchronous: SQLite's pragma of that name.

    Raises:
        SchemaTooNew, StoreError: the file cannot be used; it was not touched.
    """

    def __init__(self, file: Path, synchronous: str = "full") -> None:
        self.file = file
        self._synchronous = synchronous
        self._left_behind: list[object] = []
        schema.check(file)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{file.parent} cannot be made: {error.strerror}.") from error
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._worker: int | None = None
        self._registering = threading.Lock()
        writer = connections.writing(self.file, self._synchronous)
        try:
            self.backup = schema.prepare(writer, self.file)
        except sqlite3.Error as error:
            raise StoreError(f"The database {self.file} cannot be set up: {error}.") from error
        self._reader = connections.reading(self.file)
        self._committer = Committer(writer)

    def close(self) -> None:
        """Finish what is being written and close the file."""
        if self._pid == os.getpid():
            self._committer.close()
            self._reader.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A short transaction that sees one state of the database and changes nothing.

        Raises:
            StoreError: it cannot be read.
        """
        self._after_fork()
        try:
            with self._reader.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise StoreError(f"The database {self.file} cannot be read: {error.orig}.") from error

    def load(self, number: int) -> Snapshot:
        """The run as it was last recorded."""
        with self.reading() as connection:
            return load.load(connection, number)

    def begin(self, change: Change) -> RunRow:
        """Record a run's first transition.

        Raises:
            KeyConflict: its workflow has a run with this key already.
        """
        return _value(self._write(lambda cursor: record.begin(cursor, change, None)))

    def record(self, snapshot: Snapshot, change: Change, *, driven: bool = True) -> None:
        """Record one transition and take it into `snapshot`; both or neither.

        Args:
            snapshot: the run as it was; afterwards, as it is.
            change: made from that snapshot.
            driven: whether this process's worker caused it, or a person did.

        Raises:
            LeaseLost: the run has moved on; nothing was written.
            StoreBusy, StoreFull, StoreError: nothing was written.
        """
        worker = self.worker() if driven else None
        snapshot.run = _value(self._write(lambda cursor: record.record(cursor, change, worker)))
        snapshot.extend(change.messages, change.calls, change.approvals, change.notes)

    def claim(
        self,
        workflows: Collection[str],
        now: datetime,
        until: datetime,
        number: int | None = None,
    ) -> Snapshot | None:
        """A due run, or the one asked for if it is due, now driven by this process."""
        owner = self.worker()
        found = self._write(
            lambda cursor: claim.claim(
                cursor, owner=owner, now=now, until=until, workflows=workflows, number=number
            )
        )
        return None if found is None else self.load(found)

    def renew(
        self, leases: Mapping[int, int], now: datetime, until: datetime
    ) -> dict[int, str | None]:
        """Extend this process's leases (fence by run); see `claim.renew`."""
        owner = self.worker()
        return self._write(lambda cursor: claim.renew(cursor, owner, leases, now, until))

    def request_cancel(self, number: int, by: str) -> bool:
        """Ask the driver of a run to end it. False if nobody drives it."""
        return self._write(lambda cursor: claim.request_cancel(cursor, number, by))

    def owned(self, number: int | None = None) -> list[Owned]:
        """Every run that has an owner, or the one asked for."""
        with self.reading() as connection:
            return claim.owned(connection, number)

    def worker(self) -> int:
        """The number under which this process drives runs."""
        self._after_fork()
        with self._registering:
            if self._worker is None:
                now, process = clock.now(), this_process()
                self._worker = self._write(lambda cursor: claim.register(cursor, process, now))
            return self._worker

    def _write(self, operation: Callable[[sqlite3.Cursor], T]) -> T:
        self._after_fork()
        return self._committer.run(operation)

    def _after_fork(self) -> None:
        """A child opens its own connections. Closing the parent's would drop the parent's locks."""
        if self._pid != os.getpid():
            self._left_behind += [self._committer, self._reader]
            self._reader.dispose(close=False)
            self._open()


def _value(result: T | LeaseLost | KeyConflict) -> T:
    if isinstance(result, LeaseLost | KeyConflict):
        raise result
    return result
