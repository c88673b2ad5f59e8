"""Connections to one SQLite file: any number of readers, one writer."""

import errno
import os
import re
import sqlite3
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from stepwell.errors import ConfigurationError, StoreError

READER_WAIT = 5.0
RETRY_FOR = 5.0
RETRY_WAIT = 0.002
LONGEST_SHOWN = 200
FILES = 4  # the database, its log, the log's index, and one more
_EXAMPLE = "Name an SQLite file, such as sqlite:///runs.db."
_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///(.*)", re.DOTALL)
_SCHEME = re.compile(r"(sqlite(?=:)|[A-Za-z][\w+.-]*(?=://))")
_NOT_SEEN = (FileNotFoundError, NotADirectoryError, PermissionError)
# At the end of a URL; a folder named "what?now=1" is followed by a slash.
_OPTIONS = re.compile(r"\?\w+=[^/]*\Z")


def database_file(location: str | Path) -> Path:
    """The file that a database URL or a path names.

    A path is taken literally: `%`, `?` and `#` are characters of a name. A leading `~` is the
    user's home folder.

    Raises:
        ConfigurationError: it cannot name an SQLite file.
    """
    path = str(location) if isinstance(location, Path) else _path(location)
    if path in {"", ":memory:"}:
        raise ConfigurationError("Runs cannot be kept in memory.", _EXAMPLE)
    file = Path(_expanded(path))
    shown = repr(path if len(path) <= LONGEST_SHOWN else f"{path[:LONGEST_SHOWN]}…")
    try:
        kind = _kind(file)
    except ValueError as error:  # a NUL, or half a character
        why = "a file name cannot contain all of these characters"
        raise ConfigurationError(f"The database path {shown} is not valid: {why}.") from error
    except OSError as error:
        why = str(error.strerror)
        raise ConfigurationError(f"The database path {shown} is not valid: {why}.") from error
    if kind not in {0, stat.S_IFREG}:
        what = "a folder" if kind == stat.S_IFDIR else "not a regular file"
        raise ConfigurationError(f"The database path {shown} is {what}.", _EXAMPLE)
    return file


def _path(url: str) -> str:
    """The path in an SQLite URL; anything that does not look like a URL is a path itself."""
    found = _SQLITE.fullmatch(url)
    if found is None:
        scheme = _SCHEME.match(url)
        if scheme is None:
            return url
        kept = scheme[1] if scheme[1] != "sqlite" else url
        raise ConfigurationError(f"Runs cannot be kept in {kept!r}.", _EXAMPLE)
    if options := _OPTIONS.search(found[1]):
        raise ConfigurationError(
            f"The database URL has options, which are not supported: {options[0]}",
            "Leave them out. If they are part of the file's name, give a path instead of a URL.",
        )
    return found[1]


def _expanded(path: str) -> str:
    expanded = os.path.expanduser(path)  # noqa: PTH111 - Path would take "./~" for "~"
    user, slash, _ = path.partition("/")
    if slash and user.startswith("~") and expanded == path:
        raise ConfigurationError(
            f"The database path begins with {user!r}, but there is no such user.", _EXAMPLE
        )
    return expanded


def _kind(file: Path) -> int:
    """The kind of file that is there; 0 if there is none, or none that can be seen."""
    with suppress(*_NOT_SEEN):
        file.with_name(f"{file.name}-journal").stat()  # the longest name that SQLite needs
    with suppress(*_NOT_SEEN):
        return stat.S_IFMT(file.stat().st_mode)
    return 0


def reading(file: Path) -> Engine:
    """Short, deferred, read-only transactions, each seeing one state of the database.

    It is never created here: a reader that opens it just after it was moved away would leave an
    empty one in its place.
    """
    existing = URL.create(
        "sqlite",
        database=f"file:{quote(os.fsencode(file.absolute()))}",
        query={"uri": "true", "mode": "rw"},
    )
    engine = create_engine(existing, connect_args={"timeout": READER_WAIT})

    @event.listens_for(engine, "connect")
    def _connect(connection: DBAPIConnection, _record: object) -> None:
        _plain(connection).execute("PRAGMA query_only=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def writing(file: Path, synchronous: str) -> sqlite3.Connection:
    """The writer's connection, used by one thread at a time.

    Raises:
        StoreError: the file cannot be opened, or not as safely as runs need it.
    """
    # No busy handler: the committer waits in its own, fairer way.
    arguments = {"timeout": 0, "check_same_thread": False}
    engine = create_engine(_url(file), poolclass=NullPool, connect_args=arguments)
    try:
        borrowed = engine.raw_connection()
        connection = _plain(borrowed.driver_connection)
        borrowed.detach()  # ours alone from here: the pool forgets it
    except (sqlite3.Error, SQLAlchemyError) as error:
        raise _not_opened(file, error) from error
    try:
        _set_journal(connection, file)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA fullfsync=ON")
        connection.execute("PRAGMA foreign_keys=ON")
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise _not_opened(file, error) from error
        raise
    return connection


def is_writable(file: Path) -> bool:
    """Whether a database can be written: its log is created in its folder."""
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


def unreadable(file: Path, error: object) -> StoreError:
    """The error for a database that SQLite does not read, with the reason SQLite does not give."""
    hint = _descriptors(error)
    return StoreError(f"The database {file} cannot be read: {error}.", hint)


def _descriptors(error: object) -> str:
    """Advice if the process may open no more files; SQLite only says "unable to open"."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CANTOPEN:
        return ""
    opened: list[int] = []
    try:
        opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(FILES))
    except OSError as refused:
        if refused.errno in {errno.EMFILE, errno.ENFILE}:
            return "This process has too many files open: close some, or raise `ulimit -n`."
    finally:
        for number in opened:
            os.close(number)
    return ""


def _not_opened(file: Path, error: Exception) -> StoreError:
    hint = _descriptors(error)
    if file.exists() and not is_writable(file):
        hint = (
            "It is read-only. Commands that only look can read it; to continue its runs, copy it."
        )
    return StoreError(f"The database {file} cannot be opened: {error}.", hint)


def _url(file: Path) -> URL:
    """Built, not parsed: a file's name may hold "?" and "%"."""
    return URL.create("sqlite", database=str(file))


def _plain(connection: Any) -> sqlite3.Connection:
    """Transactions begin and end only where we say so, not where the driver guesses."""
    assert isinstance(connection, sqlite3.Connection)  # noqa: S101 - what the dialect connects
    connection.isolation_level = None
    return connection


def _set_journal(connection: sqlite3.Connection, file: Path) -> None:
    """Write-ahead logging, or a clear refusal: some network file systems cannot do it."""
    (mode,) = _patiently(connection, "PRAGMA journal_mode")
    if mode != "wal":
        (mode,) = _patiently(connection, "PRAGMA journal_mode=WAL")
    if mode != "wal":
        raise StoreError(
            f"The database {file} cannot use write-ahead logging (SQLite answers {mode!r}).",
            "Keep it on a local disk: network file systems do not support this.",
        )


def _patiently(connection: sqlite3.Connection, query: str) -> Any:
    """The first row, waiting while others set the file up, or close it as its last user."""
    until = time.monotonic() + RETRY_FOR
    while True:
        try:
            return connection.execute(query).fetchone()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(RETRY_WAIT)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the database, so that trying again may help."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def resolved(file: Path) -> Path:
    """The file itself, absolute: SQLite keeps the log beside it, not beside a link to it."""
    try:
        return file.resolve()
    except (OSError, RuntimeError) as error:  # a link that leads back to itself
        raise StoreError(f"The database {file} cannot be found: {error}.") from error
