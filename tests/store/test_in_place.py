"""A process notices that its database or log is not the one that others open, before it acts."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel, tool
from stepwell.errors import DatabaseMoved
from stepwell.settings import Settings
from stepwell.state.records import RunRow
from stepwell.store import Store

FILES = {"": "was moved away", "-wal": "log of the database", "-shm": "log of the database"}


@pytest.mark.parametrize("end", FILES)
def test_a_write_reports_that_a_file_was_removed(
    store: Store, begin: Callable[..., RunRow], file: Path, end: str
) -> None:
    begin()
    Path(f"{file}{end}").unlink()
    for _ in range(2):
        with pytest.raises(DatabaseMoved, match=FILES[end]):
            begin()
    with pytest.raises(DatabaseMoved, match=FILES[end]):
        store.check_in_place()


def test_a_write_reports_that_the_log_was_replaced(
    begin: Callable[..., RunRow], file: Path
) -> None:
    begin()
    log = Path(f"{file}-wal")
    kept = log.read_bytes()
    log.unlink()
    log.write_bytes(kept)
    with pytest.raises(DatabaseMoved, match="log of the database"):
        begin()


def test_a_long_log_that_is_emptied_is_still_the_log(
    store: Store, begin: Callable[..., RunRow], file: Path
) -> None:
    begin()
    begin(input="x" * 2**21)
    store.shorten_log()
    assert Path(f"{file}-wal").stat().st_size == 0
    begin()


@pytest.mark.parametrize("end", FILES)
def test_no_further_effect_happens_once_a_file_is_gone(tmp_path: Path, end: str) -> None:
    file, effects = tmp_path / "runs.db", list[int]()

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        effects.append(amount)
        if amount == 1:
            Path(f"{file}{end}").unlink()
        return "paid"

    script = [Reply(calls=[("pay", {"amount": n})]) for n in (1, 2)]
    agent = Agent("w", tools=[pay], model=ScriptedModel([*script, Reply("Done.")]))
    began = time.monotonic()
    with (
        pytest.raises(DatabaseMoved, match=FILES[end]),
        Engine(file, workflows=[agent], settings=Settings(synchronous="off")) as engine,
    ):
        engine.run("w", "Go.")
    assert effects == [1]
    assert time.monotonic() - began < 10  # it is not tried again until the lease ends


def test_another_process_that_opens_the_database_does_not_disturb(
    begin: Callable[..., RunRow], file: Path
) -> None:
    begin()
    with closing(Store(file)) as other:
        other.worker()
    begin()


def test_a_database_is_known_by_the_file_that_a_link_names(tmp_path: Path) -> None:
    file, link = tmp_path / "data" / "runs.db", tmp_path / "link.db"
    Store(file).close()
    link.symlink_to(file)
    with closing(Store(link)) as store:
        store.worker()
        assert store.file == file
        assert Path(f"{file}-wal").exists()
        store.check_in_place()


def test_locks_dropped_by_a_tool_that_opens_the_file_are_noticed(
    begin: Callable[..., RunRow], file: Path
) -> None:
    """Closing any descriptor of a file drops this process's locks on it; see fcntl(2)."""
    begin()
    file.read_bytes()
    code = "import sys; from pathlib import Path; from stepwell.store import Store\n"
    code += "store = Store(Path(sys.argv[1])); store.worker(); store.close()"
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
    if Path(f"{file}-wal").exists():
        pytest.skip("another process did not take itself for the last one")
    with pytest.raises(DatabaseMoved, match="log of the database"):
        begin()
