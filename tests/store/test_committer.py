"""The committer: what is waiting shares a transaction, and nobody suffers from a neighbour."""

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from stepwell.errors import StoreBusy, StoreError, StoreFull
from stepwell.store import connections
from stepwell.store.committer import Committer
from stepwell.store.process_fork import ForkGate
from tests.processes import locked
from tests.tracing import tracing
from tests.waiting import eventually

Operation = Callable[[sqlite3.Cursor], Any]


@pytest.fixture
def statements() -> Iterator[list[str]]:
    with tracing() as traced:
        yield traced


@pytest.fixture
def committer(file: Path, statements: list[str]) -> Iterator[Committer]:
    def connect() -> sqlite3.Connection:
        return connections.writing(file, "full")

    made = Committer(connect(), connect, ForkGate(), lambda: None)
    made.run(lambda cursor: cursor.execute("CREATE TABLE t (x UNIQUE)"))
    yield made
    made.close()


def insert(value: object) -> Operation:
    return lambda cursor: cursor.execute(
        "INSERT INTO t VALUES (?) RETURNING x", (value,)
    ).fetchone()


def stored(file: Path) -> list[Any]:
    with closing(sqlite3.connect(file)) as reader:
        return [value for (value,) in reader.execute("SELECT x FROM t ORDER BY x")]


def together(committer: Committer, *operations: Operation) -> list[Future[Any]]:
    """Operations of several threads, one after the other while the committer is busy."""
    busy, go_on = threading.Event(), threading.Event()

    def hold(_cursor: sqlite3.Cursor) -> None:
        busy.set()
        go_on.wait(30)

    with ThreadPoolExecutor(len(operations) + 1) as threads:
        first = threads.submit(committer.run, hold)
        assert busy.wait(30)
        given = []
        for operation in operations:
            given.append(threads.submit(committer.run, operation))
            eventually(lambda: len(committer._queue) == len(given))
        go_on.set()
        wait([first, *given], timeout=60)
    assert first.exception() is None
    return given


def test_what_is_waiting_is_committed_together(
    committer: Committer, statements: list[str], file: Path
) -> None:
    statements.clear()
    answers = together(committer, *(insert(n) for n in range(20)))
    assert [answer.result() for answer in answers] == [(n,) for n in range(20)]
    assert statements.count("COMMIT") == 2  # the one that was busy, and all the others
    assert stored(file) == list(range(20))


def test_an_answer_means_that_it_is_committed(committer: Committer, file: Path) -> None:
    for n in range(10):
        committer.run(insert(n))
        assert n in stored(file)


def test_one_that_raises_undoes_nothing_of_its_neighbours(committer: Committer, file: Path) -> None:
    def fail(cursor: sqlite3.Cursor) -> None:
        cursor.execute("INSERT INTO t VALUES ('half')")
        raise ValueError("no")

    one, two, three, four = together(committer, insert(1), fail, insert(1), insert(2))
    assert isinstance(two.exception(), ValueError)
    assert isinstance(three.exception(), sqlite3.IntegrityError)
    assert (one.result(), four.result()) == ((1,), (2,))
    assert stored(file) == [1, 2]


def test_a_lock_is_waited_for(committer: Committer, file: Path) -> None:
    with locked(file) as other, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(committer.run, insert(1))
        eventually(lambda: committer._gate._inside)
        assert stored(file) == []
        other.kill()
        assert waiting.result(30) == (1,)


def test_a_lock_that_stays_is_an_error_for_all_who_wait(
    committer: Committer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RETRY_FOR", 0.3)
    with locked(file):
        began = time.monotonic()
        with ThreadPoolExecutor(20) as threads:
            waiting = [threads.submit(committer.run, insert(n)) for n in range(20)]
            errors = [one.exception(30) for one in waiting]
        assert time.monotonic() - began < 3  # not one after the other
    assert {type(error) for error in errors} == {StoreBusy}
    assert "Nothing was written" in str(errors[0])
    assert committer.run(insert(1)) == (1,)
    assert stored(file) == [1]


def test_a_full_disk_is_an_error_and_hurts_nobody_who_fits(
    committer: Committer, file: Path
) -> None:
    def limit(pages: int) -> Operation:
        return lambda cursor: cursor.execute(f"PRAGMA max_page_count={pages}").fetchone()

    committer.run(limit(10))
    big, small = together(committer, insert("x" * 200_000), insert("small"))
    assert isinstance(big.exception(), StoreFull)
    assert "make room" in str(big.exception())
    assert small.result() == ("small",)
    committer.run(limit(10_000))
    assert committer.run(insert("y" * 200_000))
    with closing(sqlite3.connect(file)) as reader:
        assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_closing_finishes_what_is_waiting(committer: Committer, file: Path) -> None:
    def close_soon(_cursor: sqlite3.Cursor) -> None:
        closing_.start()

    closing_ = threading.Thread(target=committer.close)
    answers = together(committer, insert(1), close_soon, insert(2))
    closing_.join(30)
    assert [answers[0].result(), answers[2].result()] == [(1,), (2,)]
    with pytest.raises(StoreError, match="closed"):
        committer.run(insert(3))
    assert stored(file) == [1, 2]


def test_an_interrupt_hurts_only_the_one_who_writes(committer: Committer, file: Path) -> None:
    interrupts = iter([KeyboardInterrupt()])

    def interrupted(_cursor: sqlite3.Cursor) -> None:
        for interrupt in interrupts:
            raise interrupt

    answers = together(committer, insert(1), interrupted, insert(2))
    hurt = [place for place, answer in enumerate(answers) if answer.exception()]
    assert len(hurt) == 1
    assert isinstance(answers[hurt[0]].exception(), KeyboardInterrupt)
    assert stored(file) == [n for place, n in ((0, 1), (2, 2)) if place not in hurt]


def test_an_interrupt_just_after_commit_repeats_nothing(
    committer: Committer, file: Path, statements: list[str]
) -> None:
    def profile(_frame: FrameType, event: str, _arg: object) -> None:
        if event == "c_return" and statements[-1] == "COMMIT":
            sys.setprofile(None)
            raise KeyboardInterrupt

    def begin(cursor: sqlite3.Cursor) -> Any:
        sys.setprofile(profile)
        return insert(1)(cursor)

    with pytest.raises(KeyboardInterrupt):
        committer.run(begin)
    assert stored(file) == [1]
    assert committer.run(insert(2)) == (2,)


def test_nobody_waits_for_ever_who_comes_while_it_closes(file: Path) -> None:
    for _ in range(50):
        writer = connections.writing(file, "off")
        made = Committer(writer, lambda: pytest.fail("again"), ForkGate(), lambda: None)
        with ThreadPoolExecutor(8) as threads:
            given = [threads.submit(made.run, lambda cursor: None) for _ in range(8)]
            made.close()
            done, late = wait(given, timeout=30)
        assert not late
        assert {type(one.exception()) for one in done} <= {type(None), StoreError}
