"""Any transcript, summarised at any threshold, is one that each provider accepts (F08: in no second system text)."""

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from stepwell import Decision, Limits, ProviderError, Reply, ToolCall, Verdict
from stepwell.envelope import failure
from stepwell.machine import LIVE
from stepwell.messages import Message, StopReason, Terms, Usage
from stepwell.rules.approval import decide_approval
from stepwell.rules.decide import AskModel, Faulted, Replied, RunCalls, Wait, conclude
from stepwell.rules.recovery import take_over
from stepwell.state.circumstances import CallTerms
from stepwell.state.tokens import overhead
from stepwell.state.transcript import problems
from stepwell.workflow import Summarising
from tests.in_memory import LOST, InMemory, agent
from tests.providers.test_roundtrip import APIS, encoded, issued_by

LOOSE = settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
TASK = "Find the lamp and say its number."
TEXTS = st.sampled_from(["I look.", "", "查一下灯的订单号码。" * 30, "eyJhbGciOiJIUzI1NiJ9" * 40])
RESULTS = st.sampled_from(["fine", "word " * 300, "结果" * 900, "QUJD" * 1_000, "x" * 50_000])
CALLS = st.lists(st.sampled_from(["look", "put", "wire", "nobody"]), max_size=4)
ARGUMENTS = {"look": {"q": "a"}, "put": {"key": "k"}, "wire": {"amount": 1}, "nobody": {}}
SUMMARIES = st.sampled_from(
    [
        Reply("Findings: the lamp is number 7, of order 1042; nothing was paid yet. " * 2),
        Reply("Findings: " + "word " * 9_000),
        Reply("Error: timeout"),
        Reply("", [ToolCall("look", {"q": "a"}, "k")]),
        Reply("Findings: the lamp is number 7, of ord", stop=StopReason.LENGTH),
        ProviderError("500", kind="server_error", retryable=True),
        ProviderError("400", kind="bad_request"),
    ]
)


def raw_of(provider: str, text: str, calls: list[ToolCall], number: int) -> Any:
    """What `provider` keeps of a reply with reasoning: A06, A07."""
    if provider == "anthropic":
        said = [{"type": "text", "text": text}] if text else []
        uses = [
            {"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in calls
        ]
        thought = {"type": "thinking", "thinking": "", "signature": f"<S {number}>"}
        return {"model": "m", "content": [thought, *said, *uses]}
    reasoning = {
        "type": "reasoning",
        "id": f"rs_{number}",
        "summary": [],
        "encrypted_content": f"<E {number}>",
    }
    asked = [
        {
            "type": "function_call",
            "id": f"fc_{c.id}",
            "call_id": c.id,
            "name": c.name,
            "arguments": '{"q":"a"}',
        }
        for c in calls
    ]
    return {"model": "m", "output": [reasoning, *asked]}


class Journey:
    """One run that gets longer and longer, in a window that it leaves only with what cannot be reduced."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        policy = Summarising(
            at=draw(st.sampled_from([0.05, 0.4, 0.7, 1.0, 500])),
            keep_turns=draw(st.integers(1, 4)),
            max_tokens=draw(st.sampled_from([60, 400])),
        )
        limits = Limits(max_turns=60, max_tool_calls=200, max_repeats=200)
        self.run = InMemory(agent(limits=limits, summarising=policy), TASK)
        self.window = draw(st.sampled_from([6_000, 20_000]))
        self.counts = draw(st.sampled_from([None, 1, 2]))  # does the provider? how much less?
        tools = overhead("", self.run.workflow.definitions)
        self.offer = CallTerms(model=None, terms=Terms(self.window), overhead=tools)
        self.summaries = 0

    def step(self) -> None:
        run, draw = self.run, self.draw
        run.terms = self.offer  # as every driver asks for it
        command = run.settle()
        if run.state not in LIVE:
            return
        if isinstance(command, Wait):
            if run.open:
                verdict = draw(st.sampled_from(list(Verdict)))
                answer = Decision(verdict=verdict)
                number = run.open[0].number
                run.apply(
                    decide_approval(run.workflow, run.snapshot, number, answer, "ann", run.given)
                )
                if not run.open:
                    run.claim()
            elif command.until is not None:
                run.now = max(run.now, command.until)
        elif isinstance(command, RunCalls):
            self.a_call_ends(command.calls[0].number)
        elif isinstance(command, AskModel) and command.is_aside:
            self.is_summarised()
        elif isinstance(command, AskModel):
            self.model_replies(command)

    def a_call_ends(self, number: int) -> None:
        result = self.draw(RESULTS)
        if self.draw(st.booleans()):
            self.run.ends(number, result)
        else:
            self.run.ends(number, error=failure("boom", result))

    def is_summarised(self) -> None:
        run, before = self.run, self.run.tokens
        if self.draw(st.integers(0, 9)) == 0:
            run.apply(take_over(run.snapshot, LOST, replace(run.given, jitter=0.0)))
            if run.state in LIVE:
                run.claim()
            return
        outcome = self.draw(SUMMARIES)
        if isinstance(outcome, Reply):
            change = run.says(outcome)
        else:
            failed = Faulted(outcome, "scripted:test")
            change = run.apply(
                conclude(run.workflow, run.snapshot, failed, replace(run.given, jitter=0.5))
            )
        event(change.trigger)
        self.summaries += change.trigger == "summarised"
        assert run.tokens <= before, "never longer than before"
        self.check(run.snapshot.transcript)

    def model_replies(self, command: AskModel) -> None:
        self.check(command.request.transcript)
        if self.run.tokens > self.window:  # nothing in it can be reduced: the provider judges
            assert self.run.run.overflow_at == self.run.tokens + self.window // 10
            assert self.run.run.window is None
            self.run.faults(kind="context_length")
            return
        number = self.run.snapshot.messages
        names = self.draw(CALLS)
        calls = [ToolCall(n, ARGUMENTS[n], f"call_{number}_{i}") for i, n in enumerate(names)]
        text = self.draw(TEXTS) or ("" if calls else "On.")
        provider = self.draw(st.sampled_from(["scripted", "anthropic", "openai"]))
        raw = None if provider == "scripted" else raw_of(provider, text, calls, number)
        if provider == "openai" and {c.name for c in calls} - {"look"}:
            raw = None
        used = self.run.tokens // self.counts if self.counts else 0
        stop = None if calls else StopReason.PAUSE
        nudge = None if calls else f"Go on {number}."
        reply = Reply(text, calls, None, stop, Usage(used, 0, 1), raw, nudge=nudge)
        self.run.conclude(Replied(reply, "m", provider))

    def check(self, transcript: Any) -> None:
        messages: list[Message] = list(transcript)
        assert messages[0].text == TASK
        assert problems(messages) == []
        for api, (_, obeys, _) in APIS.items():
            body, _ = encoded(api, messages)
            obeys(body, issued_by(api, body))


@settings(LOOSE)
@given(st.data())
def test_any_run_that_is_summarised(data: Any) -> None:
    journey = Journey(data.draw)
    for _ in range(data.draw(st.integers(10, 60))):
        journey.step()
        if journey.run.state not in LIVE:
            break
    event(f"{min(journey.summaries, 3)} summaries")
    assert journey.run.run.error is None or journey.run.run.error.type != "internal_error"
