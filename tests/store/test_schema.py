"""The schema's version: made once, brought up to date after a copy, or refused untouched."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from stepwell.errors import SchemaTooNew, StoreError
from stepwell.state.records import RunRow
from stepwell.store import Store, connections, schema, tables
from stepwell.store.migrations import MIGRATIONS
from stepwell.store.views import VIEWS
from tests.processes import crowd, output, python

NEWEST = schema.newest()


def add_colour(operations: Any) -> None:
    operations.add_column("run", sa.Column("colour", sa.String))


def rebuild(operations: Any) -> None:
    """SQLite alters little: Alembic copies the table that others refer to."""
    with operations.batch_alter_table("run") as run:
        run.alter_column("colour", new_column_name="shade")
        run.alter_column("user", type_=sa.String(100))


def fail(operations: Any) -> None:
    operations.drop_table("note")
    raise ValueError("no")


@contextmanager
def writing(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(connections.writing(file, "full")) as writer:
        yield writer


@contextmanager
def looking(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file)) as reader:
        yield reader


def described(file: Path) -> list[Any]:
    with looking(file) as reader:
        return reader.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Neither the bytes nor the time of any file change, and none is left behind."""

    def state() -> dict[str, Any]:
        return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}

    before = state()
    yield
    assert state() == before


def test_a_fresh_database_has_every_table_view_and_index(file: Path) -> None:
    with closing(Store(file)) as store:
        assert store.backup is None
    names = {name for name, _ in described(file)}
    assert names >= {table.name for table in tables.ALL} | set(VIEWS) | {"run_due", "run_owned"}
    assert schema.version(file) == NEWEST
    with looking(file) as reader:
        assert reader.execute("PRAGMA application_id").fetchone() == (schema.APPLICATION_ID,)
        for view in VIEWS:
            reader.execute(f"SELECT * FROM {view}")  # noqa: S608 - ours


def test_the_schema_is_not_left_in_the_log(file: Path) -> None:
    with closing(Store(file)):
        alone = file.with_name("alone.db")
        alone.write_bytes(file.read_bytes())
    with looking(alone) as reader:
        assert reader.execute("SELECT count(*) FROM run").fetchone() == (0,)


def test_children_of_a_run_are_kept_by_its_number(file: Path) -> None:
    Store(file).close()
    sql = dict(described(file))
    for name in ("transition", "message", "call", "approval", "note"):
        assert "WITHOUT ROWID" in sql[name], name


def test_opening_again_changes_nothing(file: Path) -> None:
    Store(file).close()
    with untouched(file.parent):
        Store(file).close()


def test_four_processes_may_create_it_at_once(file: Path) -> None:
    assert crowd(4, "create", file) == [[], [], [], []]
    other = file.with_name("other.db")
    Store(other).close()
    assert described(file) == described(other)


def test_an_empty_file_becomes_a_database(file: Path) -> None:
    file.touch()
    Store(file).close()
    assert schema.version(file) == NEWEST


def test_a_newer_schema_is_refused_untouched(file: Path) -> None:
    Store(file).close()
    with looking(file) as other:
        other.execute(f"PRAGMA user_version={NEWEST + 1}")
    with untouched(file.parent), pytest.raises(SchemaTooNew, match=r"Upgrade.*not touched"):
        Store(file)


def test_a_newer_schema_is_refused_while_somebody_writes_to_it(file: Path) -> None:
    Store(file).close()
    with looking(file) as other:  # the version is in the log only
        other.execute(f"PRAGMA user_version={NEWEST + 1}")
        with pytest.raises(SchemaTooNew):
            Store(file)
    assert schema.version(file) == NEWEST + 1


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_database_of_somebody_else_is_refused_untouched(file: Path, journal: str) -> None:
    with looking(file) as other:
        other.execute(f"PRAGMA journal_mode={journal}")
        other.execute("CREATE TABLE theirs (x)")
    with untouched(file.parent), pytest.raises(StoreError, match="not a Stepwell database"):
        Store(file)


def test_what_is_no_database_is_refused_untouched(file: Path) -> None:
    file.write_text("Dear diary, " * 100)
    with untouched(file.parent), pytest.raises(StoreError, match="not a database"):
        Store(file)


def test_an_older_schema_is_brought_up_to_date_after_a_copy(
    store: Store, file: Path, begin: Callable[..., RunRow]
) -> None:
    begin(user="ann")
    store.close()
    old = described(file)
    with writing(file) as writer:
        backup = schema.prepare(writer, file, (*MIGRATIONS, add_colour, rebuild))
        assert writer.execute("PRAGMA foreign_keys").fetchone() == (1,)
        assert writer.execute("SELECT user, shade FROM run").fetchall() == [("ann", None)]
    assert backup == file.with_name(f"runs.db.v{NEWEST}.backup")
    assert schema.version(file) == NEWEST + 2
    assert (schema.version(backup), described(backup)) == (NEWEST, old)
    with looking(file) as reader:
        assert reader.execute("SELECT user FROM run_overview").fetchall() == [("ann",)]
        assert reader.execute("PRAGMA foreign_key_check").fetchall() == []
    with looking(backup) as reader:
        assert reader.execute("SELECT user FROM run").fetchall() == [("ann",)]


def test_a_migration_that_fails_changes_nothing(
    store: Store, file: Path, begin: Callable[..., RunRow]
) -> None:
    begin()
    store.close()
    old = described(file)
    with writing(file) as writer:
        with pytest.raises(ValueError, match="no"):
            schema.prepare(writer, file, (*MIGRATIONS, add_colour, fail))
        assert not writer.in_transaction
    assert (schema.version(file), described(file)) == (NEWEST, old)


def test_a_migration_that_loses_rows_is_undone(
    store: Store, file: Path, begin: Callable[..., RunRow]
) -> None:
    begin()
    store.close()
    with writing(file) as writer, pytest.raises(StoreError, match="without their parent"):
        schema.prepare(writer, file, (*MIGRATIONS, lambda ops: ops.execute("DELETE FROM run")))
    assert schema.version(file) == NEWEST
    with looking(file) as reader:
        assert reader.execute("SELECT count(*) FROM run").fetchone() == (1,)


def test_nothing_that_is_slow_to_import_is_imported_to_open_one(file: Path) -> None:
    code = """
import sys
from pathlib import Path
from stepwell.store import Store
Store(Path(sys.argv[1])).close()
print("alembic" in sys.modules)
"""
    assert output(python("-c", code, file)) == "False\n"
    assert list(file.parent.iterdir()) == [file]


def columns(file: Path) -> dict[str, Any]:
    """What tables, columns, keys and indexes there are, however they came about."""
    with looking(file) as reader:
        tables_ = reader.execute("SELECT name, wr FROM pragma_table_list WHERE type = 'table'")
        return {
            name: (
                without_rowid,
                sorted(row[1:] for row in reader.execute(f"PRAGMA table_info({name})")),
                reader.execute(f"PRAGMA foreign_key_list({name})").fetchall(),
                sorted(row[1:] for row in reader.execute(f"PRAGMA index_list({name})")),
            )
            for name, without_rowid in tables_.fetchall()
            if not name.startswith("sqlite_")
        }
