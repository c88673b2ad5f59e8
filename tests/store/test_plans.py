"""How queries find their rows: by the index made for it, with the planner's statistics and without."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from stepwell import clock
from stepwell.machine import LIVE, State
from stepwell.state.records import RunRow
from stepwell.store import Store, claim, health, inspect
from tests.store.conftest import LEASE

_ENDED = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
    INSERT INTO run ({columns}) SELECT {values} FROM run, n WHERE number = 1"""
_REPLACED = {"number": "NULL", "id": "'E' || n.i", "key": "'k' || n.i", "state": "'done'"}


def add_ended(file: Path, count: int) -> None:
    with closing(sqlite3.connect(file)) as writer, writer:
        names = [row[1] for row in writer.execute("PRAGMA table_info(run)")]
        columns = ", ".join(f'"{name}"' for name in names)
        values = ", ".join(_REPLACED.get(name, f'"{name}"') for name in names)
        writer.execute(_ENDED.format(columns=columns, values=values), {"count": count})
        writer.execute(
            "INSERT INTO message (run, number, seq, role, text) "
            "SELECT number, 1, 1, 'user', 'x' FROM run WHERE state = 'done'"
        )


@pytest.fixture(params=["without statistics", "with statistics"])
def crowded(
    store: Store, begin: Callable[..., RunRow], file: Path, request: pytest.FixtureRequest
) -> Store:
    """A store with three queued runs of one workflow beside 5,000 that have ended."""
    for _ in range(3):
        begin()
    add_ended(file, 5_000)
    if request.param == "with statistics":
        with closing(sqlite3.connect(file)) as writer, writer:
            writer.execute("ANALYZE")
    return store


@pytest.fixture
def plan(crowded: Store) -> Iterator[Callable[[str, Any], list[str]]]:
    with closing(sqlite3.connect(crowded.file)) as reader:

        def _plan(sql: str, values: Any) -> list[str]:
            return [row[3] for row in reader.execute(f"EXPLAIN QUERY PLAN {sql}", values)]

        yield _plan


def claiming(number: int | None = None) -> dict[str, Any]:
    return {
        "owner": 1, "now": 0, "until": 0, "number": number,
        "workflows": '["w"]', "limits": '{"w": 1}',
    }  # fmt: skip


def test_a_claim_reads_queued_runs_only(plan: Callable[[str, Any], list[str]]) -> None:
    found = plan(claim.CLAIM_NEXT, claiming())
    assert "SCAN due USING INDEX run_due" in found
    assert not any("TEMP B-TREE" in step or "autoindex_run" in step for step in found)
    assert any("run USING INDEX run_owned" in step for step in found)


def test_a_claim_of_one_run_reads_that_run_only(plan: Callable[[str, Any], list[str]]) -> None:
    found = plan(claim.CLAIM_ONE, claiming(number=1))
    assert "SEARCH due USING INTEGER PRIMARY KEY (rowid=?)" in found
    assert not any(step.startswith("SCAN due") for step in found)


def steps(store: Store, how: Callable[[], object]) -> int:
    """How many steps SQLite's virtual machine takes, in hundreds, over all connections."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    def watch(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_progress_handler(count, 100)

    store.before_fork()  # closes all connections; the next ones are watched
    store.after_fork()
    event.listen(Pool, "connect", watch)
    try:
        how()
    finally:
        event.remove(Pool, "connect", watch)
    return taken


@pytest.mark.parametrize("state", list(State))
def test_runs_of_a_state_are_found_without_reading_the_others(crowded: Store, state: State) -> None:
    def look() -> None:
        with crowded.reading() as connection:
            inspect.runs(connection, clock.now(), state=state, workflow=None, limit=3)

    assert steps(crowded, look) < 10


def test_runs_of_a_workflow_are_read_up_to_the_limit(
    crowded: Store,
) -> None:
    def look() -> None:
        with crowded.reading() as connection:
            inspect.runs(connection, clock.now(), state=None, workflow="w", limit=3)

    assert steps(crowded, look) < 10


def test_the_health_of_runs_is_counted_without_reading_ended_ones(crowded: Store) -> None:
    def look() -> None:
        with crowded.reading() as connection:
            health.health(connection, clock.now(), 90, ["w"])

    assert steps(crowded, look) < 20


def test_live_runs_are_numbered_without_reading_ended_ones(crowded: Store) -> None:
    assert steps(crowded, lambda: crowded.numbers(LIVE)) < 10
    assert crowded.numbers(LIVE) == [1, 2, 3]


def test_claims_get_each_queued_run_once(crowded: Store) -> None:
    now = clock.now()
    got = [crowded.claim(["w"], now, now + LEASE) for _ in range(4)]
    assert [snapshot.run.number if snapshot else None for snapshot in got] == [1, 2, 3, None]
