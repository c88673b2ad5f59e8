"""Forks: a new run from any transition of another, linked both ways, with nothing repeated."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell import Answer, Call, Engine, Pipeline, Reply, ScriptedModel, ToolContext, clock, tool
from stepwell.errors import InvalidInput, UnknownTransition, UnknownWorkflow
from stepwell.messages import AssistantMessage, ToolMessage, UserMessage
from stepwell.pipeline import Step
from stepwell.rules.change import Change
from stepwell.rules.fork import Fate, fork
from stepwell.state.snapshot import Snapshot
from tests.engines import Till, opened, requests
from tests.narrowing import expect, present


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def till() -> Till:
    return Till()


PAY = Reply("I pay.", [("look", {"q": "a"}), ("pay", {"amount": 5})])
WIRE = Reply("I wire.", [("wire", {"amount": 7})])


def test_a_fork_goes_on_from_there_and_both_name_each_other(file: Path, till: Till) -> None:
    with opened(file, PAY, Reply("Paid."), tools=till.tools) as engine:
        original = engine.run("w", "Go.", user="ann", max_turns=4, key="k")
        before = engine.get(original.id)
        at = next(e.seq for e in engine.history(original.id) if e.trigger == "results_ready")
        found = engine.fork(original.id, at, by="bob")
        after = engine.get(original.id)
    assert (found.state, found.answer, found.input, found.user) == ("done", "Paid.", "Go.", "ann")
    assert (found.key, found.limits, found.used.turns) == (None, original.limits, 1)
    assert found.forked_from is not None
    assert (found.forked_from.run, found.forked_from.at) == (original.id, at)
    assert [(one.run, one.at) for one in after.forks] == [(found.id, at)]
    assert replace(after, forks=()) == before
    assert [c.id for c in found.calls] == [f"{found.id}-1", f"{found.id}-2"]
    assert [c.outcome for c in found.calls] == [c.outcome for c in original.calls]
    assert sorted(till.effects) == ["about a", "paid 5"]


def test_its_history_begins_with_the_fork(file: Path, till: Till) -> None:
    with opened(file, PAY, Reply("Paid."), tools=till.tools) as engine:
        original = engine.run("w", "Go.")
        found = engine.fork(original.id, 4, by="bob", detach=True)
        [entry] = engine.history(found.id)
        with pytest.raises(UnknownTransition, match=r"no transition 3 of its own: .* forked at 4"):
            engine.get(found.id, at=3)
        assert engine.get(found.id, at=5).state == "awaiting_model"
    assert (entry.seq, entry.trigger, entry.source, entry.by) == (5, "fork", None, "bob")
    assert (found.seq, found.state) == (5, "awaiting_model")


def test_what_it_costs_is_not_counted_twice(file: Path, till: Till) -> None:
    with opened(file, PAY, Reply("Paid."), tools=till.tools) as engine:
        original = engine.run("w", "Go.")
        engine.fork(original.id, 4)
    with closing(sqlite3.connect(file)) as reader:
        replies = reader.execute("SELECT count(*) FROM transition WHERE input_tokens >= 0")
        assert replies.fetchone() == (3,)


def test_an_ended_run_goes_on_with_what_is_said_now(file: Path, till: Till) -> None:
    with opened(file, PAY, Reply("Paid."), Reply("Again."), tools=till.tools) as engine:
        original = engine.run("w", "Go.")
        with pytest.raises(InvalidInput, match=r"done at transition 5.*--message"):
            engine.fork(original.id, original.seq)
        found = engine.fork(original.id, original.seq, message="And now?")
    assert [m.text for m in found.messages][-3:] == ["Paid.", "And now?", "Again."]


def test_a_cancelled_and_a_capped_run_go_on_as_forks(file: Path, till: Till) -> None:
    with opened(file, PAY, Reply("Paid."), tools=till.tools) as engine:
        capped = engine.run("w", "Go.", max_turns=1)
        assert capped.state == "capped"
        found = engine.fork(capped.id, capped.seq)
        assert (found.state, found.used.turns, found.limits.max_turns) == ("done", 1, 1)
        waits = engine.submit("w", "Go.")
        ended = engine.cancel(waits.id)
        assert engine.fork(ended.id, ended.seq, max_turns=9).limits.max_turns == 9


def test_a_call_that_may_still_run_in_the_original_is_asked_about(file: Path, till: Till) -> None:
    with opened(file, WIRE, Reply("Wired."), tools=till.tools) as engine:
        original = engine.run("w", "Go.")
        found = engine.fork(original.id, original.seq)
        assert found.state == "awaiting_approval"
        [question] = engine.approvals(found.id)
        assert (question.kind, question.inherited) == ("approval", True)
        assert question.expires_at is not None
        engine.approve(question.id)
        assert engine.resume(found.id).state == "done"
        # and now that it has begun there, a second fork does not simply ask whether it may
        again = engine.fork(original.id, original.seq)
        [doubt] = engine.approvals(again.id)
    assert (doubt.kind, doubt.late_outcome) == ("in_doubt", {"ok": True, "result": "wired 7"})
    assert till.effects == ["wired 7"]
    assert till.keys == [f"{found.id}-1"]


def test_a_call_that_began_later_is_in_doubt_with_what_it_came_to(file: Path, till: Till) -> None:
    with opened(file, WIRE, Reply("Wired."), tools=till.tools) as engine:
        parked = engine.run("w", "Go.")
        engine.approve(parked.id)
        assert engine.resume(parked.id).state == "done"
        found = engine.fork(parked.id, parked.seq)
        [question] = engine.approvals(found.id)
        assert (question.kind, question.late_outcome) == (
            "in_doubt",
            {"ok": True, "result": "wired 7"},
        )
        engine.approve(question.id, result="wired 7, before")
        assert engine.resume(found.id).state == "done"
        assert engine.get(found.id).calls[0].outcome == {"ok": True, "result": "wired 7, before"}
    assert till.effects == ["wired 7"]


def test_a_call_that_began_in_an_ancestor_is_in_doubt_in_a_fork_of_a_fork(
    file: Path, till: Till
) -> None:
    with opened(file, WIRE, Reply("Wired."), tools=till.tools) as engine:
        original = engine.run("w", "Go.")
        waiting = engine.fork(original.id, original.seq)
        engine.approve(original.id)
        assert engine.resume(original.id).state == "done"
        found = engine.fork(waiting.id, waiting.seq)
        [question] = engine.approvals(found.id)
    assert (question.kind, question.late_outcome) == ("in_doubt", {"ok": True, "result": "wired 7"})


def test_a_call_in_doubt_runs_again_only_where_a_person_says_so(file: Path, till: Till) -> None:
    with opened(file, PAY, Reply("Paid."), tools=till.tools) as engine:
        original = engine.run("w", "Go.")
        found = engine.fork(original.id, 2)
        assert (found.state, [c.status for c in found.calls]) == (
            "awaiting_approval", ["waiting", "in_doubt"],
        )  # fmt: skip
        assert sorted(till.effects) == ["about a", "paid 5"]
        engine.approve(found.id)
        found = engine.resume(found.id)
    assert [c.status for c in found.calls] == ["ok", "ok"]
    assert sorted(till.effects) == ["about a", "about a", "paid 5", "paid 5"]
    assert len(set(till.keys)) == 4  # an idempotency key is a call's id: new in a fork


def test_a_result_that_is_given_is_not_asked_about(file: Path, till: Till) -> None:
    with opened(file, PAY, Reply("Paid."), tools=till.tools) as engine:
        original = engine.run("w", "Go.")
        found = engine.fork(original.id, 2, tool_results={f"{original.id}-2": {"paid": 5}})
    assert found.state == "done"
    assert found.calls[1].outcome == {"ok": True, "result": {"paid": 5}}
    assert sorted(till.effects) == ["about a", "about a", "paid 5"]


def test_what_never_began_and_cannot_any_more_simply_waits_again(file: Path, till: Till) -> None:
    with opened(file, WIRE, Reply("Wired."), tools=till.tools) as engine:
        parked = engine.run("w", "Go.")
        engine.cancel(parked.id)
        found = engine.fork(parked.id, 2)
        [question] = engine.approvals(found.id)
        assert question.kind == "approval"
        assert not question.inherited  # asked by the usual rules
        assert [e.trigger for e in engine.history(found.id)] == ["fork", "ask"]


def test_a_message_ends_the_open_calls_and_comes_after_their_results(
    file: Path, till: Till
) -> None:
    replies = [Reply("I wire.", [("look", {"q": "a"}), ("wire", {"amount": 7})]), Reply("Fine.")]
    with opened(file, *replies, tools=till.tools) as engine:
        parked = engine.run("w", "Go.")
        found = engine.fork(parked.id, parked.seq, message="Leave it.")
        assert (found.state, [c.status for c in found.calls]) == ("done", ["ok", "not_run"])
        [*_, shown] = requests(engine)
        engine.approve(parked.id)
        engine.resume(parked.id)
        later = engine.fork(parked.id, parked.seq, message="Leave it.")
        assert [c.status for c in later.calls] == ["ok", "unknown"]
    kinds = [UserMessage, AssistantMessage, ToolMessage, ToolMessage, UserMessage]
    assert [type(m) for m in shown] == kinds
    assert till.effects == ["about a", "wired 7"]


def test_an_approval_of_a_whole_tool_was_for_the_one_run(file: Path, till: Till) -> None:
    replies = [WIRE, Reply("More.", [("wire", {"amount": 8})]), Reply("Done.")]
    with opened(file, *replies, tools=till.tools) as engine:
        parked = engine.run("w", "Go.")
        engine.approve(parked.id, all_of_tool=True)
        done = engine.resume(parked.id)
        assert (done.state, till.effects) == ("done", ["wired 7", "wired 8"])
        at = next(e.seq for e in engine.history(done.id) if e.trigger == "results_ready")
        found = engine.fork(done.id, at)
    assert found.state == "awaiting_approval"
    assert [(a.status, a.all_of_tool) for a in found.approvals] == [
        ("approved", False),
        ("pending", False),
    ]


@tool(read_only=True)
def write_down(context: ToolContext) -> str:
    """Note something, and say a lot."""
    context.notes.add("seen")
    return "x" * 50_000


def test_notes_and_uncut_results_come_along(file: Path) -> None:
    replies = [Reply(calls=[("write_down", {})]), Reply("Done.")]
    with opened(file, *replies, tools=[write_down]) as engine:
        original = engine.run("w", "Go.")
        found = engine.fork(original.id, 3)
        assert found.calls[0].full_result == "x" * 50_000
        number = engine._number(found.id)
        assert engine.store.load(number).notes == ["seen"]


def test_an_original_that_moves_on_meanwhile_is_looked_at_again(file: Path, till: Till) -> None:
    with opened(file, WIRE, Reply("Wired."), tools=till.tools) as engine:
        parked = engine.run("w", "Go.")
        seen = []

        def begin(past: Snapshot, fate: Fate) -> Change:
            seen.append((set(fate.begun), set(fate.open)))
            if len(seen) == 1:
                engine.approve(parked.id)
                engine.resume(parked.id)
            workflow = engine.workflows["w"]
            return fork(workflow, past, fate, "01KPXG3SB0QRSTVWXYZ0123456", {}, clock.now())

        begun = engine.store.fork(engine._number(parked.id), parked.seq, begin)
    assert seen == [(set(), {1}), ({1}, set())]
    assert begun.state == "awaiting_approval"
    assert till.effects == ["wired 7"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tool_results": {"1": 0}}, "No call 1 of run .* was open at transition 3.* Open then: "),
        ({"tool_results": {"9": 0}}, "No call 9 "),
        ({"tool_results": {"call_2": 0}}, "No call call_2 "),
        ({"tool_results": {"2": iter(())}}, "cannot be the result of call 2"),
        ({"message": " "}, "The message is empty"),
        ({"max_turns": -1}, "at least 0"),
    ],
)
def test_what_cannot_be_is_refused_and_starts_nothing(
    file: Path, till: Till, options: dict[str, Any], said: str
) -> None:
    replies = [Reply("", [("look", {"q": "a"}), ("wire", {"amount": 7})]), Reply("Wired.")]
    with opened(file, *replies, tools=till.tools) as engine:
        parked = engine.run("w", "Go.")
        with pytest.raises(InvalidInput, match=said):
            engine.fork(parked.id, 3, **options)
        with pytest.raises(UnknownTransition, match="no transition 99: its last one is 4"):
            engine.fork(parked.id, 99)
        assert len(engine.runs()) == 1
    with Engine(file) as other, pytest.raises(UnknownWorkflow, match="no workflow 'w'"):
        other.fork(parked.id, 3)


def test_a_pipeline_is_told_nothing(file: Path, till: Till) -> None:
    def plan(_text: str, steps: Sequence[Step]) -> Any:
        return Answer("Paid.") if steps else Call("pay", amount=5)

    pipeline = Pipeline("p", plan=plan, tools=[till.pay], model=ScriptedModel([Reply("x")]))
    with Engine(file, workflows=[pipeline]) as engine:
        original = engine.run("p", "Go.")
        with pytest.raises(InvalidInput, match="its plan reads no messages"):
            engine.fork(original.id, original.seq, message="More.")
        found = engine.fork(original.id, 3)
    assert (found.state, found.answer, till.effects) == ("done", "Paid.", ["paid 5"])


RAW = [{"type": "reasoning", "id": "rs_1", "encrypted_content": "ENC"}, {"type": "thinking"}]


def test_a06_a07_what_a_provider_keeps_to_itself_comes_along_untouched(
    file: Path, till: Till
) -> None:
    asks = Reply("", [("look", {"q": "a"})], reasoning="Hm.", raw=RAW)
    with opened(file, asks, Reply("Seen."), tools=till.tools) as engine:
        original = engine.run("w", "Go.")
        engine.fork(original.id, 3)
        [_, first, second] = requests(engine)
    assert second == first
    assert expect(AssistantMessage, second[1]).raw == RAW


def test_c21_an_open_call_of_a_tool_that_is_gone_is_answered(file: Path, till: Till) -> None:
    replies = [Reply("", [("fail", {"text": "x"}), ("wire", {"amount": 7})]), Reply("Done.")]
    with opened(file, *replies, tools=till.tools) as engine:
        parked = engine.run("w", "Go.")
        engine.cancel(parked.id)
    with opened(file, *replies, tools=[till.look]) as later:
        found = later.fork(parked.id, 2)
        # `fail` had started, and nothing says any more that it only reads
        assert [c.status for c in found.calls] == ["in_doubt", "waiting"]
        later.deny(found.id)
        found = later.resume(found.id)
    assert [c.status for c in found.calls] == ["not_run", "error"]
    assert present(found.calls[1].outcome)["error"]["type"] == "unknown_tool"


def test_c22_what_a_fork_may_spend_holds(file: Path, till: Till) -> None:
    pays = [Reply(calls=[("pay", {"amount": n})]) for n in range(1, 10)]
    with opened(file, *pays, tools=till.tools) as engine:
        original = engine.run("w", "Go.", max_turns=2)
        found = engine.fork(original.id, original.seq, max_turns=3)
        assert (found.state, found.used.turns) == ("capped", 3)
        assert engine.fork(original.id, original.seq, max_turns=0).used.turns == 0


def test_a_run_had_the_model_and_the_limits_that_it_had_then(file: Path, till: Till) -> None:
    with opened(file, PAY, Reply("Paid."), tools=till.tools) as engine:
        capped = engine.run("w", "Go.", max_turns=1)
        done = engine.resume(capped.id, max_turns=4, model="scripted:python")
        then = engine.get(capped.id, at=capped.seq)
        assert (then.model, then.limits.max_turns, then.answer) == (None, 1, capped.answer)
        assert (done.model, done.limits.max_turns) == ("scripted:python", 5)
        assert engine.fork(done.id, capped.seq).limits.max_turns == 1
        assert engine.fork(done.id, 2, detach=True, model="scripted:python").model is not None


def test_an_edit_is_not_there_before_it_was_made(file: Path, till: Till) -> None:
    with opened(file, WIRE, Reply("Wired."), tools=till.tools) as engine:
        parked = engine.run("w", "Go.")
        engine.approve(parked.id, edit={"amount": 6})
        done = engine.resume(parked.id)
        before, after = (engine.get(done.id, at=parked.seq + more) for more in (0, 1))
        assert before.approvals == parked.approvals
        assert before.calls == parked.calls
        assert (after.calls[0].edited_arguments, after.approvals[0].edited) == ({"amount": 6}, True)
        assert engine.store.load(engine._number(parked.id)).batch[1].edited == {"amount": 6}
