"""What a model's reply, or its failure, changes (A09, A10, E08, E10)."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from stepwell import Reply, ToolCall
from stepwell.messages import AssistantMessage, StopReason, Usage, UserMessage
from stepwell.rules.decide import AskModel, Wait
from stepwell.rules.turn import CUT_OFF, EMPTY
from stepwell.state.transcript import problems
from tests.in_memory import NOW, InMemory, agent
from tests.narrowing import expect, present

PAY = ToolCall("pay", {"amount": 1}, "p1")
ENCRYPTED = {"type": "reasoning", "encrypted_content": "ENC"}


def a_run(**options: Any) -> InMemory:
    return InMemory(agent(), **options)


def legal(run: InMemory) -> bool:
    return problems(run.snapshot.transcript) == []


# -- an answer


def test_an_answer_ends_the_run_and_is_charged() -> None:
    run = a_run()
    usage = Usage(100, 60, 20, Decimal("0.001"))
    done = run.says(Reply("Done.", usage=usage, reasoning="Easy."))
    assert (done.trigger, run.state, run.run.answer) == ("answer", "done", "Done.")
    assert (done.usage, done.model) == (usage, "scripted:test")
    used = run.run.used
    assert (used.turns, used.input_tokens, used.cached_tokens, used.output_tokens, used.cost) == (
        1,
        100,
        60,
        20,
        Decimal("0.001"),
    )
    assert run.snapshot.transcript[-1] == AssistantMessage("Done.", "Easy.")


def test_text_that_no_database_can_hold_is_replaced_once() -> None:  # B04
    run = a_run()
    run.says(Reply("ok \udcb2 \0 e\u0301", reasoning="\ud800", raw={"t": "\udfff"}))
    assert run.run.answer == "ok \ufffd \u2400 e\u0301"
    [message] = run.history[-1].messages
    assert (message.text, message.reasoning, message.raw) == (
        run.run.answer,
        "\ufffd",
        {"t": "\ufffd"},
    )


def test_the_provider_s_own_items_are_kept_with_their_owner() -> None:  # A06, A07
    run = a_run()
    run.says(Reply(calls=[PAY], raw=[ENCRYPTED]))
    run.ends(1)
    assert run.snapshot.transcript[1] == AssistantMessage("", None, (PAY,), "scripted", [ENCRYPTED])


# -- E10: the stop reason against the content


@pytest.mark.parametrize(
    "stop", [StopReason.TOOL_CALLS, StopReason.END, StopReason.UNKNOWN, StopReason.PAUSE, None]
)
def test_e10_calls_in_a_complete_reply_run_whatever_the_reason_says(
    stop: StopReason | None,
) -> None:
    run = a_run()
    run.says(Reply(calls=[PAY], stop=stop))
    assert (run.state, run.statuses) == ("dispatching", ["running"])


@pytest.mark.parametrize("text", ["", "I will call a tool."])
def test_e10_tool_calls_without_calls_are_asked_for_once_more_then_fail(text: str) -> None:
    run = a_run()
    run.says(Reply(text, stop=StopReason.TOOL_CALLS))
    assert (run.state, run.snapshot.last_text) == ("awaiting_model", EMPTY)
    run.says(Reply(text, stop=StopReason.TOOL_CALLS))
    assert (run.state, run.run.error.type) == ("failed", "empty_reply")


@pytest.mark.parametrize("text", ["eos", "error"])
def test_e10_an_unknown_reason_is_no_success(text: str) -> None:
    run = a_run()
    run.says(Reply(text, stop=StopReason.UNKNOWN))
    assert (run.state, run.run.error.type, run.run.answer) == ("failed", "unknown_stop", None)


# -- A10: refusals


@pytest.mark.parametrize(
    ("text", "calls", "words"),
    [
        ("", [], "refused to answer."),
        ("I can't help.", [], "answer: I can't help."),
        ("", [PAY], "."),
    ],
)
def test_a10_a_refusal_fails_the_run_with_the_provider_s_words_and_runs_nothing(
    text: str, calls: list[ToolCall], words: str
) -> None:
    run = a_run()
    run.says(Reply(text, calls=calls, stop=StopReason.REFUSAL, usage=Usage(7, 0, 1)))
    assert (run.state, run.run.error.type, run.run.answer) == ("failed", "refused", None)
    assert run.run.error.message.endswith(words)
    assert (run.run.used.turns, run.run.used.input_tokens, run.calls) == (1, 7, [])


# -- A09: pauses


def test_a09_a_pause_is_no_end_and_is_sent_back_as_it_is_without_a_new_user_message() -> None:
    run = a_run()
    searching = [{"type": "server_tool_use", "id": "s1"}]
    paused = run.says(Reply("searching", stop=StopReason.PAUSE, raw=searching))
    assert (paused.trigger, run.state) == ("continue_turn", "awaiting_model")
    assert expect(AskModel, run.settle()).request.transcript == [
        UserMessage("Go on."),
        AssistantMessage("searching", provider="scripted", raw=searching),
    ]
    run.says(Reply("done"))
    assert (run.state, run.run.used.turns) == ("done", 2)


def test_a09_pauses_are_bounded_by_the_limit_of_model_calls() -> None:
    run = a_run(max_turns=3)
    for _ in range(3):
        run.says(Reply("searching", stop=StopReason.PAUSE))
    run.settle()
    assert run.state == "capped"


# -- cut off


def test_a_reply_that_was_cut_off_is_no_answer() -> None:
    run = a_run()
    run.says(Reply("Once upon", stop=StopReason.LENGTH))
    assert (run.state, run.run.answer) == ("awaiting_model", None)
    assert run.snapshot.transcript[1:] == [AssistantMessage("Once upon"), UserMessage(CUT_OFF)]


@pytest.mark.parametrize("call", [PAY, ToolCall("pay", '{"amou'), ToolCall("pa", "")])
def test_calls_of_a_reply_that_was_cut_off_never_run_and_do_not_count(call: ToolCall) -> None:
    run = a_run()
    run.says(Reply("Paying", calls=[call], stop=StopReason.LENGTH))
    assert (run.state, run.statuses) == ("awaiting_model", ["not_run"])
    assert run.error(1)[0] == "cut_off"
    assert run.run.used.tool_calls == 0
    assert legal(run)


def test_a_cut_off_reply_at_the_limit_of_tool_calls_does_not_cap() -> None:
    run = a_run(max_tool_calls=0)
    run.says(Reply(calls=[PAY], stop=StopReason.LENGTH))
    run.settle()
    assert run.state == "awaiting_model"


@pytest.mark.parametrize(
    "reply",
    [Reply(""), Reply("word "), Reply(calls=[PAY]), Reply("Paying", calls=[PAY])],
    ids=["nothing", "a text", "a call", "both"],
)
def test_three_replies_in_a_row_that_are_cut_off_fail_with_advice(reply: Reply) -> None:
    run = a_run()
    for turns in (1, 2):
        change = run.says(replace(reply, stop=StopReason.LENGTH))
        assert (change.trigger, run.state, run.run.used.turns) == (
            "continue_turn",
            "awaiting_model",
            turns,
        )
        assert present(change.error).type == "cut_off"
    run.says(replace(reply, stop=StopReason.LENGTH))
    assert run.state == "failed"
    assert present(run.run.error).type == "cut_off"
    assert "3 replies in a row" in present(run.run.error).message
    assert "max_output_tokens" in present(run.run.error).message
    assert legal(run)


def test_a_whole_reply_in_between_counts_anew() -> None:
    run = a_run()
    for number in range(1, 6):
        run.says(Reply(f"{number} ", stop=StopReason.LENGTH))
        run.says(Reply(calls=[("look", {"q": str(number)})]))
        run.ends(number, "x")
    assert run.state == "awaiting_model"


def test_the_answer_is_the_whole_text_after_a_cut() -> None:
    run = a_run()
    run.says(Reply("The code is 12", stop=StopReason.LENGTH))
    run.says(Reply("34 56", stop=StopReason.LENGTH))
    run.says(Reply("78."))
    assert (run.state, run.run.answer) == ("done", "The code is 1234 5678.")


def test_every_turn_that_continues_says_why() -> None:
    run = a_run()
    for reply, why in [
        (Reply("Once", stop=StopReason.LENGTH), "cut_off"),
        (Reply("Wait", stop=StopReason.PAUSE), "paused"),
        (Reply("Wait", stop=StopReason.PAUSE, nudge="Say it properly."), "malformed_reply"),
        (Reply(""), "empty_reply"),
    ]:
        change = run.says(reply)
        assert (change.trigger, present(change.error).type) == ("continue_turn", why)


# -- empty


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_reply_is_never_an_answer_and_fails_when_it_comes_twice(text: str) -> None:
    run = a_run()
    run.says(Reply(text))
    assert run.state == "awaiting_model"
    assert run.snapshot.transcript[1:] == [UserMessage(EMPTY)]  # no provider takes an empty one
    assert run.snapshot.messages == 3  # but it is kept
    run.says(Reply(text))
    assert (run.state, run.run.error.type) == ("failed", "empty_reply")


def test_an_empty_reply_after_other_turns_is_a_first_one_again() -> None:
    run = a_run()
    run.says(Reply(""))
    run.asks(("look", {"q": "a"}))
    run.ends(1)
    run.says(Reply(""))
    assert run.state == "awaiting_model"


# -- faults


def test_a_permanent_fault_fails_the_run() -> None:
    run = a_run()
    run.faults(kind="authentication")
    assert (run.state, run.run.error.type) == ("failed", "authentication")
    assert run.run.used.turns == 1


@pytest.mark.parametrize(
    ("retry_after", "seconds", "kept"), [(None, 0.5, True), (10, 10, True), (10.5, 10.5, False)]
)
def test_e01_a_long_wait_gives_the_run_back_a_short_one_keeps_it(
    retry_after: float | None, seconds: float, kept: bool
) -> None:
    run = a_run()
    retry = run.faults(retryable=True, retry_after=retry_after, kind="rate_limited")
    assert (retry.trigger, run.state, run.run.attempt) == ("retry", "awaiting_model", 2)
    assert (run.run.not_before - NOW).total_seconds() == seconds
    assert (run.run.owner is not None, run.run.lease_until is not None) == (kept, kept)
    assert expect(Wait, run.command()).until == run.run.not_before


def test_waiting_is_over_when_its_time_has_come() -> None:
    run = a_run()
    run.faults(retryable=True, retry_after=3)
    run.now = run.run.not_before
    assert expect(AskModel, run.command()).request.attempt == 2


def test_the_fifth_failure_is_the_last() -> None:
    run = a_run()
    for attempt in (1, 2, 3, 4):
        assert run.run.attempt == attempt
        run.faults(retryable=True, kind="stream_cut", retry_after=0)
    run.faults(retryable=True, kind="stream_cut")
    assert (run.state, run.run.error.type, run.run.used.turns) == ("failed", "stream_cut", 5)
    assert "failure 5 of 5" in run.run.error.message


REFUSALS = ["unreachable", "rate_limited", "overloaded", "server_error"]


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_provider_may_refuse_for_hours_before_a_run_fails(kind: str) -> None:
    run = a_run()
    tries = 0
    while run.now < NOW + timedelta(hours=6):
        run.faults(retryable=True, kind=kind)
        tries += 1
        assert (run.state, run.run.failures, run.run.used.turns) == ("awaiting_model", 0, 0)
        run.now = max(run.run.not_before, run.now + timedelta(seconds=1))
    assert tries > 6 * 3600 / 300  # no wait is longer than five minutes
    run.faults(retryable=True, kind=kind)
    assert (run.state, run.run.error.type) == ("failed", kind)
    assert f"every call since {NOW:%Y-%m-%d %H:%M}Z was refused" in run.run.error.message


def test_an_outage_ends_with_a_reply_and_with_any_other_fault() -> None:
    run = a_run()
    run.faults(retryable=True, kind="overloaded")
    assert run.run.outage_since == NOW
    run.faults(retryable=True, kind="timeout")
    assert (run.run.outage_since, run.run.failures, run.run.attempt) == (None, 1, 3)
    run.faults(retryable=True, kind="overloaded")
    run.asks(PAY)
    assert (run.run.outage_since, run.run.failures, run.run.attempt) == (None, 0, 1)


def test_a_crash_in_an_outage_is_a_failure_and_not_its_end() -> None:
    run = a_run()
    run.faults(retryable=True, kind="server_error")
    run.crash()
    assert (run.run.outage_since, run.run.failures, run.run.attempt) == (NOW, 1, 3)


def test_a_reply_resets_the_attempts() -> None:
    run = a_run()
    run.faults(retryable=True)
    run.asks(PAY)
    assert run.run.attempt == 1


def test_c09_a_failing_model_call_after_an_approved_call_does_not_run_it_again() -> None:
    run = a_run()
    run.asks(("wire", {"amount": 1}))
    run.settle()
    run.approve(1)
    run.claim()
    run.settle()
    run.ends(1, "wired")
    for _ in range(2):
        run.faults(retryable=True, kind="server_error", retry_after=0)
    run.says(Reply("done"))
    assert run.state == "done"
    assert [c.number for change in run.history for c in change.calls if c.status == "running"] == [
        1
    ]


def test_an_error_s_text_can_be_stored() -> None:  # B04
    run = a_run()
    run.faults(hint="see \udcff\0")
    assert run.run.error.message == "It failed. see \ufffd\u2400"
