"""One SQLite file as a process has it open: readers, one writer, nothing open across a fork."""

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
        file: the SQLite file; it and its folder are made where they are missing.
        synchronous: SQLite's pragma of that name.

    Raises:
        SchemaTooNew, StoreError: the file cannot be used; it was not touched.
    """

    def __init__(self, file: Path, synchronous: str = "full") -> None:
        self.file = file.absolute()
        self._synchronous = synchronous
        self._left_behind: list[object] = []
        schema.check(file)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{file.parent} cannot be made: {error.strerror}.") from error
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
        self._committer: Committer | None = Committer(writer, self._writer, self._gate)
        self._identity = _identity(self.file)
        process_fork.watch(self)

    def _begin_anew(self) -> None:
        self._gate = process_fork.Gate()
        self._starting = threading.RLock()
        self._committer = None
        self._reader = connections.reading(self.file)

    def _writer(self) -> sqlite3.Connection:
        return connections.writing(self.file, self._synchronous)

    def close(self) -> None:
        """Finish what is being written and close the file."""
        if self._committer is not None:
            self._committer.close()
        self._reader.dispose()

    def before_fork(self) -> None:
        """No connection may be open meanwhile, see `forking`."""
        self._gate.shut()
        if self._committer is not None:
            self._committer.disconnect()
        self._reader.dispose()

    def after_fork(self) -> None:
        """The next reader and the next writer connect again."""
        self._gate.open()

    def in_child(self) -> None:
        """The child has connections of its own, and is a worker of its own."""
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
            raise StoreError(f"The database {self.file} cannot be read: {why}.") from error

    def check_in_place(self) -> None:
        """Make sure that the file by this name is still the one that is written to.

        Raises:
            DatabaseMoved: it was moved away, deleted or replaced.
        """
        if _identity(self.file) != self._identity:
            raise DatabaseMoved(
                f"The database {self.file} was moved away or replaced under this process.",
                "Put it back, or start the process again; what it wrote went to the moved file.",
            )

    def shorten_log(self) -> None:
        """Empty the write-ahead log, if it has become long: for when nothing else is to do."""
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
                self._committer = Committer(self._writer(), self._writer, self._gate)
            return self._committer


def _identity(file: Path) -> tuple[int, int] | None:
    """Which file that is, whatever it is called."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
