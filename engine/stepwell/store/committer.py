"""The one thread of a process that writes: whatever is waiting goes into one transaction."""

import random
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from stepwell.errors import StepwellError, StoreBusy, StoreError, StoreFull
from stepwell.store.connections import RETRY_FOR, is_busy
from stepwell.store.forking import Gate

T = TypeVar("T")
Operation = Callable[[sqlite3.Cursor], T]
_Item = tuple[Operation[Any], "Future[Any]"]

LONGEST_BATCH = 200
# SQLite's own busy handler starves one of several writers; short random waits share evenly.
RETRY_WAIT = (0.0003, 0.003)


class Committer:
    """Runs operations in transactions; a caller gets its answer only after COMMIT.

    An operation whose first statement changes no row must do nothing else: its neighbours in the
    transaction are committed all the same. One that raises undoes them all, and then each is
    tried alone. (Savepoints would not do: a full disk rolls back what is under them as well.)

    Args:
        connection: the one that writes; nobody else uses it.
        again: opens another one, after `disconnect`.
        gate: passed for every transaction.
    """

    def __init__(
        self, connection: sqlite3.Connection, again: Callable[[], sqlite3.Connection], gate: Gate
    ) -> None:
        self._cursor: sqlite3.Cursor | None = connection.cursor()
        self._again, self._gate = again, gate
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._log_is_long = False
        self._thread = threading.Thread(target=self._work, name="stepwell-committer", daemon=True)
        self._thread.start()

    def run(self, operation: Operation[T]) -> T:
        """What `operation` returns, once it is committed.

        Raises:
            StoreBusy, StoreFull, StoreError: nothing of it was written.
        """
        future: Future[T] = Future()
        with self._closing:  # what is put behind the end of the queue would wait for ever
            if self._closed:
                raise StoreError("The store is closed.")
            self._queue.put((operation, future))
        return future.result()

    def shorten_log(self) -> None:
        """Put what the log holds into the database, as soon as nothing waits to be written."""
        self._log_is_long = True
        self.run(lambda _cursor: None)

    def close(self) -> None:
        """Finish what is waiting, then stop."""
        with self._closing:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def disconnect(self) -> None:
        """Close the connection, while the gate is shut; the next transaction opens another one."""
        if self._cursor is not None:
            self._cursor.connection.close()
            self._cursor = None

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            with self._gate:
                try:
                    self._cursor = self._cursor or self._again().cursor()
                    self._commit(self._cursor, batch)
                except BaseException as error:  # noqa: BLE001 - each waiting caller gets it
                    _fail(batch, error)
                if self._log_is_long and self._queue.empty():
                    self._checkpoint()
        with self._gate:
            self.disconnect()

    def _checkpoint(self) -> None:
        self._log_is_long = False
        if self._cursor is not None:
            with suppress(sqlite3.Error):  # a reader holds it open: another time
                self._cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _take(self) -> list[_Item] | None:
        first = self._queue.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < LONGEST_BATCH:
            try:
                item = self._queue.get_nowait()
            except Empty:
                break
            if item is None:
                self._queue.put(None)
                break
            batch.append(item)
        return batch

    def _commit(self, cursor: sqlite3.Cursor, batch: list[_Item]) -> None:
        try:
            results = _transaction(cursor, [operation for operation, _ in batch])
        except Exception as error:
            if len(batch) == 1 or _is_busy(error):  # then it is nobody's fault
                raise
            for item in batch:
                try:
                    self._commit(cursor, [item])
                except Exception as own:  # noqa: BLE001 - its caller gets it
                    _fail([item], own)
        else:
            for (_, future), result in zip(batch, results, strict=True):
                future.set_result(result)


def _is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and is_busy(error)


def _fail(batch: list[_Item], error: BaseException) -> None:
    for _, future in batch:
        future.set_exception(_explain(error))


def _transaction(cursor: sqlite3.Cursor, operations: list[Operation[Any]]) -> list[Any]:
    _begin(cursor)
    try:
        results = [operation(cursor) for operation in operations]
        cursor.execute("COMMIT")
    except BaseException:
        if cursor.connection.in_transaction:
            cursor.execute("ROLLBACK")
        raise
    return results


def _begin(cursor: sqlite3.Cursor) -> None:
    until = time.monotonic() + RETRY_FOR
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
    """The same error in words that say what to do; others are passed on as they are."""
    if isinstance(error, StepwellError) or not isinstance(error, sqlite3.Error):
        return error
    if isinstance(error, sqlite3.IntegrityError):
        return error
    if is_busy(error):
        return StoreBusy(
            f"The database was locked by another writer for {RETRY_FOR:g} s.",
            "Nothing was written; try again, or see who holds it (an open sqlite3 shell?).",
        )
    if (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_FULL:
        return StoreFull(
            "The database cannot grow: the disk is full.",
            "Nothing was written; make room, then resume the run.",
        )
    return StoreError(f"The database cannot be written: {error}.", "Try `stepwell db check`.")
