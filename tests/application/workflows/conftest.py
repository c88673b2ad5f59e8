"""The example application with a database of its own, and no service to talk to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import workflows
from stepwell import Engine
from tests.application.tools.local_service import NOBODY, Service, serving


@pytest.fixture(autouse=True)
def application_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_ORDERS_DB", str(tmp_path / "orders.db"))
    monkeypatch.setenv("STEPWELL_OUTBOX", str(tmp_path / "outbox"))
    monkeypatch.setenv("STEPWELL_WEATHER_URL", NOBODY)
    monkeypatch.setenv("STEPWELL_SEARCH_URL", NOBODY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("BRAVE_API_KEY", "STEPWELL_EXPENSES", "STEPWELL_KNOWLEDGE", "STEPWELL_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "runs.db", workflows=workflows) as opened:
        yield opened


@pytest.fixture
def service() -> Iterator[Service]:
    """A local HTTP service, closed when the test ends."""
    with serving() as started:
        yield started
