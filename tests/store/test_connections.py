"""Connections: what SQLite must promise, which file is opened, many processes, and forks."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import OperationalError

import stepwell
from stepwell import Agent, Reply, ScriptedModel
from stepwell.errors import ConfigurationError, StoreError
from stepwell.state.records import RunRow
from stepwell.store import Store, check, connections
from tests.processes import crowd, output, python

FORKS = Path(__file__).parent / "forks.py"


def count(file: Path) -> int:
    with closing(sqlite3.connect(file)) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        ((runs,),) = reader.execute("SELECT count(*) FROM run")
        return int(runs)


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_the_writer_survives_a_power_loss(file: Path) -> None:
    with closing(connections.writing(file, "full")) as writer:
        assert pragma(writer, "journal_mode") == "wal"
        assert pragma(writer, "synchronous") == 2
        assert pragma(writer, "fullfsync") == 1
        assert pragma(writer, "foreign_keys") == 1
    with closing(connections.writing(file, "normal")) as writer:
        assert pragma(writer, "synchronous") == 1


def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises(StoreError, match="readonly"), store.reading() as connection:
        connection.execute(text("DELETE FROM run"))


def test_a_reader_makes_no_file_where_the_database_has_gone(tmp_path: Path) -> None:
    file = tmp_path / "odd ?%#.db"
    Store(file).close()
    reader = connections.reading(file)
    with reader.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM run")).scalar_one() == 0
    reader.dispose()
    file.rename(tmp_path / "elsewhere")
    with pytest.raises(OperationalError, match="unable to open"), reader.begin():
        pass
    assert not file.exists()


def test_a_reader_sees_one_state_of_the_database(
    store: Store, begin: Callable[..., RunRow]
) -> None:
    begin()
    with store.reading() as connection:
        seen = [connection.execute(text("SELECT count(*) FROM run")).scalar()]
        begin()
        seen.append(connection.execute(text("SELECT count(*) FROM run")).scalar())
    assert seen == [1, 1]
    assert count(store.file) == 2


@pytest.mark.parametrize("name", ["a b.db", "100%25.db", "a?b=c.db", "a#b.db", "größe.db", "':.db"])
def test_any_name_of_a_file_is_meant_literally(tmp_path: Path, name: str) -> None:
    Store(tmp_path / name).close()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_file_is_the_same_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(Store(Path("data/runs.db"))) as store:
        monkeypatch.chdir("/")
        assert store.file == tmp_path / "data/runs.db"
        assert store.owned() == []


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be created"):
        Store(tmp_path / "file" / "runs.db")
    with pytest.raises(StoreError, match="cannot be"):
        Store(tmp_path)  # a folder


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://localhost/x", "sqlite://", "sqlite:///", "sqlite:///:memory:", "x://", "",
        ":memory:", "sqlite:runs.db", "sqlite:/runs.db", "sqlite://runs.db",
        "sqlite:///x.db?mode=memory", "sqlite:///file:x.db?uri=true", "sqlite:///file::memory:?cache=shared",
        "~nobody-has-this-name/x.db", "sqlite:///~nobody-has-this-name/x.db", "a\0b", "a\ud800b",
        "x" * 256, "x" * 250, "x/" * 3000, "/dev/null",
    ],
)  # fmt: skip
def test_a_location_that_cannot_be_a_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        connections.database_file(url)
    assert len(str(refused.value)) < 400


def test_a_folder_is_not_a_database(tmp_path: Path) -> None:
    for location in (tmp_path, str(tmp_path), f"sqlite:///{tmp_path}"):
        with pytest.raises(ConfigurationError, match="is a folder"):
            connections.database_file(location)


NAMES = [
    "A%41", "repo_feature%2Flogin", "what?now", "a#b", "file:x", "q?mode=memory", "x?a=b&c", "ü",
    "sp ace", "a;b", "+", "~x", "not\udcffutf8",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_path_is_taken_literally(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    workflow = Agent("w", model=ScriptedModel([Reply("x")]))
    folder = tmp_path / name
    locations: list[str | Path] = [
        folder / "runs.db", str(folder / "runs.db"), f"sqlite:///{folder}/runs.db",
        Path(f"{name}.db"), f"./{name}.db",
    ]  # fmt: skip
    for location in locations:
        with stepwell.Engine(location, workflows=[workflow]) as engine:
            engine.run("w", "x")
    assert check.problems(folder / "runs.db") == []
    assert {path.name for path in tmp_path.iterdir()} == {name, f"{name}.db"}
    assert [path.name for path in folder.iterdir()] == ["runs.db"]
    with stepwell.Engine(folder / "runs.db") as engine:
        assert len(engine.runs()) == 3


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for location in ("~/x.db", "sqlite:///~/x.db", Path("~/x.db")):
        assert connections.database_file(location) == tmp_path / "x.db"
    assert connections.database_file("./~x.db") == Path("~x.db")


def test_a_file_system_without_write_ahead_logging_is_refused(file: Path) -> None:
    """C13: SQLite's own dot-file locking stands for a network file system: no shared memory."""

    def connect(_dialect: Any, _record: Any, arguments: list[str], options: dict[str, Any]) -> Any:
        return sqlite3.connect(f"file:{arguments[0]}?vfs=unix-dotfile", **options | {"uri": True})

    event.listen(Engine, "do_connect", connect)
    try:
        with pytest.raises(StoreError, match=r"write-ahead.*answers 'delete'.*local disk"):
            Store(file)
    finally:
        event.remove(Engine, "do_connect", connect)


def test_a_file_that_somebody_keeps_for_himself_is_refused(file: Path) -> None:
    Store(file).close()
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("UPDATE run SET state = state")
        with pytest.raises(StoreError, match="locked"):
            Store(file)
    Store(file).close()


def test_a_deferred_transaction_would_fail_at_once(file: Path) -> None:
    """C11, the trap that the writer avoids by BEGIN IMMEDIATE; SQLite does not even wait."""
    Store(file).close()
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as one:
        one.execute("BEGIN")
        one.execute("SELECT count(*) FROM run").fetchone()
        with closing(sqlite3.connect(file)) as two, two:
            two.execute("UPDATE worker SET pid = 1")
            two.execute("INSERT INTO worker VALUES (1, 'h', 'b', 'n', 1, 1, 1)")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            one.execute("UPDATE worker SET pid = 2")


def test_processes_that_write_at_once_all_get_their_turn(file: Path) -> None:
    """C11: no error reaches anybody, nothing is lost, nobody starves."""
    Store(file).close()
    written = [int(number) for (number,) in crowd(3, "submit", file, 2)]
    assert count(file) == sum(written)
    assert min(written) > max(written) / 10


def test_a_file_can_be_opened_while_its_last_user_closes_it(file: Path) -> None:
    """Closing needs the whole file for a moment, which a new user must sit out."""
    Store(file).close()
    assert crowd(3, "reopen", file, 2) == [["well"]] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("what", ["share", "outlive", "busy"])
def test_a_fork_loses_nothing(file: Path, what: str) -> None:
    """C14, see `forks.py` for what the processes do."""
    expected = int(output(python("-W", "ignore", FORKS, what, file)))
    assert count(file) == expected
    assert list(file.parent.iterdir()) == [file]
