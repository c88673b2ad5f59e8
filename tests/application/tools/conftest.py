"""A shop, an outbox and services of their own for every test; nothing else is talked to."""

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stepwell import ToolContext
from tests.application.tools.local_service import NOBODY, Service, serving


@pytest.fixture(autouse=True)
def application_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_ORDERS_DB", str(tmp_path / "shop" / "orders.db"))
    monkeypatch.setenv("STEPWELL_OUTBOX", str(tmp_path / "outbox"))
    monkeypatch.setenv("STEPWELL_WEATHER_URL", NOBODY)
    monkeypatch.setenv("STEPWELL_SEARCH_URL", NOBODY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("BRAVE_API_KEY", "STEPWELL_EXPENSES", "STEPWELL_KNOWLEDGE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def service() -> Iterator[Service]:
    """A local HTTP service, closed when the test ends."""
    with serving() as started:
        yield started


@pytest.fixture
def make_context() -> Callable[..., ToolContext]:
    """Builds the context of one call; each call has a new key unless the test names one."""
    numbers = itertools.count(1)

    def make(key: str | None = None) -> ToolContext:
        key = key or f"call-{next(numbers)}"
        deadline = datetime.now(UTC) + timedelta(seconds=30)
        return ToolContext(run_id="run-1", call_id=key, idempotency_key=key, deadline=deadline)

    return make
