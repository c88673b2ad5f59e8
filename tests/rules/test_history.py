"""A run as it was after any of its transitions: what its rows tell, against what was live then."""

import copy
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from stepwell.errors import UnknownTransition
from stepwell.rules.change import Change
from stepwell.rules.history import rewind
from stepwell.state.records import RunRow
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store, inspect, past
from stepwell.views.runs import RunDetail
from tests.test_properties import Draw, StoredJourney, told

pytestmark = pytest.mark.timeout(600)
LOOSE = settings(deadline=None, suppress_health_check=list(HealthCheck))
# No transition sets these: who drives a run, and how long a step waits before it is tried again.
FLEETING = {
    "inbox",
    "owner",
    "lease_until",
    "claimed_at",
    "stuck",
    "cancel_requested",
    "not_before",
    "failures",
    "outage_since",
    "reserved_turns",
}


def lasting(run: RunRow) -> RunRow:
    fleeting: dict[str, Any] = dict.fromkeys(FLEETING & set(run._fields))
    return run._replace(**fleeting)


def as_told(snapshot: Snapshot) -> dict[str, Any]:
    """All of a snapshot that its transitions made; what was sent to it is not theirs."""
    return told(snapshot) | {"run": lasting(snapshot.run), "inbox": None}


def shown(detail: RunDetail) -> dict[str, Any]:
    """All that a run is shown with, but for what is fleeting."""
    return {f.name: getattr(detail, f.name) for f in fields(RunDetail) if f.name not in FLEETING}


class RememberedJourney(StoredJourney):
    """Keeps what the run was after each transition, as its driver held it and as it was shown."""

    def __init__(self, draw: Draw, store: Store) -> None:
        self.held: dict[int, dict[str, Any]] = {}
        self.shown: dict[int, dict[str, Any]] = {}
        super().__init__(draw, store)

    def claim(self) -> None:
        if not self.held:  # begun, and not claimed yet
            self.snapshot.run = self.store.load(self.row.number).run
            self.remember_now()
        super().claim()

    def apply(self, change: Change, *, driven: bool = True) -> None:
        super().apply(change, driven=driven)
        self.remember_now()

    def remember_now(self) -> None:
        seq = self.row.seq
        self.held[seq] = as_told(copy.deepcopy(self.snapshot))
        with self.store.reading() as connection:
            self.shown[seq] = shown(inspect.detail(connection, self.row.number, self.run.now))

    def check_the_past(self) -> None:
        number = self.row.number
        with self.store.reading() as connection:
            rows = past.rows(connection, number)
            for seq, held in self.held.items():
                assert as_told(past.snapshot(rewind(rows, seq))) == held
                detail = past.detail(connection, number, seq, self.run.now)
                assert shown(detail) == self.shown[seq]
            assert list(self.held) == list(range(1, self.row.seq + 1))
            for beyond in (-1, 0, self.row.seq + 1):
                with pytest.raises(UnknownTransition, match=f"its last one is {self.row.seq}"):
                    rewind(rows, beyond)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store(tmp_path_factory.mktemp("past") / "runs.db", synchronous="off")
    yield opened
    opened.close()


@settings(LOOSE, max_examples=80)
@given(st.data(), st.integers(5, 25))
def test_any_run_at_any_of_its_transitions(store: Store, data: DataObject, steps: int) -> None:
    journey = RememberedJourney(data.draw, store)
    for _ in range(steps):
        journey.step()
    journey.finish()
    journey.check_the_past()
