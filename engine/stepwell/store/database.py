"""One SQLite file in one process: readers, one writer, and nothing open across a fork."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from stepwell.errors import DatabaseMoved, StoreError
from stepwell.store import connections, process_fork, schema
from stepwell.store.committer import Committer

T = TypeVar("T")
# Bytes. SQLite itself empties the log from 4 MB on, but never makes the file smaller.
LONG_LOG = 2**20


class Database:
    """Short reads and committed writes of one file, from any thread.

    Args:
        file: the SQLite file; it and its folder are created if they are missing.
        synchronous: SQLite's pragma of that name.
        upgrade: whether an older schema is brought to this version, after a copy.

    Raises:
        SchemaTooNew, SchemaTooOld, StoreError: the file cannot be used; it was not touched.
    """

    def __init__(self, file: Path, synchronous: str = "full", *, upgrade: bool = False) -> None:
        self.file = connections.resolved(file)
        self._name = str(self.file)  # quicker to look up than a Path
        self._beside = (f"{self.file}-wal", f"{self.file}-shm")
        self._synchronous = synchronous
        self._left_behind: list[object] = []
        schema.may_open(self.file, upgrade=upgrade)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{file.parent} cannot be created: {error.strerror}.") from error
        self._begin_anew()
        writer = self._writer()
        try:
            self.backup = schema.prepare(writer, self.file)
        except sqlite3.Error as error:
            writer.close()
            raise StoreError(f"The database {file} cannot be set up: {error}.") from error
        except BaseException:
            writer.close()
            raise
        self._identity = _identity(self._name)
        self._committer: Committer | None = self._committing(writer)
        process_fork.watch(self)

    def _begin_anew(self) -> None:
        self._gate = process_fork.ForkGate()
        self._starting = threading.RLock()
        self._committer = None
        self._reader = connections.reading(self.file)

    def _writer(self) -> sqlite3.Connection:
        self._log: tuple[object, ...] | None = None
        return connections.writing(self.file, self._synchronous)

    def _committing(self, writer: sqlite3.Connection) -> Committer:
        return Committer(writer, self._writer, self._gate, self._check_committed)

    def close(self) -> None:
        """Finish the writes in progress and close the file."""
        if self._committer is not None:
            self._committer.close()
        self._reader.dispose()

    def before_fork(self) -> None:
        """Close all connections until the fork is over; see `process_fork`."""
        self._gate.shut()
        if self._committer is not None:
            self._committer.disconnect()
        self._reader.dispose()

    def after_fork(self) -> None:
        """The next reader and the next writer connect again."""
        self._gate.open()

    def in_child(self) -> None:
        """Give the child its own connections, and its own entry as a worker."""
        self._left_behind += [self._committer, self._reader]  # closing is not for the child
        self._begin_anew()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A short transaction that sees one state of the database and changes nothing.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            with self._gate, self._reader.begin() as connection:
                yield connection
        except (DBAPIError, sqlite3.Error) as error:
            why = error.orig if isinstance(error, DBAPIError) else error
            raise connections.unreadable(self.file, why) from error

    def check_in_place(self) -> None:
        """Make sure that the files by these names are still the ones that are written to.

        Raises:
            DatabaseMoved: the database or its log was moved away, deleted or replaced.
        """
        if _identity(self._name) != self._identity:
            raise DatabaseMoved(
                f"The database {self.file} was moved away or replaced under this process.",
                "Put it back, or start the process again. Its last writes went to the moved file.",
            )
        if self._log is not None and (self._log != self._log_files() or None in self._log):
            raise DatabaseMoved(
                f"The log of the database {self.file} was removed or replaced under this process.",
                "Start the process again; the last transitions it recorded may be lost. Never "
                "remove the -wal and -shm files of a database in use, or open it as a plain file.",
            )

    def _check_committed(self) -> None:
        """Check after a commit, before anything relies on it; see `check_in_place`."""
        if self._log is None:  # SQLite keeps these two files as long as the connection is open
            self._log = self._log_files()
        self.check_in_place()

    def _log_files(self) -> tuple[object, ...]:
        return tuple(_identity(name) for name in self._beside)

    def shorten_log(self) -> None:
        """Empty the write-ahead log if it is long; called when nothing else is to be done."""
        log = self.file.with_name(f"{self.file.name}-wal")
        if log.exists() and log.stat().st_size >= LONG_LOG:
            (self._committer or self._in_fork()).shorten_log()

    def write(self, operation: Callable[[sqlite3.Cursor], T]) -> T:
        """What `operation` returns, once it is committed; see `Committer`."""
        return (self._committer or self._in_fork()).run(operation)

    def _in_fork(self) -> Committer:
        """The committer of a process that was forked off, started when it first writes."""
        with self._starting:
            if self._committer is None:
                self._committer = self._committing(self._writer())
            return self._committer


def _identity(file: str) -> tuple[int, int] | None:
    """Which file that is, whatever its name is."""
    try:
        found = os.stat(file)  # noqa: PTH116 - on the path of every commit
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
