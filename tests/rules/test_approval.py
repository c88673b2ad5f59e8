"""Questions to a person, and what each answer changes (C08, C09)."""

from datetime import timedelta
from typing import Any

import pytest

from stepwell import Approvals, ToolCall
from stepwell.errors import ApprovalClosed, InvalidDecision
from stepwell.messages import AssistantMessage, ToolMessage
from stepwell.rules.approval import digest
from stepwell.rules.decide import Wait
from stepwell.rules.recovery import cancel
from stepwell.state.circumstances import Circumstances
from stepwell.state.transcript import problems
from tests.in_memory import NOW, InMemory, agent
from tests.narrowing import expect, present

DAY = timedelta(days=1)


def parked(*calls: Any, **options: Any) -> InMemory:
    """A run that waits for a person to decide about these calls."""
    run = InMemory(agent(**options))
    run.asks(*calls)
    run.settle()
    assert run.state == "awaiting_approval"
    return run


def wires(*amounts: int) -> list[ToolCall]:
    return [ToolCall("wire", {"amount": amount}, f"k{amount}") for amount in amounts]


def in_doubt(*calls: tuple[str, dict[Any, Any]]) -> InMemory:
    """A run that asks what became of calls whose process was lost."""
    run = InMemory(agent())
    run.asks(*calls or [("pay", {"amount": 5})])
    run.crash()
    run.settle()
    assert run.state == "awaiting_approval"
    return run


def refused(run: InMemory, error: type[Exception], number: int = 1, **options: Any) -> str:
    """The refusal of an answer, which must have changed nothing."""
    before = (run.run, dict(run.snapshot.batch), dict(run.snapshot.approvals))
    with pytest.raises(error) as raised:
        run.deny(number) if options.pop("deny", False) else run.approve(number, **options)
    assert (run.run, dict(run.snapshot.batch), dict(run.snapshot.approvals)) == before
    return str(raised.value)


# -- the question


def test_a_question_is_about_one_exact_call_and_has_an_end() -> None:
    run = parked(*wires(1), approvals=Approvals(expire_after=DAY))
    [question] = run.open
    assert (question.number, question.call, question.kind) == (1, 1, "approval")
    assert (question.asked_at, question.expires_at, run.run.not_before) == (
        NOW,
        NOW + DAY,
        NOW + DAY,
    )
    assert run.history[-1].trigger == "ask"
    assert run.command() == Wait(NOW + DAY)


def test_seven_days_are_the_default() -> None:
    assert parked(*wires(1)).open[0].expires_at == NOW + 7 * DAY


def test_the_digest_depends_on_the_tool_and_every_argument_but_not_on_the_order_of_keys() -> None:
    # sha256sum of {"arguments":{"amount":1,"to":"ann"},"tool":"wire"}
    expected = "97c5ff5b6d7957fa3623ff31ff67078e9037697aeb9e9e8d462a203ebbb4a936"
    assert digest("wire", {"to": "ann", "amount": 1}) == expected
    assert digest("wire", {"amount": 1, "to": "ann"}) == expected
    different = {
        digest("wire", {"amount": 1}),
        digest("wire", {"amount": 1.0}),
        digest("wire", {"amount": "1"}),
        digest("wire", {"amount": True}),
        digest("wire", {"amount": 1, "x": None}),
        digest("pay", {"amount": 1}),
    }
    assert len(different) == 6


def test_everything_of_a_batch_is_asked_at_once_by_the_order_of_the_calls() -> None:
    run = InMemory(agent())
    run.asks(("pay", {"amount": 5}), *wires(1), ("delete", {"row": 101}), ("look", {"q": "a"}))
    run.times_out(1)
    run.ends(4)
    run.settle()
    assert [(a.number, a.call, a.kind) for a in run.open] == [
        (1, 1, "in_doubt"),
        (2, 2, "approval"),
        (3, 3, "approval"),
    ]
    assert len([change for change in run.history if change.trigger == "ask"]) == 1


# -- C08: which answer is for which call


def test_c08_each_decision_names_its_call_in_whatever_order_they_come() -> None:
    run = parked(*wires(1, 9999), ToolCall("delete", {"row": 700}, "k3"))
    assert run.deny(2, "too much").trigger == "decision"
    assert run.approve(3).trigger == "decision"
    assert run.state == "awaiting_approval"
    assert run.approve(1).trigger == "decided"
    run.claim()
    run.settle()
    assert run.statuses == ["running", "denied", "running"]
    run.ends(1, "wired 1")
    run.ends(3, "deleted")
    results = [expect(ToolMessage, m).call for m in run.snapshot.transcript[2:]]
    assert results == ["k1", "k9999", "k3"]
    assert run.error(2)[:2] == ("denied", "A person denied this call: too much")


