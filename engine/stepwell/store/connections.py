"""Connections to one SQLite file: any number of readers, one writer."""

import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from stepwell.errors import ConfigurationError, StoreError

READER_WAIT = 5.0
RETRY_FOR = 5.0
RETRY_WAIT = 0.002


def database_file(url: str) -> Path:
    """The file that a database URL, or a plain path, names.

    Raises:
        ConfigurationError: it names no SQLite file.
    """
    if "://" not in url:
        url = f"sqlite:///{url}"
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigurationError(f"{url!r} is no database URL.") from error
    if parsed.get_backend_name() != "sqlite" or not parsed.database or ":memory:" in url:
        raise ConfigurationError(
            f"Runs cannot be kept in {parsed.render_as_string(hide_password=True)!r}.",
            "Name an SQLite file, such as sqlite:///runs.db.",
        )
    return Path(parsed.database)


def reading(file: Path) -> Engine:
    """Short, deferred, read-only transactions, each seeing one state of the database.

    It is never created here: a reader that opens it just after it was moved away would leave an
    empty one in its place.
    """
    existing = URL.create(
        "sqlite",
        database=f"file:{quote(str(file.absolute()))}",
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
        raise StoreError(f"The database {file} cannot be opened: {error}.") from error
    try:
        _set_journal(connection, file)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA fullfsync=ON")
        connection.execute("PRAGMA foreign_keys=ON")
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise StoreError(f"The database {file} cannot be opened: {error}.") from error
        raise
    return connection


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
