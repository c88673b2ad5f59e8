"""A fork of any run at any of its transitions: legal, and nothing of it repeated silently."""

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn
from ulid import ULID

from stepwell.rules.change import Change
from stepwell.rules.fork import Fate, ForkOptions, fork
from stepwell.state.records import Call
from stepwell.state.snapshot import Snapshot
from stepwell.state.transcript import problems
from stepwell.store import Store, past, tables
from tests.narrowing import present
from tests.test_properties import StoredJourney, told

pytestmark = pytest.mark.timeout(600)
LOOSE = settings(deadline=None, suppress_health_check=list(HealthCheck))
OF_A_RUN = [t for t in tables.ALL if t is tables.run or "run" in t.c]


class ForkedJourney(StoredJourney):
    """A fork of another journey at one of its transitions, and all that may happen to it.

    `happened` are the calls that began in any relative: they must not begin here unless somebody
    says so.
    """

    def __init__(self, origin: StoredJourney, at: int, options: ForkOptions) -> None:
        self.draw, self.store, self.run = origin.draw, origin.store, origin.run
        self.begun, self.asked, self.stale = set(), set(), None
        self.starts, self.again, self.model_calls = Counter(), Counter(), 0
        self.sent, self.mailed = 0, []
        self.happened = set(origin.starts) | getattr(origin, "happened", set())

        def begin(then: Snapshot, fate: Fate) -> Change:
            self.then = then
            return fork(self.run.workflow, then, fate, str(ULID()), options, self.run.now)

        begun = self.store.fork(origin.row.number, at, begin)
        self.run.history = []
        self.checked = 0
        self.run.snapshot = self.store.load(begun.number)

    def limits_hold(self) -> None:
        """Calls that were open in the original are not counted once more."""
        assert self.model_calls <= self.row.used.turns + self.row.reserved_turns
        assert self.row.used.turns + self.row.reserved_turns <= self.row.limits.max_turns
        new = {number for number in self.starts if number > self.then.calls}
        assert len(new) <= self.row.used.tool_calls <= self.row.limits.max_tool_calls

    def effects_are_as_the_ledger_says(self) -> None:
        super().effects_are_as_the_ledger_says()
        for number in self.happened & set(self.starts) & set(self.then.batch):
            tool = self.run.workflow.toolbox[self.then.batch[number].tool]
            assert tool.read_only or self.starts[number] <= self.again[number]


def rows_of(store: Store, number: int) -> dict[Any, Any]:
    """Every row of one run, but for who drives it."""
    found = {}
    with store.reading() as connection:
        for table in OF_A_RUN:
            column = table.c.number if table is tables.run else table.c.run
            rows = connection.execute(table.select().where(column == number))
            found[table.name] = [tuple(row) for row in rows]
    return found


@st.composite
def options(draw: DrawFn, then: Snapshot) -> ForkOptions:
    """What a person may say of a fork."""
    message = draw(st.sampled_from([None, None, "Do something else."]))
    if then.run.state == "done":
        message = "And now?"
    open_ = [n for n, call in then.batch.items() if not call.status.final]
    given_ = draw(st.sets(st.sampled_from(open_))) if open_ else ()
    return {
        "message": message,
        "tool_results": {str(number): "it was so" for number in given_},
        "max_turns": draw(st.sampled_from([None, 3, 20])),
        "by": "ann",
    }


def check_the_beginning(forked: ForkedJourney, then: Snapshot, wanted: ForkOptions) -> None:
    """It is what the original was, with nothing of its own yet."""
    now = forked.snapshot
    run = now.run
    assert problems(now.transcript, complete=run.state == "awaiting_model") == []
    assert (run.used.turns, run.used.tool_calls, run.used.cost) == (0, 0, Decimal(0))
    assert (run.seq, run.forked_seq, run.owner) == (then.run.seq + 1, then.run.seq, None)
    assert (now.messages - (wanted["message"] is not None), now.calls) == (
        then.messages, then.calls,
    )  # fmt: skip
    assert (now.notes, now.blanket, now.replies) == (then.notes, set(), then.replies)
    common = len(then.transcript)
    assert now.transcript[:common] == then.transcript
    for number, call in then.batch.items():
        assert not call.status.final or told_of(now.batch[number]) == told_of(call)
    for id_ in present(wanted["tool_results"]):
        assert now.batch[int(id_)].outcome == {"ok": True, "result": "it was so"}


def told_of(call: Call) -> tuple[Any, ...]:
    return call.number, call.status, call.outcome, call.effective


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store(tmp_path_factory.mktemp("forks") / "runs.db", synchronous="off")
    yield opened
    opened.close()


def fork_at(journey: StoredJourney, at: int) -> ForkedJourney:
    """A fork of this journey, checked to be a beginning and to leave the original untouched."""
    draw, store, number = journey.draw, journey.store, journey.row.number
    before = rows_of(store, number)
    with store.reading() as connection:
        then = past.snapshot(past.rewound(connection, number, at))
    wanted = draw(options(then))
    forked = ForkedJourney(journey, at, wanted)
    event(f"forked into {forked.row.state}")
    check_the_beginning(forked, then, wanted)
    assert told(forked.store.load(forked.row.number)) == told(forked.snapshot)
    assert rows_of(store, number) == before
    return forked


@settings(LOOSE, max_examples=80)
@given(st.data(), st.integers(5, 16))
def test_a_fork_of_any_run_at_any_transition(store: Store, data: DataObject, steps: int) -> None:
    journey = StoredJourney(data.draw, store)
    for _ in range(steps):
        journey.step()
    original = journey.run.snapshot
    for at in range(1, journey.row.seq + 1):
        journey.run.snapshot = original
        fork_at(journey, at)


@settings(LOOSE, max_examples=50)
@given(st.data(), st.integers(5, 16))
def test_a_fork_and_a_fork_of_it_can_be_finished(
    store: Store, data: DataObject, steps: int
) -> None:
    journey = StoredJourney(data.draw, store)
    for _ in range(steps):
        journey.step()
    for _ in range(2):
        with store.reading() as connection:
            first = past.rows(connection, journey.row.number).transitions[0]["seq"]
        forked = fork_at(journey, data.draw(st.integers(first, journey.row.seq)))
        for _ in range(data.draw(st.integers(0, 20))):
            forked.step()
        forked.finish()
        journey = forked
