"""The schema's version: created, upgraded, or refused before anything is written."""

import logging
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import StaticPool
from sqlalchemy.schema import CreateIndex, CreateTable

from stepwell.errors import SchemaTooNew, SchemaTooOld, StoreError
from stepwell.store import connections, tables
from stepwell.store.migrations import MIGRATIONS, Migration
from stepwell.store.views import VIEWS

# "STPW": marks a file as a Stepwell database.
APPLICATION_ID = 0x53545057


def newest(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """The version that this code reads and writes."""
    return len(migrations) + 1


def version(file: Path) -> int:
    """The schema version of a file, 0 for one that is empty or missing. Nothing is written.

    Raises:
        StoreError: it is not a Stepwell database, or cannot be read.
    """
    if not file.exists() or file.stat().st_size == 0:
        return 0
    try:
        with closing(reading(file)) as reader:
            return _version(reader, file)
    except sqlite3.Error as error:
        raise connections.unreadable(file, error) from error


def reading(file: Path) -> sqlite3.Connection:
    """A connection that leaves no file behind.

    A journal is left by a process that was killed while it created the database. Reading then
    undoes what that process had begun, which needs the right to write.
    """
    options = "mode=ro&immutable=1"
    if _beside(file, "-journal"):
        options = "mode=rw"
    elif _beside(file, "-wal"):
        options = "mode=ro"
    return sqlite3.connect(f"{file.absolute().as_uri()}?{options}", uri=True)


def _beside(file: Path, end: str) -> bool:
    return file.with_name(f"{file.name}{end}").exists()


def _version(connection: sqlite3.Connection, file: Path) -> int:
    # One statement sees the file as it is at one moment; another process may be creating it.
    ours, found, objects = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if ours != APPLICATION_ID and objects:
        raise StoreError(
            f"{file} is not a Stepwell database.", "Name another file; this one was not touched."
        )
    return int(found)


def check(file: Path, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """The version of a file, which may be older than this code's.

    Raises:
        SchemaTooNew: a newer Stepwell wrote it. The file was not touched.
    """
    found = version(file)
    if found > newest(migrations):
        raise SchemaTooNew(
            f"{file} has schema version {found}; this Stepwell knows {newest(migrations)}.",
            "Upgrade Stepwell; the file was not touched.",
        )
    return found


def may_open(file: Path, *, upgrade: bool, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Make sure that a file is new, or of this code's version, or may be brought to it.

    Raises:
        SchemaTooNew, SchemaTooOld: it may not be opened. The file was not touched.
    """
    found = check(file, migrations)
    if not upgrade and 0 < found < newest(migrations):
        raise SchemaTooOld(
            f"{file} has schema version {found}; this Stepwell works with {newest(migrations)}.",
            "Stop the workers of the older Stepwell, then run `stepwell db upgrade`. "
            "The file was not touched.",
        )


def prepare(
    connection: sqlite3.Connection, file: Path, migrations: Sequence[Migration] = MIGRATIONS
) -> Path | None:
    """Create the schema, or bring an older one to the newest version.

    Args:
        connection: the writer's.
        file: the database; `may_open` allowed it.
        migrations: how an older schema becomes the newest.

    Returns:
        the backup copy that was made before an older one was changed.
    """
    if version(file) == newest(migrations):
        return None
    connection.execute("PRAGMA busy_timeout=5000")
    connection.execute("PRAGMA foreign_keys=OFF")  # a migration may have to rebuild a table
    try:
        backup = _to_newest(connection, file, migrations)
        # From here on the log is overwritten, which costs less than extending it; and the file
        # alone is a complete database.
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    finally:
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA busy_timeout=0")
    return backup


def _to_newest(
    connection: sqlite3.Connection, file: Path, migrations: Sequence[Migration]
) -> Path | None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _version(connection, file)  # another process may have been first
        backup = None
        if found == 0:
            _create(connection)
        elif found < newest(migrations):
            backup = _back_up(file, found)
            with _quiet("alembic.runtime.migration", "alembic.runtime.plugins"):
                _migrate(connection, migrations[found - 1 :])
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={newest(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return backup


def _create(connection: sqlite3.Connection) -> None:
    dialect = sqlite.dialect()
    for table in tables.ALL:
        connection.execute(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda i: str(i.name)):
            connection.execute(str(CreateIndex(index).compile(dialect=dialect)))
    _make_views(connection)


def _make_views(connection: sqlite3.Connection) -> None:
    for name, query in VIEWS.items():
        connection.execute(f"DROP VIEW IF EXISTS {name}")
        connection.execute(f"CREATE VIEW {name} AS {query}")


def _back_up(file: Path, found: int) -> Path:
    copy = file.with_name(f"{file.name}.v{found}.backup")
    with closing(reading(file)) as source, closing(sqlite3.connect(copy)) as target:
        copy.chmod(file.stat().st_mode)  # the copy is no easier to read than the database
        source.backup(target)
    return copy


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Keep this thread's lines out of these loggers, without changing their configuration."""
    thread, loggers = threading.get_ident(), [logging.getLogger(name) for name in names]

    def is_other(record: logging.LogRecord) -> bool:
        return record.thread != thread

    for logger in loggers:
        logger.addFilter(is_other)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_other)


def _migrate(connection: sqlite3.Connection, steps: Sequence[Migration]) -> None:
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    for name in VIEWS:  # a view would forbid changes to the columns it reads
        connection.execute(f"DROP VIEW IF EXISTS {name}")
    engine = create_engine(
        "sqlite://",
        creator=lambda: connection,
        poolclass=StaticPool,
        skip_autocommit_rollback=True,  # the transaction is ours
    )
    with engine.connect() as borrowed:
        operations = Operations(MigrationContext.configure(borrowed))
        for step in steps:
            step(operations)
    engine.dispose(close=False)
    broken = connection.execute("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise StoreError(f"The migration would leave {len(broken)} rows without their parent.")
    _make_views(connection)