def test_c08_equal_arguments_in_two_calls_are_two_questions() -> None:
    run = parked(("wire", {"amount": 1}), ("wire", {"amount": 1}))
    run.approve(1)
    assert [a.call for a in run.open] == [2]


def test_c08_there_is_no_answer_to_a_question_that_was_not_asked() -> None:
    assert "no longer open" in refused(parked(*wires(1)), ApprovalClosed, 2)


def test_who_decided_what_and_when_is_kept() -> None:
    run = parked(*wires(1))
    run.now = NOW + DAY
    change = run.deny(1, "no")
    [decided] = run.snapshot.approvals.values()
    assert (decided.status, decided.decided_by, decided.reason) == ("denied", "ann", "no")
    assert (decided.decided_at, decided.decided_seq, change.by) == (NOW + DAY, run.run.seq, "ann")


# -- C09: twice, late


@pytest.mark.parametrize("deny", [False, True])
def test_c09_a_second_answer_changes_nothing(deny: bool) -> None:
    run = parked(*wires(1, 2))
    run.approve(1)
    assert "no longer open: it is approved" in refused(run, ApprovalClosed, deny=deny)


def test_c09_an_answer_after_the_run_has_gone_on_changes_nothing() -> None:
    run = parked(*wires(1))
    run.approve(1)
    run.claim()
    run.settle()
    refused(run, ApprovalClosed)
    run.ends(1)
    run.asks(*wires(2))
    run.settle()
    refused(run, ApprovalClosed)


def test_c09_at_the_very_moment_of_expiry_it_is_too_late() -> None:
    run = parked(*wires(1))
    run.now = NOW + 7 * DAY
    assert "expired at 2027-03-21 12:00:00Z" in refused(run, ApprovalClosed)


def test_c09_after_the_run_was_cancelled_the_question_is_withdrawn() -> None:
    run = parked(*wires(1))
    run.apply(present(cancel(run.snapshot, "ann", Circumstances(now=NOW))))
    assert "it is withdrawn" in refused(run, ApprovalClosed)


def test_an_expired_question_counts_as_denied() -> None:
    run = parked(*wires(1))
    run.now = NOW + 7 * DAY
    run.claim()
    run.settle()
    assert (run.state, run.statuses) == ("awaiting_model", ["denied"])
    [question] = run.snapshot.approvals.values()
    assert (question.status, question.decided_by, question.decided_at) == ("expired", None, run.now)
    assert "No decision on this call" in run.error(1)[1]
    assert problems(run.snapshot.transcript) == []


def test_a_call_in_doubt_beside_an_expired_question_still_waits() -> None:
    run = InMemory(agent())
    run.asks(("pay", {"amount": 5}), *wires(1))
    run.times_out(1)
    run.settle()
    run.now = NOW + 7 * DAY
    run.claim()
    assert run.settle() == Wait(None)
    assert (run.state, run.run.not_before, run.run.owner) == ("awaiting_approval", None, None)
    assert [a.kind for a in run.open] == ["in_doubt"]


def test_an_early_answer_leaves_the_other_question_s_deadline() -> None:
    run = parked(*wires(1, 2))
    run.approve(1)
    assert run.run.not_before == NOW + 7 * DAY


# -- edits


def test_an_edit_runs_instead_under_the_same_number_and_the_model_is_told() -> None:
    run = parked(*wires(900))
    run.approve(1, edit={"amount": 90})
    run.claim()
    run.settle()
    [call] = run.calls
    assert (call.number, call.status, call.effective) == (1, "running", {"amount": 90})
    assert call.arguments == {"amount": 900}
    run.ends(1, "wired 90")
    assert run.calls[0].outcome == {
        "ok": True,
        "result": "wired 90",
        "edited_arguments": {"amount": 90},
    }
    assert expect(AssistantMessage, run.snapshot.transcript[1]).calls[0].arguments == {
        "amount": 900
    }


@pytest.mark.parametrize("edit", [{"amount": "90"}, {}, {"amount": 1, "to": "me"}, {"amount": 1.0}])
def test_an_edit_is_checked_like_the_model_s_own_arguments(edit: dict[str, Any]) -> None:
    assert "do not fit wire" in refused(parked(*wires(900)), InvalidDecision, edit=edit)


def test_an_edit_of_a_call_whose_tool_is_gone() -> None:
    run = parked(*wires(900))
    run.workflow = agent(tools=())
    refused(run, InvalidDecision, edit={"amount": 1})
    run.approve(1)
    run.claim()
    run.settle()
    assert run.error(1)[0] == "unknown_tool"


def test_the_digest_is_of_the_edited_arguments() -> None:
    run = parked(*wires(900))
    run.approve(1, edit={"amount": 90})
    assert run.snapshot.approvals[1].digest == digest("wire", {"amount": 90})


# -- all of this tool


