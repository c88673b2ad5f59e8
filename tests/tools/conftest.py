"""A shop and an outbox of their own for every test."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from stepwell import ToolContext


@pytest.fixture(autouse=True)
def application_data(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWELL_ORDERS_DB", str(tmp_path / "shop" / "orders.db"))
    monkeypatch.setenv("STEPWELL_OUTBOX", str(tmp_path / "outbox"))


@pytest.fixture
def make_context():
    """Builds the context of one call; each call has a new key unless the test names one."""
    numbers = itertools.count(1)

    def make(key=None):
        key = key or f"call-{next(numbers)}"
        deadline = datetime.now(UTC) + timedelta(seconds=30)
        return ToolContext(run_id="run-1", call_id=key, idempotency_key=key, deadline=deadline)

    return make
