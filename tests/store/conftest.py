"""A store on a real file for every test, and runs in it."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from ulid import ULID

from stepwell import Agent, clock
from stepwell.rules.starting import start
from stepwell.state.records import RunRow
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store
from tests.in_memory import a_start

LEASE = timedelta(seconds=30)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    opened = Store(file)
    yield opened
    opened.close()


@pytest.fixture
def begin(store: Store) -> Callable[..., RunRow]:
    """Starts a run of a workflow without tools."""

    def _begin(workflow: str = "w", **options: Any) -> RunRow:
        new = a_start(options.pop("id", str(ULID())), options.pop("input", "Hello"), **options)
        return store.begin(start(Agent(workflow), new, clock.now())).run

    return _begin


@pytest.fixture
def claim(store: Store) -> Callable[..., Snapshot | None]:
    """Claims what is due now for half a minute."""

    def _claim(*workflows: str, **options: Any) -> Snapshot | None:
        now = options.pop("now", clock.now())
        return store.claim(workflows or ("w",), now, options.pop("until", now + LEASE), **options)

    return _claim
