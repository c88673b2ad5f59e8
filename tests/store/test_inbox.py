"""The inbox's table: written by anybody, taken once, and no cost for a run that nobody writes to."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stepwell import clock
from stepwell.errors import LeaseLost, NotSent
from stepwell.rules.delivery import wake
from stepwell.rules.recovery import cancel
from stepwell.state.circumstances import Circumstances
from stepwell.state.inbox import InboxEntry, InboxKind
from stepwell.store import Store, inbox
from tests.store.stepping import WORKFLOW, Stepping
from tests.tracing import tracing

MESSAGE, TOP_UP = InboxKind.MESSAGE, InboxKind.TOP_UP


@pytest.fixture
def run(store: Store) -> Stepping:
    return Stepping(store)


def say(run: Stepping, text: str = "Also this.", by: str | None = "ann") -> int:
    return run.store.send(run.number, MESSAGE, by, text=text)


def receipts(store: Store) -> list[Any]:
    with store.reading() as connection:
        return [(e.id[-3:], e.text, e.by, e.delivered_seq) for e in inbox.sent(connection, 1)]


def answer(run: Stepping) -> None:
    run.record(run.replied(text="Done."))


def follow_up(run: Stepping) -> None:
    change = wake(WORKFLOW, run.snapshot, Circumstances(now=clock.now()))
    assert change is not None
    run.record(change, driven=False)


def test_what_is_sent_leaves_the_run_as_it_is(store: Store, run: Stepping) -> None:
    before = store.load(run.number)
    assert [say(run, "First."), say(run, "Second.", by=None)] == [1, 2]
    after = store.load(run.number)
    first = InboxEntry(number=1, kind=MESSAGE, text="First.", by="ann")
    second = InboxEntry(number=2, kind=MESSAGE, text="Second.")
    assert (after.run, after.inbox) == (before.run, (first, second))


def test_a_raise_keeps_its_amounts(store: Store, run: Stepping) -> None:
    store.send(run.number, TOP_UP, "ann", amounts={"max_turns": 3})
    [entry] = store.waiting(run.number)
    assert (entry.kind, entry.amounts, entry.text) == (TOP_UP, {"max_turns": 3}, None)


def test_the_driver_hears_of_it_with_its_next_record(store: Store, run: Stepping) -> None:
    say(run)
    assert run.snapshot.inbox == ()
    run.record(run.replied(("look", {"q": "a"})))
    assert run.snapshot.inbox == store.waiting(run.number)
    run.record(run.ended(1))
    run.settle()
    assert (run.snapshot.inbox, run.snapshot.last_text) == ((), "Also this.")
    assert receipts(store) == [("-m1", "Also this.", "ann", run.snapshot.run.seq)]
    assert run.copy() == run.snapshot


def test_what_arrives_while_the_answer_is_recorded_waits_beside_it(
    store: Store, run: Stepping
) -> None:
    """Sent before that commit, the driver hears of it; after it, whoever looks next does."""
    change = run.replied(text="Done.")
    say(run, "Just before.")
    run.record(change)
    assert [e.text for e in run.snapshot.inbox] == ["Just before."]
    say(run, "Just after.")
    assert store.sleeping(["w"], ["w"]) == [run.number]
    run.snapshot = run.copy()
    follow_up(run)
    assert receipts(store) == [("-m1", "Just before.", "ann", 3), ("-m2", "Just after.", "ann", 3)]
    assert store.sleeping(["w"], ["w"]) == []


def test_it_is_taken_by_one_of_two_who_try(store: Store, run: Stepping) -> None:
    answer(run)
    say(run)
    run.snapshot = run.copy()
    late = run.copy()
    change = wake(WORKFLOW, late, Circumstances(now=clock.now()))
    assert change is not None
    follow_up(run)
    with pytest.raises(LeaseLost):
        store.record(late, change, driven=False)
    assert receipts(store) == [("-m1", "Also this.", "ann", 3)]
    assert run.copy().messages == 3


def test_a_cancelled_run_takes_nothing(store: Store, run: Stepping) -> None:
    ended = cancel(run.snapshot, "bob", Circumstances(now=clock.now()))
    assert ended is not None
    run.record(ended, driven=False)
    with pytest.raises(NotSent, match="cancelled"):
        say(run)
    assert receipts(store) == []


@pytest.mark.parametrize(
    ("max_turns", "kind", "wakes"),
    [(5, MESSAGE, True), (5, TOP_UP, False), (1, MESSAGE, False), (1, TOP_UP, True)],
    ids=["done, message", "done, raise", "capped, message", "capped, raise"],
)
def test_what_wakes_a_run_that_has_ended(
    store: Store, max_turns: int, kind: InboxKind, wakes: bool
) -> None:
    run = Stepping(store, max_turns=max_turns)
    if max_turns == 1:
        run.record(run.replied(("look", {"q": "a"})))
        run.record(run.ended(1))
        run.settle()
        assert run.snapshot.run.state == "capped"
    else:
        answer(run)
    store.send(run.number, kind, None, text="x", amounts={"max_turns": 1})
    assert store.sleeping(["w"], ["w"]) == [run.number] * wakes
    assert store.sleeping(["w"], []) == [run.number] * (wakes and kind is TOP_UP)
    assert store.sleeping(["another"], ["another"]) == []


def test_a_live_run_does_not_sleep(store: Store, run: Stepping) -> None:
    say(run)
    assert store.sleeping(["w"], ["w"]) == []


def test_what_was_taken_is_never_looked_at_again(file: Path, store: Store, run: Stepping) -> None:
    """However much a run was told, and however many runs there are."""
    with tracing() as statements, closing(Store(file)) as watched:
        watched.sleeping(["w"], ["w"])
        watched.waiting(run.number)
        watched.record(run.snapshot, run.replied(text="Done."))
    looks = [s for s in statements if "inbox" in s]
    assert len(looks) == 3
    with closing(sqlite3.connect(file)) as reader:
        for look in looks:
            plan = str(reader.execute(f"EXPLAIN QUERY PLAN {look}").fetchall())
            assert re.search(r"inbox_waiting|i USING INDEX inbox_waiting", plan), look
            assert "SCAN run" not in plan
            assert "SCAN r'" not in plan
            assert not re.search(r"SCAN (inbox|i) (?!USING)", plan)