def test_an_answer_for_the_whole_tool_settles_its_siblings_but_no_other_tool() -> None:
    run = parked(*wires(1, 2), ToolCall("delete", {"row": 101}))
    change = run.approve(2, all_of_tool=True)
    assert {a.number: a.status.value for a in change.approvals} == {1: "approved", 2: "approved"}
    assert [(a.number, a.call) for a in run.open] == [(3, 3)]
    assert [a.all_of_tool for a in run.snapshot.approvals.values()] == [False, True, False]
    assert run.snapshot.blanket == {"wire"}


def test_an_edit_for_the_whole_tool_changes_only_its_own_call() -> None:
    run = parked(*wires(1, 2))
    run.approve(1, all_of_tool=True, edit={"amount": 7})
    run.claim()
    run.settle()
    assert [c.effective for c in run.calls] == [{"amount": 7}, {"amount": 2}]


def test_a_blanket_does_not_reach_back_to_a_denied_call() -> None:
    run = parked(*wires(1, 2))
    run.deny(1)
    run.approve(2, all_of_tool=True)
    run.claim()
    run.settle()
    assert run.statuses == ["denied", "running"]


def test_a_sibling_in_doubt_is_not_settled_by_an_answer_for_the_whole_tool() -> None:
    run = InMemory(agent())
    run.asks(("delete", {"row": 1}), ("delete", {"row": 500}))
    run.times_out(1)
    run.settle()
    run.approve(2, all_of_tool=True)
    assert [(a.call, a.kind) for a in run.open] == [(1, "in_doubt")]


# -- in doubt


def test_a_question_in_doubt_has_no_end() -> None:
    [question] = in_doubt().open
    assert (question.kind, question.expires_at) == ("in_doubt", None)


def test_run_it_again() -> None:
    run = in_doubt()
    run.approve(1)
    run.claim()
    run.settle()
    assert run.statuses == ["running"]
    run.ends(1, "paid")
    assert run.state == "awaiting_model"


@pytest.mark.parametrize("result", ["paid 5", None, {"id": 7}, [1]])
def test_it_happened_and_this_is_its_result(result: Any) -> None:
    run = in_doubt()
    run.approve(1, happened=True, result=result)
    [call] = run.calls
    assert (call.status, call.outcome) == ("ok", {"ok": True, "result": result})
    assert run.snapshot.approvals[1].status == "resolved"
    run.claim()
    run.settle()
    assert run.state == "awaiting_model"


def test_it_did_not_happen() -> None:
    run = in_doubt()
    run.deny(1, "The bank never saw it.")
    assert run.statuses == ["not_run"]
    kind, message, _ = run.error(1)
    assert kind == "did_not_happen"
    assert message.endswith("The bank never saw it.")


@pytest.mark.parametrize("options", [{"edit": {"amount": 1}}, {"all_of_tool": True}])
def test_a_call_in_doubt_cannot_be_edited_nor_covered(options: dict[str, Any]) -> None:
    refused(in_doubt(), InvalidDecision, **options)


def test_a_result_is_only_for_a_call_in_doubt() -> None:
    run = parked(*wires(1))
    assert "has not started" in refused(run, InvalidDecision, happened=True, result=1)


def test_run_again_lost_again_asked_again() -> None:
    run = in_doubt()
    run.approve(1)
    run.claim()
    run.settle()
    run.crash()
    run.settle()
    assert [(a.number, a.call, a.kind) for a in run.open] == [(2, 1, "in_doubt")]


def test_two_calls_in_doubt_are_two_questions() -> None:
    run = in_doubt(("pay", {"amount": 5}), ("pay", {"amount": 6}))
    run.approve(1)
    run.deny(2)
    run.claim()
    run.settle()
    assert run.statuses == ["running", "not_run"]


def test_a_lost_call_that_had_been_approved_is_not_run_again_on_the_old_answer() -> None:
    run = parked(*wires(1))
    run.approve(1)
    run.claim()
    run.settle()
    run.crash()
    run.settle()
    assert (run.statuses, [(a.number, a.kind) for a in run.open]) == (
        ["in_doubt"],
        [(2, "in_doubt")],
    )


def test_a_result_without_a_json_form_is_refused() -> None:
    refused(in_doubt(), InvalidDecision, happened=True, result=object())


# -- text from people (B04)


def test_b04_what_a_person_writes_can_be_stored() -> None:
    run = parked(*wires(1))
    run.deny(1, "no \udcff\0")
    assert run.error(1)[1].endswith("no \ufffd\u2400")
    assert run.snapshot.approvals[1].reason == "no \ufffd\u2400"
    run = in_doubt()
    run.approve(1, happened=True, result={"text": "\udcff"})
    assert present(run.calls[0].outcome)["result"] == {"text": "\ufffd"}
