"""Runs on a real database, from the call that starts them to their end (A03, A15, B04, B06, B14, C08, C09, E08)."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from freezegun import freeze_time
from pydantic import BaseModel

from stepwell import (
    Agent,
    Decision,
    Engine,
    ProviderError,
    Reply,
    ScriptedModel,
    ToolCall,
    ToolContext,
    Verdict,
    tool,
)
from stepwell.errors import (
    ApprovalClosed,
    ConfigurationError,
    InvalidDecision,
    InvalidInput,
    KeyConflict,
    LeaseLost,
    RunNotResumable,
    UnknownApproval,
    UnknownRun,
    UnknownWorkflow,
)
from stepwell.messages import AssistantMessage, Request, ToolMessage, Usage
from stepwell.rules.approval import decide_approval
from stepwell.state.circumstances import Circumstances
from stepwell.views.runs import RunDetail
from tests.engines import AT_ONCE, Till, opened, requests, shown
from tests.narrowing import present
from tests.waiting import eventually

NOW = datetime(2027, 3, 14, 12, tzinfo=UTC)
PAY, WIRE, LOOK = ("pay", {"amount": 1}), ("wire", {"amount": 1}), ("look", {"q": "a"})
SLOW_DOWN = ProviderError("429", kind="rate_limited", retryable=True)


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def make(tmp_path: Path, till: Till) -> Iterator[Callable[..., Engine]]:
    """Opens engines on one file; they are closed when the test ends."""
    engines = []

    def _make(*replies: Any, **options: Any) -> Engine:
        engine = opened(tmp_path / "runs.db", *replies, **{"tools": till.tools} | options)
        engines.append(engine)
        return engine

    yield _make
    for engine in engines:
        engine.close()


def triggers(engine: Engine, run: RunDetail) -> list[str]:
    return [entry.trigger for entry in engine.history(run.id)]


# -- from start to end


def test_a_run_is_driven_to_its_answer(make: Callable[..., Engine], till: Till) -> None:
    usage = Usage(10, 4, 2, Decimal("0.0001"))
    engine = make(Reply("Wait.", calls=[PAY], usage=usage), Reply("Paid.", usage=usage))
    run = engine.run("w", "Pay one.", user="ann")
    assert (run.state, run.answer, run.input, run.user) == ("done", "Paid.", "Pay one.", "ann")
    assert (till.effects, till.keys) == (["paid 1"], [f"{run.id}-1"])
    assert (run.used.turns, run.used.tool_calls, run.used.cost) == (2, 1, Decimal("0.0002"))
    assert (run.owner, run.error, run.attempt, run.stuck) == (None, None, 1, False)
    assert triggers(engine, run) == ["start", "request_tools", "results_ready", "answer"]
    assert [(m.role, m.text) for m in run.messages] == [
        ("user", "Pay one."),
        ("assistant", "Wait."),
        ("tool", '{"ok":true,"result":"paid 1"}'),
        ("assistant", "Paid."),
    ]
    assert [(t.step, t.type) for t in run.trace] == [
        (1, "reasoning"),
        (1, "tool_call"),
        (1, "observation"),
    ]


def test_what_is_shown_of_a_run_does_not_change(make: Callable[..., Engine]) -> None:
    with pytest.raises(FrozenInstanceError):
        make(Reply("x")).run("w", "Go.").state = "failed"  # type: ignore[misc]


def test_two_rounds_cost_five_transitions(make: Callable[..., Engine]) -> None:  # 2 N + 1
    engine = make(Reply(calls=[LOOK]), Reply(calls=[LOOK]), Reply("done"))
    assert len(engine.history(engine.run("w", "Go.").id)) == 1 + 5


def test_submit_only_inserts_and_work_drives_whatever_is_due_the_oldest_first(
    make: Callable[..., Engine], till: Till
) -> None:
    order: list[str] = []

    def complete(request: Request) -> Reply:
        order.append(request.transcript[0].text)
        return Reply("ok")

    engine = make(complete)
    runs = [engine.submit("w", text) for text in ("a", "b", "c")]
    assert ([run.state for run in runs], order) == (["awaiting_model"] * 3, [])
    engine.work(until_idle=True, concurrency=1)
    assert order == ["a", "b", "c"]
    assert [engine.get(run.id).state for run in runs] == ["done"] * 3


def test_every_transition_is_told_once_and_in_order_and_text_as_it_arrives(
    make: Callable[..., Engine],
) -> None:
    told: list[Any] = []
    heard: list[str] = []
    engine = make(Reply("Wait.", calls=[WIRE]), Reply("done"))
    run = engine.run("w", "Go.", on_transition=told.append, on_text=heard.append)
    engine.approve(run.id)
    engine.resume(run.id, on_transition=told.append, on_text=heard.append)
    assert [entry.seq for entry in told] == [1, 2, 3, 5, 6, 7]  # the decision, 4, was a person's
    assert told == [entry for entry in engine.history(run.id) if entry.seq != 4]
    assert heard == ["Wait.", "done"]


@pytest.mark.parametrize(
    ("workflow", "text", "options", "error"),
    [
        ("nobody", "Go.", {}, UnknownWorkflow),
        ("w", " ", {}, InvalidInput),
        ("w", "Go.", {"approve": "maybe"}, InvalidInput),
        ("w", "Go.", {"max_turns": -1}, InvalidInput),
        ("w", "Go.", {"model": "nobody:x"}, ConfigurationError),
        ("w", "Go.", {"model": "scripted:none.yaml"}, ConfigurationError),
    ],
)
def test_misuse_starts_nothing(
    make: Callable[..., Engine],
    workflow: str,
    text: str,
    options: dict[str, Any],
    error: type[Exception],
) -> None:
    engine = make(Reply("x"))
    with pytest.raises(error):
        engine.run(workflow, text, **options)
    assert engine.runs() == []


def test_a_workflow_without_a_model(tmp_path: Path) -> None:
    with (
        Engine(tmp_path / "runs.db", workflows=[Agent("w")], settings=AT_ONCE) as engine,
        pytest.raises(ConfigurationError, match="does not name a model"),
    ):
        engine.run("w", "Go.")


def test_a_run_is_found_by_its_id_by_a_beginning_of_it_and_as_the_last(
    make: Callable[..., Engine],
) -> None:
    engine = make(Reply("x"))
    first, last = engine.run("w", "a"), engine.run("w", "b")
    assert engine.get(first.id.lower()) == engine.get(first.id)
    assert engine.get(last.id[:25]).id in {first.id, last.id}
    assert engine.get("last").input == "b"
    assert [run.id for run in engine.runs()] == [last.id, first.id]
    assert [run.input for run in engine.runs(limit=1)] == ["b"]
    assert len(engine.runs(state="done", workflow="w")) == 2
    assert engine.runs(state="failed") == engine.runs(workflow="v") == []


@pytest.mark.parametrize("text", ["last", "", "7", "U", "0%", "no-such"])
def test_a_run_that_does_not_exist(make: Callable[..., Engine], text: str) -> None:
    with pytest.raises(UnknownRun):
        make(Reply("x")).get(text)


def test_a_beginning_that_means_several_runs_is_refused_with_their_ids(
    make: Callable[..., Engine],
) -> None:
    engine = make(Reply("x"))
    first, last = engine.run("w", "a"), engine.run("w", "b")
    with pytest.raises(UnknownRun, match=f"{last.id}, {first.id}"):
        engine.get(first.id[:2])


# -- keys


def test_the_same_key_and_input_find_the_run_again(make: Callable[..., Engine], till: Till) -> None:
    engine = make(Reply(calls=[PAY]), Reply("done"))
    first = engine.run("w", "Go.", key="k")
    assert engine.run("w", "Go.", key="k") == first
    assert engine.submit("w", "Go.", key="k") == first
    assert (till.effects, len(engine.runs())) == (["paid 1"], 1)


def test_the_same_key_with_another_input_is_a_conflict(make: Callable[..., Engine]) -> None:
    engine = make(Reply("x"))
    engine.run("w", "Go.", key="k")
    with pytest.raises(KeyConflict, match="another input"):
        engine.run("w", "Stop.", key="k")
    assert len(engine.runs()) == 1


def test_a_key_belongs_to_one_workflow(tmp_path: Path) -> None:
    workflows = [Agent(name, model=ScriptedModel([Reply(name)])) for name in ("v", "w")]
    with Engine(tmp_path / "runs.db", workflows=workflows, settings=AT_ONCE) as engine:
        assert engine.run("v", "Go.", key="k").answer == "v"
        assert engine.run("w", "Go.", key="k").answer == "w"


def test_a_live_run_with_this_key_is_driven_on(make: Callable[..., Engine], till: Till) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("done"))
    parked = engine.run("w", "Go.", key="k")
    assert engine.run("w", "Go.", key="k").id == parked.id
    assert len(engine.approvals()) == 1
    engine.approve(parked.id)
    assert engine.run("w", "Go.", key="k").answer == "done"
    assert till.effects == ["wired 1"]


def test_a_run_that_somebody_drives_is_followed(make: Callable[..., Engine]) -> None:
    begun, go = threading.Event(), threading.Event()

    @tool
    def hold() -> str:
        """Wait for the test."""
        begun.set()
        assert go.wait(30)
        return "held"

    engine = make(Reply(calls=[("hold", {})]), Reply("done"), tools=[hold])
    ended: list[Any] = []
    told: list[Any] = []

    def start(**options: Any) -> None:
        ended.append(engine.run("w", "Go.", key="k", **options))

    driver = threading.Thread(target=start)
    follower = threading.Thread(target=start, kwargs={"on_transition": told.append})
    driver.start()
    assert begun.wait(30)
    follower.start()
    eventually(lambda: len(told) == 2)
    go.set()
    driver.join(30)
    follower.join(30)
    assert [run.answer for run in ended] == ["done", "done"]
    assert [entry.trigger for entry in told] == [
        "start",
        "request_tools",
        "results_ready",
        "answer",
    ]


# -- approvals


def test_a_run_parks_with_its_question_and_holds_no_process(
    make: Callable[..., Engine], till: Till
) -> None:
    engine = make(Reply("I will wire.", calls=[("wire", {"amount": 900})], reasoning="Hm."))
    run = engine.run("w", "Go.")
    assert (run.state, run.owner, till.effects) == ("awaiting_approval", None, [])
    [question] = engine.approvals()
    assert (question.id, question.run, question.call) == (f"{run.id}-q1", run.id, f"{run.id}-1")
    assert (question.kind, question.tool, question.arguments) == (
        "approval",
        "wire",
        {"amount": 900},
    )
    assert (question.reasoning, question.status) == ("Hm.", "pending")
    assert engine.resume(run.id).state == "awaiting_approval"
    engine.work(until_idle=True)
    assert engine.approvals(run.id) == [question]


@pytest.mark.parametrize("by_run", [True, False])
def test_approved_it_runs_once_with_the_call_s_own_key(
    make: Callable[..., Engine], till: Till, by_run: bool
) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("done"))
    run = engine.run("w", "Go.")
    decided = engine.approve(run.id if by_run else f"{run.id}-q1", by="ann")
    assert (decided.status, decided.decided_by, till.effects) == ("approved", "ann", [])
    assert engine.resume(run.id).answer == "done"
    assert (till.effects, till.keys) == (["wired 1"], [f"{run.id}-1"])
    by = {entry.trigger: entry.by for entry in engine.history(run.id)}
    assert by["decided"] == "ann"


def test_a_worker_goes_on_after_a_decision(make: Callable[..., Engine], till: Till) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("done"))
    run = engine.submit("w", "Go.")
    engine.work(until_idle=True)
    engine.approve(run.id)
    engine.work(until_idle=True)
    assert (engine.get(run.id).state, till.effects) == ("done", ["wired 1"])


def test_an_edit_runs_under_the_same_key_and_the_model_reads_what_ran(
    make: Callable[..., Engine], till: Till
) -> None:
    engine = make(Reply(calls=[("wire", {"amount": 900})]), Reply("done"))
    run = engine.run("w", "Go.")
    assert engine.approve(run.id, edit={"amount": 90}).arguments == {"amount": 90}
    run = engine.resume(run.id)
    assert (till.effects, till.keys) == (["wired 90"], [f"{run.id}-1"])
    assert (run.calls[0].arguments, run.calls[0].edited_arguments) == (
        {"amount": 900},
        {"amount": 90},
    )
    assert shown(engine)["call_1"]["edited_arguments"] == {"amount": 90}


def test_an_invalid_edit_changes_nothing(make: Callable[..., Engine]) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("done"))
    run = engine.run("w", "Go.")
    with pytest.raises(InvalidDecision, match="should be a valid integer"):
        engine.approve(run.id, edit={"amount": "90"})
    assert len(engine.history(run.id)) == 3
    assert engine.approvals()[0].status == "pending"


def test_denied_the_model_reads_why(make: Callable[..., Engine], till: Till) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("Then not."))
    run = engine.run("w", "Go.")
    engine.deny(run.id, by="ann", reason="Too much.")
    assert engine.resume(run.id).answer == "Then not."
    assert till.effects == []
    assert "Too much." in shown(engine)["call_1"]["error"]["message"]


def test_all_of_this_tool_is_asked_about_no_more(make: Callable[..., Engine], till: Till) -> None:
    engine = make(Reply(calls=[WIRE, WIRE]), Reply(calls=[WIRE]), Reply("done"))
    run = engine.run("w", "Go.")
    engine.approve(f"{run.id}-q2", all_of_tool=True)
    assert engine.approvals() == []
    assert engine.resume(run.id).state == "done"
    assert till.effects == ["wired 1"] * 3
    assert engine.run("w", "Another run.").state == "awaiting_approval"


def test_c08_decisions_in_any_order_reach_the_call_they_name(
    make: Callable[..., Engine], till: Till
) -> None:
    calls = [ToolCall("wire", {"amount": n}, f"k{n}") for n in (1, 9999, 7)]
    engine, other = make(Reply(calls=calls), Reply("done")), make(Reply("x"))
    run = engine.run("w", "Go.")
    with pytest.raises(UnknownApproval, match="several open questions"):
        engine.approve(run.id)
    with pytest.raises(UnknownApproval):
        engine.approve(f"{run.id}-q4")
    engine.deny(f"{run.id}-q2")
    other.approve(f"{run.id}-q3")
    engine.approve(f"{run.id}-q1")
    assert engine.resume(run.id).state == "done"
    assert sorted(till.effects) == ["wired 1", "wired 7"]
    assert {id_: o["ok"] for id_, o in shown(engine).items()} == {
        "k1": True,
        "k9999": False,
        "k7": True,
    }


@pytest.mark.parametrize("again", ["approve", "deny"])
def test_c09_a_second_answer_is_refused_and_names_the_first(
    make: Callable[..., Engine], again: str
) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("done"))
    run = engine.run("w", "Go.")
    engine.approve(f"{run.id}-q1", by="ann")
    seq = len(engine.history(run.id))
    with pytest.raises(ApprovalClosed, match="approved by ann"):
        getattr(engine, again)(f"{run.id}-q1", by="bob")
    assert len(engine.history(run.id)) == seq


def test_c09_of_two_people_who_answer_in_the_same_millisecond_one_is_told(
    make: Callable[..., Engine],
) -> None:
    engine = make(Reply(calls=[WIRE, WIRE]))
    number = 1
    with freeze_time(NOW):
        engine.run("w", "Go.")
        ann, bob = engine.store.load(number), engine.store.load(number)
        for snapshot, verdict in ((ann, Verdict.APPROVE), (bob, Verdict.DENY)):
            decision = Decision(verdict=verdict)
            change = decide_approval(
                engine.workflows["w"], snapshot, 1, decision, None, Circumstances(now=NOW)
            )
            if verdict is Verdict.APPROVE:
                engine.store.record(snapshot, change, driven=False)
            else:
                with pytest.raises(LeaseLost):
                    engine.store.record(snapshot, change, driven=False)
    assert engine.get("last").approvals[0].status == "approved"


def test_c09_an_approval_is_used_once_however_the_next_model_call_fails(
    make: Callable[..., Engine], till: Till
) -> None:
    engine = make(Reply(calls=[WIRE]), SLOW_DOWN, SLOW_DOWN, Reply("done"))
    run = engine.run("w", "Go.", approve=lambda _question: True)
    assert (run.state, till.effects) == ("done", ["wired 1"])
    assert triggers(engine, run).count("retry") == 2


def test_an_expired_question_counts_as_denied(make: Callable[..., Engine], till: Till) -> None:
    with freeze_time(NOW) as frozen:
        engine = make(Reply(calls=[WIRE]), Reply("Nobody agreed."))
        run = engine.run("w", "Go.")
        frozen.tick(timedelta(days=7, seconds=-1))
        assert engine.resume(run.id).state == "awaiting_approval"
        frozen.tick(1)
        with pytest.raises(ApprovalClosed, match="expired"):
            engine.approve(run.id)
        engine.work(until_idle=True)
        run = engine.get(run.id)
    assert (run.answer, till.effects, run.approvals[0].status) == ("Nobody agreed.", [], "expired")


CALLBACKS = {
    "yes": (lambda _q: True, "done", ["wired 1"]),
    "no": (lambda _q: False, "done", []),
    "no answer": (lambda _q: None, "awaiting_approval", []),
    "a decision": (
        lambda _q: Decision(verdict=Verdict.APPROVE, edit={"amount": 5}),
        "done",
        ["wired 5"],
    ),
    "of the question": (lambda q: q.arguments["amount"] == 1, "done", ["wired 1"]),
}


@pytest.mark.parametrize(("decider", "state", "effects"), CALLBACKS.values(), ids=CALLBACKS)
def test_a_function_may_decide(
    make: Callable[..., Engine],
    till: Till,
    decider: Callable[..., Any],
    state: str,
    effects: list[str],
) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("done"))
    run = engine.run("w", "Go.", approve=decider)
    assert (run.state, till.effects) == (state, effects)
    decided = [a.decided_by for a in run.approvals]
    assert decided == [None if state == "awaiting_approval" else "callback"]


@pytest.mark.parametrize(
    ("policy", "effects", "status"), [("all", ["wired 1"], "ok"), ("deny", [], "denied")]
)
def test_a_policy_decides_without_a_question(
    make: Callable[..., Engine], till: Till, policy: str, effects: list[str], status: str
) -> None:
    engine = make(Reply(calls=[WIRE]), Reply("done"))
    run = engine.run("w", "Go.", approve=policy)
    assert (run.state, till.effects, run.approvals) == ("done", effects, ())
    assert run.calls[0].status == status


# -- limits


def test_a_limit_caps_and_a_raise_goes_on(make: Callable[..., Engine], till: Till) -> None:
    engine = make(Reply(calls=[PAY]), Reply(calls=[PAY]), Reply("done"))
    run = engine.run("w", "Go.", max_turns=1)
    assert (run.state, present(run.error)["type"]) == ("capped", "max_turns")
    assert "1 model call (max_turns)" in present(run.answer)
    assert engine.resume(run.id).state == "capped"
    assert engine.resume(run.id, max_turns=1).state == "capped"
    run = engine.resume(run.id, max_turns=1, by="ann")
    assert (run.answer, run.limits.max_turns, run.used.turns) == ("done", 3, 3)
    assert till.effects == ["paid 1", "paid 1"]
    assert [e.by for e in engine.history(run.id) if e.trigger == "top_up"] == [None, "ann"]


def test_the_limit_of_tool_calls(make: Callable[..., Engine], till: Till) -> None:
    engine = make(Reply(calls=[PAY, PAY, PAY]), Reply("done"))
    run = engine.run("w", "Go.", max_tool_calls=2)
    assert (run.state, [c.status for c in run.calls]) == ("capped", ["ok", "ok", "not_run"])
    assert engine.resume(run.id, max_tool_calls=1).answer == "done"
    assert till.effects == ["paid 1", "paid 1"]


def test_no_model_call_is_made_beyond_the_limit(make: Callable[..., Engine]) -> None:
    engine = make(Reply(calls=[LOOK]))
    assert engine.run("w", "Go.", max_turns=4).used.turns == 4
    assert len(requests(engine)) == 4
    assert engine.run("w", "Go.", max_turns=0).state == "capped"
    assert len(requests(engine)) == 4


# -- the end at a person's wish, and after failures


def test_a_waiting_run_is_cancelled_at_once(make: Callable[..., Engine], till: Till) -> None:
    engine = make(Reply(calls=[WIRE]))
    run = engine.run("w", "Go.")
    cancelled = engine.cancel(run.id, by="ann")
    assert (cancelled.state, present(cancelled.error)["message"]) == (
        "cancelled",
        "Cancelled by ann.",
    )
    assert (engine.approvals(), cancelled.calls[0].status) == ([], "not_run")
    assert engine.cancel(run.id).state == "cancelled"
    with pytest.raises(ApprovalClosed, match="withdrawn"):
        engine.approve(f"{run.id}-q1")
    with pytest.raises(RunNotResumable):
        engine.resume(run.id)


def test_a_run_that_has_ended_is_not_cancelled(make: Callable[..., Engine]) -> None:
    engine = make(Reply("done"))
    run = engine.run("w", "Go.")
    with pytest.raises(RunNotResumable, match="done already"):
        engine.cancel(run.id)
    assert engine.get(run.id) == run


def test_a_driven_run_is_cancelled_by_its_driver_before_the_next_effect(
    make: Callable[..., Engine],
) -> None:
    begun, go, effects = threading.Event(), threading.Event(), []

    @tool
    def hold(n: int) -> str:
        """Wait for the test."""
        effects.append(n)
        begun.set()
        assert go.wait(30)
        return "held"

    calls = [("hold", {"n": n}) for n in (1, 2)]
    engine = make(Reply(calls=calls), Reply("done"), tools=[hold], parallel=1)
    driver = threading.Thread(target=engine.run, args=("w", "Go."))
    driver.start()
    assert begun.wait(30)
    asked = engine.cancel("last", by="ann")
    assert (asked.state, asked.cancel_requested) == ("dispatching", "ann")
    go.set()
    driver.join(30)
    run = engine.get("last")
    assert (run.state, present(run.error)["message"], effects) == (
        "cancelled",
        "Cancelled by ann.",
        [1],
    )
    assert run.calls[0].status == "ok"
    assert len(requests(engine)) == 1


def test_a_failed_run_is_resumed_with_what_it_had(make: Callable[..., Engine], till: Till) -> None:
    broken = ProviderError("401", kind="authentication")
    engine = make(Reply(calls=[PAY]), broken, Reply("done"))
    run = engine.run("w", "Go.")
    assert (run.state, present(run.error)["type"]) == ("failed", "authentication")
    assert engine.resume(run.id).state == "failed"  # the script's first attempt, once more
    fixed = make(Reply(calls=[PAY]), Reply("done"))
    assert fixed.resume(run.id, by="ann").answer == "done"
    assert till.effects == ["paid 1"]


def test_a_finished_run_is_resumed_to_its_answer(make: Callable[..., Engine]) -> None:
    engine = make(Reply("done"))
    run = engine.run("w", "Go.")
    assert engine.resume(run.id) == run
    with pytest.raises(RunNotResumable, match="limits cannot be raised any more"):
        engine.resume(run.id, max_turns=1)


# -- what models and tools send (A03, A15, B01, B04, B06, B14, E04, E08)


def test_a03_one_failure_of_three(make: Callable[..., Engine], till: Till) -> None:
    calls = [
        ToolCall("look", {"q": "a"}, "p1"),
        ToolCall("fail", {"text": "403"}, "p2"),
        ToolCall("look", {"q": "b"}, "p3"),
    ]
    engine = make(Reply(calls=calls), Reply("done"))
    assert engine.run("w", "Go.").state == "done"
    results = shown(engine)
    assert list(results) == ["p1", "p2", "p3"]
    assert results["p2"]["error"] == {"type": "PermissionError", "message": "403", "hint": ""}
    assert (results["p1"]["result"], results["p3"]["result"]) == ("about a", "about b")
    assert sorted(till.effects) == ["about a", "about b"]


@pytest.mark.parametrize(
    "text",
    ['{"output":"[execution interrupted - user stop]"}', "It was interrupted, and a person found"],
)
def test_a15_a_result_that_quotes_a_marker_is_a_result(
    make: Callable[..., Engine], text: str
) -> None:
    @tool
    def read() -> str:
        """Read."""
        return text

    engine = make(Reply(calls=[("read", {})]), Reply("done"), tools=[read])
    run = engine.run("w", "Go.")
    assert (run.calls[0].status, shown(engine)["call_1"]["result"]) == ("ok", text)


def test_e08_bad_calls_never_stop_the_run(make: Callable[..., Engine], till: Till) -> None:
    bad: list[tuple[str, dict[str, Any] | str | None]] = [
        ("get_wether", {}),
        ("", {}),
        ("Pay", {"amount": 1}),
        ("pay", "{"),
        ("pay", {}),
        ("pay", None),
    ]
    engine = make(Reply(calls=bad), Reply(calls=[PAY]), Reply("done"))
    run = engine.run("w", "Go.")
    assert (run.state, till.effects) == ("done", ["paid 1"])
    assert [c.status for c in run.calls] == ["error"] * 6 + ["ok"]


def test_e08_errors_for_ever_are_bounded(make: Callable[..., Engine]) -> None:
    engine = make(Reply(calls=[("nothing", {})]))
    run = engine.run("w", "Go.")
    assert (run.state, run.used.turns, run.used.tool_calls) == ("capped", 4, 4)
    assert present(run.error)["type"] == "repeated_call"


TEXTS = {
    "ok \udcb2 end": "ok \ufffd end",
    "a\x00b": "a\u2400b",
    "\x1b[2J": "\x1b[2J",
    "e\u0301 \u202e": "e\u0301 \u202e",
}


def test_b04_text_that_cannot_be_stored_does_not_poison_the_run(
    make: Callable[..., Engine],
) -> None:
    texts = list(TEXTS)

    @tool
    def echo(n: int, text: str = "") -> str:
        """Say something odd."""
        return texts[n] + text

    calls = [("echo", {"n": n}) for n in range(4)]
    odd = ("echo", '{"n": 3, "text": "\\ud83d"}')
    engine = make(Reply("\ud800", calls=[*calls, odd]), Reply("done"), tools=[echo])
    run = engine.run("w", "Go \udcff.", user="ann\udcff", key="k\0")
    assert (run.state, run.input, run.user) == ("done", "Go \ufffd.", "ann\ufffd")
    results = [outcome["result"] for outcome in shown(engine).values()]
    assert results == [*TEXTS.values(), "e\u0301 \u202e\ufffd"]
    for request in requests(engine):
        repr(request).encode()
        for message in request:
            message.text.encode()


class Colour(Enum):
    RED = "red"


@dataclass
class Due:
    at: datetime


class Model(BaseModel):
    n: Decimal


def itself() -> list[list[list[Any]]]:
    found: list[Any] = []
    found.append(found)
    return found


MOMENT = datetime(2027, 3, 14, 2, 30, tzinfo=UTC)
# B06: each value with the JSON that the model reads, or None where there is no JSON form.
VALUES: dict[str, tuple[Callable[[], Any], Any]] = {
    "datetime": (lambda: MOMENT, "2027-03-14T02:30:00Z"),
    "Decimal": (lambda: Decimal("0.10"), "0.10"),
    "bytes": (lambda: b"\xff\x00", "/wA="),
    "set": (lambda: {3, 1, 2}, [1, 2, 3]),
    "Path": (lambda: Path("a/b"), "a/b"),
    "UUID": (lambda: UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    "dataclass": (lambda: Due(MOMENT), {"at": "2027-03-14T02:30:00Z"}),
    "pydantic": (lambda: Model(n=Decimal("1.50")), {"n": "1.50"}),
    "Enum": (lambda: Colour.RED, "red"),
    "exception": (lambda: ValueError("x"), "ValueError: x"),
    "nothing": (lambda: None, None),
    "object": (object, ...),
    "generator": (lambda: (n for n in [1]), ...),
    "tuple key": (lambda: {(1, 2): 3}, {"[1,2]": 3}),
    "keys that are written alike": (lambda: {1: "a", "1": "b"}, ...),
    "contains itself": (itself, ...),
    "not finite": (lambda: float("nan"), "nan"),
}


def test_b06_whatever_a_tool_returns_the_run_goes_on_and_the_effect_is_recorded(
    make: Callable[..., Engine],
) -> None:
    names, run_once = list(VALUES), []

    @tool
    def give(n: int) -> object:
        """Return something."""
        run_once.append(n)
        return VALUES[names[n]][0]()

    calls = [("give", {"n": n}) for n in range(len(names))]
    engine = make(Reply(calls=calls), Reply("done"), tools=[give])
    run = engine.run("w", "Go.")
    assert (run.state, sorted(run_once)) == ("done", list(range(len(names))))
    for name, call, outcome in zip(names, run.calls, shown(engine).values(), strict=True):
        expected = VALUES[name][1]
        if expected is ...:
            assert (name, call.status, outcome["error"]["type"]) == (
                name,
                "error",
                "unserialisable_result",
            )
        else:
            assert (name, call.status, outcome.get("result")) == (name, "ok", expected)


def test_b14_big_results_are_bounded_for_the_model_and_kept_whole_for_people(
    make: Callable[..., Engine],
) -> None:
    @tool(max_result=90_000)
    def big(n: int) -> str:
        """Return a lot."""
        return str(n) * 200_000

    @tool
    def rows() -> list[int]:
        """Return many rows."""
        return list(range(45_000))

    calls = [("big", {"n": 1}), ("big", {"n": 2}), ("big", {"n": 3}), ("rows", {})]
    engine = make(
        Reply(calls=calls), Reply(calls=calls), Reply("done"), tools=[big, rows], parallel=1
    )
    run = engine.run("w", "Go.")
    assert run.state == "done"
    assert len(present(run.calls[0].full_result)) == 200_000
    assert json.loads(present(run.calls[3].full_result)) == list(range(45_000))
    for message in requests(engine)[-1]:
        assert len(message.text) < 91_000
    of_one_batch = [m.text for m in requests(engine)[1] if isinstance(m, ToolMessage)]
    assert sum(map(len, of_one_batch)) < 102_000


def test_e04_calls_without_ids_get_their_own_results(
    make: Callable[..., Engine], till: Till
) -> None:
    calls = [ToolCall("look", {"q": "a"}), ToolCall("look", '{"q": "b"}', "")]
    engine = make(Reply(calls=calls), Reply("done"))
    assert engine.run("w", "Go.").state == "done"
    asked = next(m for m in requests(engine)[-1] if isinstance(m, AssistantMessage)).calls
    results = shown(engine)
    assert [results[c.id]["result"] for c in asked] == [f"about {c.arguments['q']}" for c in asked]


def test_notes_are_kept_with_the_outcome_and_read_by_later_calls(
    make: Callable[..., Engine],
) -> None:
    seen = []

    @tool
    def note(text: str, context: ToolContext) -> str:
        """Keep a note."""
        seen.append(context.notes.read())
        context.notes.add(text)
        return "kept"

    engine = make(
        Reply(calls=[("note", {"text": "a"})]),
        Reply(calls=[("note", {"text": "b"})]),
        Reply("x"),
        tools=[note],
    )
    assert engine.run("w", "Go.").state == "done"
    assert seen == [[], ["a"]]
    assert engine.store.load(1).notes == ["a", "b"]
