"""Copies of a database in use, putting one in its place, and reading what cannot be written."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from stepwell.errors import SchemaTooOld, StoreError
from stepwell.state.records import RunRow
from stepwell.store import Store, check, copies, schema


def ids(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as reader:
        return [row[0] for row in reader.execute("SELECT id FROM run ORDER BY number")]


def lost(file: Path, elsewhere: Path) -> Path:
    """The files of a database as a killed process leaves them: the last run is in the log only."""
    elsewhere.mkdir()
    for each in file.parent.glob(f"{file.name}*"):
        shutil.copy(each, elsewhere / each.name)
    return elsewhere / file.name


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_a_copy_has_what_is_in_the_log_only(
    store: Store, begin: Callable[..., RunRow], file: Path, tmp_path: Path
) -> None:
    run = begin()
    file.chmod(0o600)
    copies.copy(file, tmp_path / "copy.db")
    begin()
    assert ids(tmp_path / "copy.db") == [run.id]
    assert check.problems(tmp_path / "copy.db") == []
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert {n for n in names(tmp_path) if n.startswith("copy")} == {"copy.db"}
    store.check_in_place()


def test_a_copy_never_replaces_a_file(store: Store, file: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        copies.copy(file, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "mine"
    store.close()
    with pytest.raises(StoreError, match="does not exist"):
        copies.copy(tmp_path / "none.db", tmp_path / "other.db")


def test_a_restored_database_is_not_mixed_with_the_old_log(
    store: Store, begin: Callable[..., RunRow], file: Path, tmp_path: Path
) -> None:
    first = begin()
    copies.copy(file, tmp_path / "copy.db")
    second = begin()
    killed = lost(file, tmp_path / "killed")
    kept = copies.restore(tmp_path / "copy.db", killed)
    assert kept is not None
    assert ids(killed) == [first.id]
    assert check.problems(killed) == []
    assert ids(kept) == [first.id, second.id]  # with its own log


def test_a_damaged_database_is_replaced_and_a_missing_one_made(
    begin: Callable[..., RunRow], file: Path, tmp_path: Path
) -> None:
    run = begin()
    copies.copy(file, tmp_path / "copy.db")
    other = tmp_path / "data" / "other.db"
    assert copies.restore(tmp_path / "copy.db", other) is None
    assert ids(other) == [run.id]
    other.write_bytes(b"rubbish" * 1000)
    assert copies.restore(tmp_path / "copy.db", other) is not None
    assert ids(other) == [run.id]


def test_a_database_in_use_is_not_replaced(
    store: Store, begin: Callable[..., RunRow], file: Path, tmp_path: Path
) -> None:
    begin()
    copies.copy(file, tmp_path / "copy.db")
    before = names(tmp_path)
    code = (
        "import sys; from pathlib import Path; from stepwell.store import copies\n"
        "copies.restore(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "copy.db"), str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "is in use; nothing was changed" in ended.stderr
    assert names(tmp_path) == before
    begin()
    store.close()
    subprocess.run(command, check=True)
    assert len(ids(file)) == 1


def test_a_damaged_copy_is_not_restored(
    begin: Callable[..., RunRow], file: Path, tmp_path: Path
) -> None:
    begin()
    copies.copy(file, tmp_path / "copy.db")
    with (tmp_path / "copy.db").open("r+b") as damaged:
        damaged.seek(4096)
        damaged.write(b"\xff" * 8192)
    other = tmp_path / "other.db"
    with pytest.raises(StoreError, match=r"damaged|cannot be restored"):
        copies.restore(tmp_path / "copy.db", other)
    assert not other.exists()


def test_an_older_schema_is_read_from_a_copy_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    with closing(sqlite3.connect(file)) as made:
        made.executescript(Path(__file__).with_name("version_1.sql").read_text("utf-8"))
    before = file.read_bytes()
    with pytest.raises(SchemaTooOld, match=r"schema version 1.*db upgrade.*not touched"):
        Store(file)
    with copies.readable(file) as (shown, told), closing(Store(shown)) as store:
        assert "schema version 1" in told
        assert len(ids(store.file)) == 8
    assert file.read_bytes() == before
    assert names(tmp_path) == {"old.db"}
    assert schema.version(file) == 1


@pytest.fixture
def fixed(store: Store, begin: Callable[..., RunRow], file: Path) -> Iterator[Path]:
    """A folder with a database that another user cannot write."""
    begin()
    with TemporaryDirectory() as folder:
        copy = lost(file, Path(folder, "media"))
        store.close()
        Path(folder).chmod(0o755)
        for each in copy.parent.iterdir():
            each.chmod(0o444)
        copy.parent.chmod(0o555)
        yield copy
        copy.parent.chmod(0o755)


LOOK = """
import os, sys, tempfile
from pathlib import Path
from stepwell.errors import StoreError
from stepwell.machine import LIVE
from stepwell.store import copies, Store, check
with tempfile.TemporaryDirectory() as folder:  # imports what another user may not read
    Store(Path(folder, "a.db")).close()
    check.problems(Path(folder, "a.db"))
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
with copies.readable(Path(sys.argv[1])) as (shown, told):
    print(told)
    print(check.problems(shown))
    store = Store(shown)
    print(store.numbers(LIVE))
    store.close()
try:
    Store(Path(sys.argv[1]))
except StoreError as error:
    print(error.hint)
"""


@pytest.mark.parametrize("has_log", [True, False])
def test_a_database_that_cannot_be_written_can_be_read(fixed: Path, *, has_log: bool) -> None:
    fixed.parent.chmod(0o755)
    if not has_log:
        with closing(sqlite3.connect(fixed)) as writer:
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for end in ("-wal", "-shm"):
            Path(f"{fixed}{end}").unlink(missing_ok=True)
    fixed.parent.chmod(0o555)
    before = names(fixed.parent)
    environment = {**os.environ, "TMPDIR": "/tmp"}  # noqa: S108 - one that any user may write
    command = [sys.executable, "-c", LOOK, str(fixed)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    told = ended.stdout.splitlines()
    assert told[1:3] == ["[]", "[1]"], ended.stderr
    assert has_log or "to continue its runs, copy it" in told[3]
    assert f"{fixed} is read-only." in ended.stdout
    assert ("may be missing" in ended.stdout) is not has_log
    assert names(fixed.parent) == before
