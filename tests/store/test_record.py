"""Recording: a transition is written whole and once, by the one who may, or not at all."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine, Verdict
from stepwell.errors import KeyConflict, LeaseLost
from stepwell.rules.recovery import cancel, interrupt
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import RunRow
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store, tables
from stepwell.store import record as module
from stepwell.store.prepared import Prepared
from tests.narrowing import present
from tests.processes import crowd
from tests.store.stepping import WORKFLOW, Stepping

ROWS = [table.name for table in tables.ALL if table.name != "worker"]


@pytest.fixture
def run(store: Store) -> Stepping:
    return Stepping(store)


def everything(file: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(file)) as reader:
        return {
            name: reader.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 - ours
            for name in ROWS
        }


class Nothing:
    """Nothing may be written in this block."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __enter__(self) -> None:
        self.before = everything(self.file)

    def __exit__(self, *_error: object) -> None:
        assert everything(self.file) == self.before


@pytest.fixture
def nothing_written(file: Path) -> Nothing:
    return Nothing(file)


def test_a_transition_is_written_with_all_that_belongs_to_it(run: Stepping, file: Path) -> None:
    run.record(run.replied(("look", {"q": "a"}), ("wire", {"amount": 1}), text="Let me see."))
    run.record(run.ended(1, "found", "a note", "another"))
    run.settle()
    rows = everything(file)
    assert {name: len(found) for name, found in rows.items()} == {
        "run": 1,
        "transition": 4,
        "full_result": 0,
        "message": 2,
        "call": 2,
        "call_version": 0,
        "approval": 1,
        "note": 2,
        "inbox": 0,
        "schedule": 0,
        "occurrence": 0,
    }
    assert run.snapshot.run.state == "awaiting_approval"


def test_the_snapshot_is_what_was_written(run: Stepping) -> None:
    run.record(run.replied(("pay", {"amount": 1}), text="Paying.", reasoning="I must.", raw=[{}]))
    run.record(run.ended(1))
    run.record(run.replied(text="Done."))
    assert run.copy() == run.snapshot


@pytest.mark.parametrize("past", [{"fence": 0}, {"seq": 0}, {"fence": 2}, {"number": 99}], ids=str)
def test_one_who_is_not_up_to_date_writes_nothing(
    run: Stepping, nothing_written: Nothing, past: dict[str, Any]
) -> None:
    change = run.replied(("look", {"q": "a"}))
    assert change.before
    stale = replace(change, before=change.before._replace(**past))
    before = run.copy()
    with nothing_written, pytest.raises(LeaseLost, match="has moved on"):
        run.record(stale)
    assert run.snapshot == before


def test_who_lost_the_run_writes_nothing_more(run: Stepping, nothing_written: Nothing) -> None:
    """C04: the fence alone decides; the lease may not even have run out."""
    late = run.replied(text="Too late.")
    taken = run.copy()
    run.store.record(taken, interrupt(taken, "test", Circumstances(now=taken.run.updated_at)))
    run.claim()
    with nothing_written, pytest.raises(LeaseLost):
        run.record(late)


def test_a_driver_may_record_the_same_change_again(run: Stepping, nothing_written: Nothing) -> None:
    """It did not hear that the first try was committed."""
    change, behind = run.replied(("look", {"q": "a"})), run.copy()
    run.record(change)
    with nothing_written:
        run.store.record(behind, change)
    assert behind == run.snapshot


def test_of_two_people_who_decide_at_once_one_is_refused(
    run: Stepping, nothing_written: Nothing
) -> None:
    """Even within one millisecond, and though both wanted the same transition (C09)."""
    run.record(run.replied(("wire", {"amount": 1})))
    run.settle()
    yes = run.answered(1, Verdict.APPROVE, "ann")
    assert yes.before
    no = replace(run.answered(1, Verdict.DENY, "bob"), run=yes.run)
    run.record(yes, driven=False)
    with nothing_written, pytest.raises(LeaseLost):
        run.record(no, driven=False)


def test_of_two_processes_that_decide_at_once_one_is_refused(store: Store, file: Path) -> None:
    """C09."""
    run = Stepping(store)
    run.record(run.replied(("wire", {"amount": 1})))
    run.settle()
    answers = crowd(3, "approve", file, f"{run.snapshot.run.id}-q1")
    assert sorted(answers) == [["approval_closed"], ["approval_closed"], ["approved"]]
    with Engine(file, workflows=[WORKFLOW]) as engine:
        triggers = [entry.trigger for entry in engine.history("last")]
    assert triggers == ["start", "request_tools", "ask", "decided"]


def test_what_cannot_be_written_leaves_no_half(
    run: Stepping, nothing_written: Nothing, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = run.replied(("look", {"q": "a"}), ("look", {"q": "b"}))
    twice = replace(change, calls=(change.calls[0], change.calls[0]))
    before = run.copy()
    with nothing_written, pytest.raises(sqlite3.IntegrityError):
        run.record(twice)
    assert run.snapshot == before
    run.record(change)


def test_a_key_is_there_once_for_each_workflow(
    begin: Callable[..., RunRow], nothing_written: Nothing
) -> None:
    begin(key="k")
    begin("other", key="k")
    begin()
    begin()
    with nothing_written, pytest.raises(KeyConflict, match="key 'k'"):
        begin(key="k")


def test_a_request_to_cancel_reaches_the_driver_with_its_next_record(run: Stepping) -> None:
    assert run.store.request_cancel(run.number, "ann")
    run.record(run.replied(("look", {"q": "a"})))
    assert run.snapshot.run.cancel_requested == "ann"
    run.record(present(cancel(run.snapshot, "ann", Circumstances(now=run.snapshot.run.updated_at))))
    ended = run.copy().run
    assert (ended.state, ended.cancel_requested, ended.owner) == ("cancelled", None, None)
    assert not run.store.request_cancel(run.number, "bob")


def test_a_record_does_not_undo_what_others_wrote_meanwhile(run: Stepping) -> None:
    """The lease belongs to the heartbeat, a wish to cancel to whoever has it."""
    until = run.snapshot.run.lease_until
    assert until
    later = until.replace(year=until.year + 1)
    run.store.renew({run.number: run.snapshot.run.fence}, until, later)
    run.record(run.replied(("look", {"q": "a"})))
    assert run.copy().run.lease_until == later


def test_strange_text_survives(store: Store) -> None:
    text = "NUL \0, emoji 😀, quote ', e\u0301 \u202e and \x1b[2J"
    run = Stepping(store, text, user="o'hara")
    run.record(run.replied(("look", {"q": text}), text=text))
    run.record(run.ended(1, {"a": [text, None, 1.5, 10**30]}))
    loaded: Snapshot = run.copy()
    assert loaded == run.snapshot
    assert loaded.transcript[0].text == text
    assert loaded.batch[1].outcome == {"ok": True, "result": {"a": [text, None, 1.5, 10**30]}}


def test_the_statements_are_compiled_once() -> None:
    prepared = [value for value in vars(module).values() if isinstance(value, Prepared)]
    assert len(prepared) >= 8
    assert all("?" in one.sql for one in prepared)
