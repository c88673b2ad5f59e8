"""A transcript that grows too long: what the model is shown instead, and that nothing is lost.

The model, the tools and the summariser are played step by step, in memory.
"""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from stepwell import Limits, Reply
from stepwell.errors import OUTAGES, ProviderError
from stepwell.messages import StopReason, Terms, ToolCall, ToolMessage, Usage, UserMessage
from stepwell.rules.change import Change
from stepwell.rules.decide import AskModel, Faulted, conclude
from stepwell.rules.turn import EMPTY
from stepwell.state.circumstances import CallTerms
from stepwell.state.shown import SUMMARY_OPENS
from stepwell.state.tokens import overhead, weigh
from stepwell.state.transcript import problems
from stepwell.workflow import Agent, Summarising
from tests.in_memory import InMemory, agent
from tests.narrowing import expect, present

WINDOW = 4_000
TEXT = "Findings: the lamp of order 1042 is broken; 49.00 USD are open. Next: look at order 1043."
LOOK = ("look", {"q": "a"})
NOTHING = Usage()
ROOMY = Limits(max_turns=500, max_tool_calls=500, max_repeats=500)


class Long(InMemory):
    """A run whose every result takes some hundred tokens, with a window that it will fill."""

    def __init__(
        self,
        text: str = "Find the lamp.",
        *,
        window: int | None = WINDOW,
        limits: Limits = ROOMY,
        **options: Any,
    ) -> None:
        policy = Summarising(**{"keep_turns": 2, "max_tokens": 200} | options)
        super().__init__(agent(limits=limits, summarising=policy), text)
        self.size = 900
        self.window = window
        self.look_around()

    def look_around(self) -> None:
        instructions = expect(Agent, self.workflow).instructions
        tools = overhead(instructions, self.workflow.definitions)
        terms = Terms(self.window)
        self.terms = CallTerms(model=None, terms=terms, overhead=tools)

    def round(self, *calls: Any, usage: Usage = NOTHING) -> None:
        self.says(Reply("I look.", calls or [LOOK], usage=usage))
        for number, call in self.snapshot.batch.items():
            if not call.status.final:
                self.ends(number, "word " * (self.size // 5))

    def fill(self) -> AskModel:
        """Rounds until something else than the model's next reply is due."""
        for _ in range(200):
            command = self.settle()
            if self.state != "awaiting_model" or not isinstance(command, AskModel):
                return expect(AskModel, command)
            self.round()
        raise AssertionError("the window was never full")

    def summarises(self, text: str = TEXT, **more: Any) -> Change:
        assert self.state == "summarising"
        return self.says(Reply(text, **more))

    @property
    def shown(self) -> list[Any]:
        return self.snapshot.transcript


def full(**options: Any) -> Long:
    """A run that waits for its summary."""
    run = Long(**options)
    run.fill()
    assert run.state == "summarising"
    return run


def test_the_summary_takes_the_place_of_all_but_the_task_and_the_last_turns() -> None:
    run = full()
    before = list(run.shown)
    assert run.tokens >= 0.7 * WINDOW
    assert run.summarises().trigger == "summarised"
    assert run.shown[0] == UserMessage("Find the lamp.")
    assert run.shown[1].text == f"{SUMMARY_OPENS}\n\n{TEXT}"
    assert run.shown[2:] == before[-4:]  # two replies, each with its result
    assert run.tokens < 0.7 * WINDOW
    assert isinstance(run.settle(), AskModel)


def policy_changes(run: Long, **changes: Any) -> None:
    workflow = expect(Agent, run.workflow)
    run.workflow = replace(workflow, summarising=replace(workflow.summarising, **changes))


def test_what_the_summariser_is_asked() -> None:
    run = full(model="scripted:cheap", prompt="Be short.")
    asked = expect(AskModel, run.settle())
    assert (asked.model, asked.is_aside) == ("scripted:cheap", True)
    request = asked.request
    assert (request.instructions, request.tools) == ("Be short.", ())
    assert request.max_output_tokens == 200
    [message] = request.transcript
    assert message.text.startswith("[task]\nFind the lamp.\n\n[agent]\nI look.")
    assert "[agent calls look]" in message.text
    assert weigh(message) < WINDOW


def test_a_summariser_with_a_smaller_window_is_asked_what_fits_into_it() -> None:
    run = full(window=20_000, model="scripted:cheap")
    run.terms = replace(present(run.terms), summariser=Terms(4_000))
    asked = expect(AskModel, run.settle()).request
    assert sum(map(weigh, asked.transcript)) + overhead(asked.instructions, ()) + 200 <= 4_000
    assert asked.transcript[0].text.startswith("[task]\nFind the lamp.")


@pytest.mark.parametrize("at", [2_000, 2_000 / WINDOW])
def test_the_threshold_is_a_share_or_a_number(at: float) -> None:
    run = full(at=at)
    assert 2_000 <= run.tokens < 2_600


@pytest.mark.parametrize(("window", "at"), [(None, 0.7), (100_000, 0.7)])
def test_below_the_threshold_or_without_one_nothing_happens(window: int | None, at: float) -> None:
    run = Long(window=window, at=at)
    for _ in range(40):
        assert isinstance(run.settle(), AskModel)
        run.round()
    assert not any(change.trigger == "overflow" for change in run.history)


def test_the_window_of_the_workflow_counts_before_that_of_the_price_list() -> None:
    run = Long(window=10**6)
    policy_changes(run, window=3000)
    run.fill()
    assert run.tokens < 3000


USELESS = {
    "rate limited": ProviderError("429", kind="rate_limited", retryable=True),
    "server error": ProviderError("500", kind="server_error", retryable=True),
    "stream cut": ProviderError("The connection was lost.", kind="stream_cut", retryable=True),
    "wrong key": ProviderError("401", kind="authentication"),
    "too long": ProviderError("Too long.", kind="context_length"),
    "cut off": Reply(TEXT, stop=StopReason.LENGTH),
    "refused": Reply(TEXT, stop=StopReason.REFUSAL),
    "a call": Reply(TEXT, [LOOK]),
    "an error as text": Reply("Error: timeout"),
    "empty": Reply(" \n"),
    "no shorter": Reply("word " * 10_000),
}


@pytest.mark.parametrize("outcome", USELESS.values(), ids=USELESS)
def test_a_summary_that_fails_leaves_all_as_it_was(outcome: Any) -> None:  # F02
    run = full(at=0.5)
    before = list(run.shown)
    used = run.run.used.turns
    if isinstance(outcome, Reply):
        change = run.says(outcome)
    else:
        failed = Faulted(outcome, "scripted:test")
        change = run.apply(
            conclude(run.workflow, run.snapshot, failed, replace(run.given, jitter=0.5))
        )
    assert (change.trigger, run.state) == ("summary_skipped", "awaiting_model")
    assert change.error is not None
    assert run.shown == before
    refused = isinstance(outcome, ProviderError) and outcome.kind in OUTAGES
    assert run.run.used.turns == used + (not refused)
    # Not at once again, but when it has grown by a tenth of the window.
    assert run.run.overflow_at == run.tokens + WINDOW // 10
    rounds = 0
    while isinstance(run.settle(), AskModel) and run.state == "awaiting_model":
        run.round()
        rounds += 1
    assert (run.state, rounds) == ("summarising", 2)
    assert run.summarises().trigger == "summarised"


@pytest.mark.parametrize("parallel", [1, 3, 10])
@pytest.mark.parametrize("keep", [1, 2, 5])
def test_a_reply_and_its_results_stay_together(parallel: int, keep: int) -> None:  # F01, A02
    run = Long(keep_turns=keep, window=40_000)
    calls = [LOOK] * parallel
    while isinstance(run.settle(), AskModel) and run.state == "awaiting_model":
        run.round(*calls)
    run.summarises()
    assert problems(run.shown) == []
    assert len(run.snapshot.shown.turns()) == keep
    assert len(run.shown) == 2 + keep * (1 + parallel)


def test_a_single_task_is_still_there_after_the_second_summary() -> None:  # F04
    run = full(text="Find the lamp, and say its number.")
    run.summarises()
    run.fill()
    assert "[earlier summary]" in expect(AskModel, run.settle()).request.transcript[0].text
    run.summarises("Findings: it is lamp number 7, in order 1042, and the other one was sent back.")
    assert run.shown[0].text == "Find the lamp, and say its number."
    assert "lamp number 7" in run.shown[1].text
    assert TEXT not in run.shown[1].text


@pytest.mark.parametrize("quotes", [False, True])
def test_a_summary_of_a_summary_does_not_grow(quotes: bool) -> None:  # F06
    run = Long(max_tokens=400)
    sizes = []
    for _ in range(6):
        run.fill()
        read = expect(AskModel, run.settle()).request.transcript[0].text
        run.says(Reply(read[-3_000:] if quotes else read))
        sizes.append(weigh(run.shown[1]))
        summaries = [m for m in run.shown if m.text.startswith(SUMMARY_OPENS)]
        assert len(summaries) <= 1
        if run.state == "capped":
            break
        assert run.tokens <= WINDOW
    assert max(sizes) < 2 * 400 + 200


def test_the_users_own_words_are_kept_the_last_first() -> None:
    run = Long(window=8_000)
    said = [f"Also {n}: {'x y ' * 700}" for n in range(4)]
    for text in said:
        run.round()
        run.snapshot.extend()
        message = replace(
            run.history[0].messages[0], number=run.snapshot.messages + 1, seq=run.run.seq, text=text
        )
        run.snapshot.extend([message])
    for _ in range(3):
        run.round()
    run.fill()
    run.summarises()
    quoted = run.shown[1].text
    assert [text in quoted for text in said] == [False, False, True, True]


def test_one_huge_result_is_shown_shortened_and_the_run_goes_on() -> None:
    run = Long()
    run.size = 60_000
    run.round()
    assert isinstance(run.settle(), AskModel)
    result = run.shown[2]
    assert isinstance(result, ToolMessage)
    assert "are left out now]" in result.text
    assert run.tokens < WINDOW
    assert present(run.snapshot.batch[1].outcome)["result"].startswith("word word")


def test_the_newest_huge_result_is_shortened_also_where_the_provider_has_counted() -> None:
    run = Long()
    run.round(usage=Usage(600, 0, 50))
    run.size = 60_000
    run.round(usage=Usage(900, 0, 50))
    assert isinstance(run.settle(), AskModel)
    assert run.state == "awaiting_model"
    assert run.tokens < WINDOW


def test_a_task_that_is_estimated_longer_than_the_window_is_sent_all_the_same() -> None:
    run = Long("word " * 9_000)
    assert run.tokens > WINDOW
    assert isinstance(run.settle(), AskModel)
    run.says(Reply("It fitted.", usage=Usage(WINDOW - 100, 0, 5)))
    assert (run.state, run.run.answer) == ("done", "It fitted.")


def test_a_task_that_the_provider_finds_too_long_caps_the_run() -> None:
    run = Long("word " * 9_000)
    assert isinstance(run.settle(), AskModel)
    run.faults(kind="context_length")
    run.settle()
    assert (run.state, run.run.error.type) == ("capped", "context_full")
    assert "context cannot be reduced" in run.run.answer


def test_the_provider_finds_it_too_long_and_is_asked_again_once() -> None:
    run = Long(window=None)
    for _ in range(8):
        run.round()
    refused = run.faults(kind="context_length")
    assert (refused.trigger, run.state) == ("overflow", "summarising")
    assert run.run.window < run.tokens
    assert run.summarises().trigger == "summarised"
    assert isinstance(run.settle(), AskModel)
    assert run.tokens < run.run.window
    assert run.faults(kind="context_length").trigger == "fail"
    assert run.run.error.type == "context_length"


def test_it_is_tried_once_too_after_another_fault() -> None:
    run = Long(window=None)
    for _ in range(8):
        run.round()
    run.faults(kind="rate_limited", retryable=True)
    run.now = run.run.not_before
    assert run.faults(kind="context_length").trigger == "overflow"
    run.summarises()
    assert run.faults(kind="context_length").trigger == "fail"


def test_what_one_model_refused_says_nothing_of_another() -> None:
    run = Long(window=None)
    for _ in range(8):
        run.round()
    run.faults(kind="context_length")
    run.summarises()
    run.workflow = replace(run.workflow, fallback=["scripted:larger"])
    run.faults(kind="context_length")
    assert (run.run.model, run.run.window) == ("scripted:larger", None)


def test_what_the_provider_counts_goes_on_counting_after_a_summary() -> None:
    """English takes half of what the estimate says: 3 000 reported where it says 6 000."""
    run = Long(window=8_000)
    for place in range(12):
        run.round(usage=Usage((place + 1) * 250, 0, 0))
    tokens = run.tokens
    policy_changes(run, at=3_000)
    run.settle()
    run.summarises()
    estimate = present(run.terms).overhead + sum(map(weigh, run.shown))
    assert run.tokens < min(tokens, estimate)
    assert run.run.overflow_at == run.tokens + 800


def test_the_summary_is_paid_for_and_counted() -> None:
    run = full()
    turns = run.run.used.turns
    run.summarises(usage=Usage(1_000, 0, 100, Decimal("0.25")))
    assert run.run.used.turns == turns + 1
    assert (run.run.used.input_tokens, present(run.history[-1].usage).input_tokens) == (
        1_000,
        1_000,
    )
    assert run.snapshot.shown.reported is None  # its request was not the transcript


def test_the_last_model_call_is_not_spent_on_a_summary() -> None:
    run = full()
    turns = run.run.used.turns + 1
    run.snapshot.run = run.run._replace(limits=run.run.limits._replace(max_turns=turns))
    run.settle()
    assert run.history[-1].trigger == "summary_skipped"
    assert run.state == "awaiting_model"


def test_a_driver_that_is_lost_in_summarising_is_followed_by_another() -> None:
    run = full()
    lost = run.crash()
    assert (lost.trigger, run.state) == ("retry", "summarising")
    run.now = run.run.not_before or run.now
    assert expect(AskModel, run.settle()).is_aside
    assert run.summarises().trigger == "summarised"


def test_reasoning_of_the_turns_that_stay_is_untouched() -> None:  # A06, A07
    run = Long()
    raw = {"content": [{"type": "thinking", "thinking": "", "signature": "SIG1"}]}
    while isinstance(run.settle(), AskModel) and run.state == "awaiting_model":
        run.says(Reply("", [ToolCall("look", {"q": "a"}, "same")], "why", raw=raw))
        run.ends(run.snapshot.calls, "word " * 200)
    run.summarises()
    assert [m.raw for m in run.shown if hasattr(m, "raw")] == [raw, raw]
    assert problems(run.shown) == []


def test_what_we_have_told_the_model_ourselves_is_not_quoted_as_the_users_words() -> None:
    run = Long()
    run.says(Reply(""))
    assert run.shown[-1].text == EMPTY
    run.fill()
    assert run.summarises().trigger == "summarised"
    assert run.shown[1].text == f"{SUMMARY_OPENS}\n\n{TEXT}"
