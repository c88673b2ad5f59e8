"""The writer of a process: all waiting operations go into one transaction."""

import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from stepwell.errors import DatabaseMoved, StepwellError, StoreBusy, StoreError, StoreFull
from stepwell.store import connections
from stepwell.store.connections import is_busy
from stepwell.store.process_fork import ForkGate

T = TypeVar("T")
Operation = Callable[[sqlite3.Cursor], T]

LONGEST_BATCH = 200
# SQLite's own busy handler starves one of several writers; short random waits share evenly.
RETRY_WAIT = (0.0003, 0.003)


class Committer:
    """Runs operations in transactions; a caller gets its answer only after COMMIT.

    The first caller commits its operation and all that are waiting by then. A thread of its own
    would cost two thread switches a step, as much as the rest of a transaction.

    An operation whose first statement changes no row must do nothing else, because the others in
    the transaction are committed all the same. If one raises, all are undone and each is tried
    alone. (Savepoints do not help: a full disk rolls back the whole transaction under them.)

    Args:
        connection: the writer's, not used elsewhere.
        again: opens another one, after `disconnect`.
        gate: passed for every transaction.
        check: called after every COMMIT; raises DatabaseMoved if no reader will see it.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        again: Callable[[], sqlite3.Connection],
        gate: ForkGate,
        check: Callable[[], None],
    ) -> None:
        self._cursor: sqlite3.Cursor | None = connection.cursor()
        self._again, self._gate, self._check = again, gate, check
        self._queue: deque[_Waiting] = deque()
        self._turn = threading.Lock()
        self._closed = False
        self._log_is_long = False

    def run(self, operation: Operation[T]) -> T:
        """What `operation` returns, once it is committed.

        Raises:
            StoreBusy, StoreFull, StoreError: nothing of it was written.
        """
        waiting = _Waiting(operation)
        self._queue.append(waiting)
        with self._turn:
            if not waiting.settled and self._closed:
                raise StoreError("The store is closed.")
            if not waiting.settled:
                self._commit_with(waiting)
        result: T = waiting.outcome()
        return result

    def shorten_log(self) -> None:
        """Move the log into the database, as soon as nothing waits to be written."""
        self._log_is_long = True
        self.run(lambda _cursor: None)

    def close(self) -> None:
        """Commit all waiting operations, then stop."""
        with self._turn:
            if not self._closed:
                self._commit_with(_Waiting(lambda _cursor: None))
            self._closed = True
            with self._gate:
                self.disconnect()

    def disconnect(self) -> None:
        """Close the connection, while the gate is shut; the next transaction opens another one."""
        if self._cursor is not None:
            self._cursor.connection.close()
            self._cursor = None

    def _commit_with(self, first: "_Waiting") -> None:
        """Commit this operation and all others that are waiting."""
        batch = [first]
        while self._queue and len(batch) < LONGEST_BATCH:
            item = self._queue.popleft()
            if item is not first and not item.settled:
                batch.append(item)
        with self._gate:
            try:
                self._cursor = self._cursor or self._again().cursor()
                _commit(self._cursor, batch, self._check)
            except Exception as error:  # noqa: BLE001 - each waiting caller gets it
                for item in batch:
                    item.fail(error)
            if self._log_is_long and not self._queue:
                self._checkpoint()

    def _checkpoint(self) -> None:
        self._log_is_long = False
        if self._cursor is not None:
            with suppress(sqlite3.Error):  # a reader holds it open: another time
                self._cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


class _Waiting:
    """One operation and, once it is settled, its result or error."""

    def __init__(self, operation: Operation[Any]) -> None:
        self.operation = operation
        self._batch: list[Any] = []  # the results of all that it was committed with
        self._place = 0
        self._error: BaseException | None = None

    @property
    def settled(self) -> bool:
        return self._error is not None or self._place < len(self._batch)

    def outcome(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._batch[self._place]

    def committed(self, batch: list[Any], place: int) -> None:
        self._batch, self._place = batch, place

    def fail(self, error: BaseException) -> None:
        if not self.settled:
            self._error = _explain(error)


def _commit(cursor: sqlite3.Cursor, batch: list[_Waiting], check: Callable[[], None]) -> None:
    try:
        _transaction(cursor, batch, check)
    except Exception as error:
        # Not the fault of one of them; and with DatabaseMoved they are committed already.
        if len(batch) == 1 or _is_busy(error) or isinstance(error, DatabaseMoved):
            raise
        for item in batch:
            try:
                _transaction(cursor, [item], check)
            except Exception as own:  # noqa: BLE001 - its caller gets it
                item.fail(own)


def _is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and is_busy(error)


def _transaction(cursor: sqlite3.Cursor, batch: list[_Waiting], check: Callable[[], None]) -> None:
    """Commit a batch and settle it, all at once even if a Ctrl-C arrives in between.

    What an interrupt has rolled back is not settled: then each caller commits its own.
    """
    results: list[Any] = []
    settled: list[Any] = []
    for place, item in enumerate(batch):
        item.committed(settled, place)
    try:
        _begin(cursor)
        results.extend(item.operation(cursor) for item in batch)
        cursor.execute("COMMIT")
        check()
    except BaseException as error:
        if cursor.connection.in_transaction:
            cursor.execute("ROLLBACK")
        elif len(results) == len(batch) and not isinstance(error, Exception):
            settled[:] = results
        raise
    settled[:] = results


def _begin(cursor: sqlite3.Cursor) -> None:
    if cursor.connection.in_transaction:  # an interrupt came in the middle of the last rollback
        cursor.execute("ROLLBACK")
    until = time.monotonic() + connections.RETRY_FOR
    while True:
        try:
            cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(random.uniform(*RETRY_WAIT))  # noqa: S311 - jitter, no secret
        else:
            return


def _explain(error: BaseException) -> BaseException:
    """The error with advice; errors that are not SQLite's stay as they are."""
    if isinstance(error, StepwellError) or not isinstance(error, sqlite3.Error):
        return error
    if isinstance(error, sqlite3.IntegrityError):
        return error
    if is_busy(error):
        return StoreBusy(
            f"The database was locked by another writer for {connections.RETRY_FOR:g} s.",
            "Nothing was written; try again, or see who holds it (an open sqlite3 shell?).",
        )
    if (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_FULL:
        return StoreFull(
            "The database cannot grow: the disk is full.",
            "Nothing was written; make room, then resume the run.",
        )
    return StoreError(f"The database cannot be written: {error}.", "Try `stepwell db check`.")
