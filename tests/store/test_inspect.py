"""Inspecting: what people are shown of a run is all there is, in order."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from stepwell import ProviderError, Verdict, clock
from stepwell.machine import State
from stepwell.rules.decide import Faulted
from stepwell.state.records import RunRow
from stepwell.store import Store, inspect, timeline
from stepwell.views.runs import RunDetail
from tests.narrowing import present
from tests.store.stepping import Stepping


@pytest.fixture
def read(store: Store) -> Callable[..., Any]:
    def _read(what: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        with store.reading() as connection:
            return what(connection, *arguments, **options)

    return _read


@pytest.fixture
def runs(read: Callable[..., Any]) -> Callable[..., list[Any]]:
    def _runs(**options: Any) -> list[Any]:
        asked = {"state": None, "workflow": None, "limit": 50} | options
        found: list[Any] = read(inspect.runs, clock.now(), **asked)
        return found

    return _runs


@pytest.fixture
def detail(read: Callable[..., Any]) -> Callable[[Stepping], Any]:
    return lambda run: read(inspect.detail, run.number, clock.now())


@pytest.fixture
def decided(store: Store) -> Stepping:
    """A run that asked for two tools; a person edited the one and denied the other."""
    run = Stepping(store, "Pay Ann", user="ann")
    calls = [("look", {"q": "x"}), ("wire", {"amount": 5}), ("wire", {"amount": 6})]
    run.record(run.replied(*calls, text="Looking.", reasoning="Owed 5."))
    run.record(run.ended(1, "found"))
    run.settle()
    run.record(run.answered(1, Verdict.APPROVE, "bob", edit={"amount": 4}), driven=False)
    run.record(run.answered(2, Verdict.DENY, "bob", reason="twice"), driven=False)
    run.snapshot = run.claim()
    run.settle()
    run.record(run.ended(2, "wired 4"))
    run.record(run.replied(text="Paid 4."))
    return run


def test_runs_are_listed_newest_first(
    store: Store, runs: Callable[..., list[Any]], begin: Callable[..., RunRow]
) -> None:
    done = Stepping(store)
    done.record(done.replied(text="Done."))
    begin("other", input="Later")
    assert [(r.workflow, r.state, r.input, r.answer) for r in runs()] == [
        ("other", "awaiting_model", "Later", None),
        ("w", "done", "Hello", "Done."),
    ]
    assert [r.workflow for r in runs(state=State.DONE)] == ["w"]
    assert [r.workflow for r in runs(workflow="other")] == ["other"]
    assert len(runs(limit=1)) == 1
    assert runs(workflow="none") == []


def test_a_run_shows_who_drives_it(store: Store, runs: Callable[..., list[Any]]) -> None:
    run = Stepping(store)
    [shown] = runs()
    assert shown.owner.endswith(f":{store.owned()[0].owner.pid}")
    assert (shown.stuck, shown.lease_until) == (False, run.snapshot.run.lease_until)
    run.record(run.replied(text="Done."))
    [shown] = runs()
    assert (shown.owner, shown.stuck, shown.lease_until) == (None, False, None)


def test_a_whole_run(decided: Stepping, detail: Callable[..., RunDetail]) -> None:
    run, id_ = detail(decided), decided.snapshot.run.id
    assert (run.state, run.answer, run.used.turns, run.used.tool_calls) == ("done", "Paid 4.", 2, 3)
    assert [(m.role, m.tool) for m in run.messages] == [
        ("user", None),
        ("assistant", None),
        ("tool", "look"),
        ("tool", "wire"),
        ("tool", "wire"),
        ("assistant", None),
    ]
    look, edited, denied = run.calls
    assert (look.id, look.idempotency_key, look.status) == (f"{id_}-1", f"{id_}-1", "ok")
    assert (edited.arguments, edited.edited_arguments) == ({"amount": 5}, {"amount": 4})
    assert present(edited.outcome)["edited_arguments"] == {"amount": 4}
    assert (denied.status, "twice" in str(denied.outcome)) == ("denied", True)
    assert [(a.id, a.status, a.decided_by, a.reason) for a in run.approvals] == [
        (f"{id_}-q1", "approved", "bob", None),
        (f"{id_}-q2", "denied", "bob", "twice"),
    ]


def test_the_messages_are_what_the_model_is_shown(
    decided: Stepping, detail: Callable[..., RunDetail]
) -> None:
    shown = [m.text for m in detail(decided).messages]
    assert shown[:-1] == [m.text for m in decided.snapshot.transcript[:-1]]


def test_the_trace_tells_thoughts_calls_and_observations(
    decided: Stepping, detail: Callable[..., RunDetail]
) -> None:
    trace = detail(decided).trace
    assert [(t.step, t.type, t.tool) for t in trace] == [
        (1, "reasoning", None),
        (1, "tool_call", "look"),
        (1, "tool_call", "wire"),
        (1, "tool_call", "wire"),
        (1, "observation", "look"),
        (1, "observation", "wire"),
        (1, "observation", "wire"),
    ]
    assert (trace[0].text, trace[2].arguments) == ("Owed 5.", {"amount": 4})


def test_the_history_tells_every_transition(decided: Stepping, read: Callable[..., Any]) -> None:
    id_ = decided.snapshot.run.id
    entries = read(timeline.history, decided.number)
    story = [(e.seq, e.trigger, [(c.id[len(id_) :], c.status) for c in e.calls]) for e in entries]
    assert story == [
        (1, "start", []),
        (2, "request_tools", [("-1", "running"), ("-2", "waiting"), ("-3", "waiting")]),
        (3, "call_finished", [("-1", "ok")]),
        (4, "ask", []),
        (5, "decision", []),
        (6, "decided", [("-3", "denied")]),
        (7, "start_calls", [("-2", "running")]),
        (8, "results_ready", [("-2", "ok")]),
        (9, "answer", []),
    ]
    assert [entry.by for entry in entries[4:6]] == ["bob", "bob"]
    assert entries[0].by == "ann"
    assert [e.seq for e in read(timeline.history, decided.number, after=7)] == [8, 9]
    for before, after in itertools.pairwise(entries):
        assert before.dest == after.source
        assert before.at <= after.at


def test_the_history_tells_faults(store: Store, read: Callable[..., Any]) -> None:
    run = Stepping(store)
    error = ProviderError("Busy.", kind="overloaded", retryable=True)
    run.record(run.concluded(Faulted(error, "scripted:test")))
    last = read(timeline.history, run.number)[-1]
    assert (last.trigger, last.attempt, last.model) == ("retry", 2, "scripted:test")
    assert last.error == {"type": "overloaded", "message": "Busy."}


def test_questions_are_listed_oldest_first(store: Store, read: Callable[..., Any]) -> None:
    runs = [Stepping(store) for _ in range(2)]
    for run in runs:
        run.record(run.replied(("wire", {"amount": 5}), text="I will pay."))
        run.settle()
    ids = [run.snapshot.run.id for run in runs]
    questions = read(inspect.approvals, None, pending=True)
    assert [question.run for question in questions] == ids
    assert {(q.kind, q.tool, q.reasoning, q.status) for q in questions} == {
        ("approval", "wire", "I will pay.", "pending")
    }
    assert questions[0].arguments == {"amount": 5}
    later = runs[1]
    later.record(later.answered(1, Verdict.DENY, "ann"), driven=False)
    assert [q.run for q in read(inspect.approvals, None, pending=True)] == ids[:1]
    assert [q.status for q in read(inspect.approvals, later.number)] == ["denied"]


def test_a_full_result_is_shown_beside_the_cut_one(
    store: Store, detail: Callable[..., RunDetail]
) -> None:
    run = Stepping(store)
    run.record(run.replied(("look", {"q": "x"})))
    run.record(run.ended(1, "y" * 50_000))
    [call] = detail(run).calls
    assert call.full_result == "y" * 50_000
    assert len(str(call.outcome)) < 25_000
