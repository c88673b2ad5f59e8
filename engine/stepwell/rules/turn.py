"""Pure: the changes after a model's reply, and after a failed model call."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from stepwell.envelope import failure
from stepwell.errors import OUTAGES, ProviderError
from stepwell.machine import CallStatus, Trigger
from stepwell.messages import (
    AssistantMessage,
    Message,
    Reply,
    StopReason,
    ToolMessage,
    Usage,
    UserMessage,
)
from stepwell.plain_json import clean
from stepwell.retry import RetryPolicy
from stepwell.rules.budget import tool_calls_left
from stepwell.rules.calls import fill, request
from stepwell.rules.change import AFRESH, Cause, Change, Rows, change, end, stop
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import Call, Fault, Role, RunColumns, RunRow, StoredMessage, Used
from stepwell.state.snapshot import Snapshot
from stepwell.workflow import Workflow

CUT_OFF = "Your reply was cut off at the output limit. Continue exactly where it stopped."
EMPTY = "Your reply was empty. Answer, or call one of the tools."
# Texts of ours that the model reads as a user's message.
NUDGES = frozenset({CUT_OFF, EMPTY})
# The kind of a fault for a reply that is not in the form that its provider asked for.
MALFORMED = "malformed_reply"
# How many replies in a row may be cut off before the run fails.
MOST_CUT_OFF = 3
# Faults of calls that the provider may have worked on, and bill.
MAY_BE_BILLED = frozenset({"timeout", "connection", "stream_cut", "bad_reply", "provider_bug"})


def replied(
    workflow: Workflow,
    snapshot: Snapshot,
    reply: Reply,
    model: str,
    provider: str,
    given: Circumstances,
) -> Change:
    """The change after a complete reply.

    Calls in a reply that was cut off or refused never run; those of any other reply do, whatever
    its stop reason says. An answer counts only if its stop reason says that it ended.
    """
    turn = Turn(workflow, snapshot, reply, model, provider, given)
    if reply.stop is StopReason.REFUSAL:
        return turn.refused()
    if reply.stop is StopReason.LENGTH:
        return turn.cut_off()
    if reply.tool_calls:
        return turn.asks_for_tools()
    if reply.stop is StopReason.PAUSE:
        return turn.pauses()
    if not reply.text.strip() or reply.stop is StopReason.TOOL_CALLS:
        return turn.is_empty()
    if reply.stop is StopReason.END:
        return turn.answers()
    word = f": {reply.reason}" if reply.reason else "."
    return turn.fails("unknown_stop", f"The model stopped for a reason that is not known{word}")


class Turn:
    """One reply to one run: what all its outcomes share.

    Args:
        prompt: the text that was sent for this reply alone (a pipeline's `Ask`).
    """

    def __init__(
        self,
        workflow: Workflow,
        snapshot: Snapshot,
        reply: Reply,
        model: str,
        provider: str,
        given: Circumstances,
        prompt: str | None = None,
    ) -> None:
        self.workflow, self.snapshot, self.reply = workflow, snapshot, reply
        self.model, self.provider, self.given = model, provider, given
        self.prompt = prompt
        self.usage = snapshot.run.settled(reply.usage)

    def answers(self, text: str | None = None) -> Change:
        said = "".join([*_begun(self.snapshot.transcript), self.reply.text])
        return self._change(Trigger.ANSWER, answer=clean(said if text is None else text))

    def asks_for_tools(self) -> Change:
        allowed = tool_calls_left(self.snapshot.run)
        lines = request(self.workflow, self.snapshot, self.reply.tool_calls, allowed)
        ready = {line.number: line for line in lines}
        ready |= fill(self.workflow, self.snapshot, self.given, lines)
        return self._change(
            Trigger.REQUEST_TOOLS, calls=list(ready.values()), tool_calls=min(allowed, len(lines))
        )

    def cut_off(self) -> Change:
        times = _times_cut_off(self.snapshot.transcript) + 1
        reason = Fault(type="cut_off", message="The reply was cut off at the output limit.")
        if times >= MOST_CUT_OFF:
            text = f"{times} replies in a row were cut off at the output limit."
            hint = "Raise max_output_tokens of the workflow, or ask for less in one reply."
            return self.fails("cut_off", f"{text} {hint}")
        if not self.reply.tool_calls:
            return self.go_on(reason, CUT_OFF)
        lines = request(self.workflow, self.snapshot, self.reply.tool_calls, 0)
        outcome = failure("cut_off", "Not run: the reply was cut off at the output limit.")
        closed = [end(c, CallStatus.NOT_RUN, outcome, c.requested_seq) for c in lines]
        return self._change(Trigger.CONTINUE_TURN, calls=closed, reason=reason)

    def go_on(self, reason: Fault | None = None, nudge: str | None = None) -> Change:
        """A reply that is not the end: why, if it is not the plan of a pipeline that says so."""
        return self._change(Trigger.CONTINUE_TURN, nudge=nudge, reason=reason)

    def pauses(self) -> Change:
        nudge = self.reply.nudge
        if nudge and self.snapshot.last_text == nudge:
            return self.malformed_twice(nudge)
        reason = Fault(type="paused", message="The provider paused the turn.")
        if nudge:
            reason = Fault(type=MALFORMED, message=nudge)
        return self.go_on(reason, nudge)

    def malformed_twice(self, nudge: str) -> Change:
        return self.fails(MALFORMED, f"The model gave a malformed reply twice. {nudge}")

    def asked_again(self, nudge: str) -> Change:
        """A malformed reply to a step of a pipeline: the same step once more, with a word on it."""
        reason = Fault(type=MALFORMED, message=nudge)
        cause = Cause(error=reason, usage=self.usage, model=self.model)
        columns: RunColumns = {"used": self._used(), "attempt": self.snapshot.run.attempt + 1}
        return change(self.snapshot, Trigger.RETRY, self.given, columns, cause=cause)

    def is_empty(self) -> Change:
        if self.snapshot.last_text == EMPTY:
            return self.fails("empty_reply", "The model gave an empty reply twice.")
        reason = Fault(type="empty_reply", message="The model gave an empty reply.")
        return self.go_on(reason, EMPTY)

    def refused(self) -> Change:
        said = f": {self.reply.text.strip()}" if self.reply.text.strip() else "."
        return self.fails("refused", f"The model refused to answer{said}")

    def fails(self, kind: str, message: str) -> Change:
        reason = Fault(type=kind, message=clean(message))
        cause = Cause(error=reason, usage=self.usage, model=self.model)
        return stop(self.snapshot, Trigger.FAIL, self.given, cause, {"used": self._used()})

    def _used(self, tool_calls: int = 0) -> Used:
        return self.snapshot.run.used.plus(turns=1, tool_calls=tool_calls, usage=self.usage)

    def _change(
        self,
        trigger: Trigger,
        *,
        calls: list[Call] | None = None,
        nudge: str | None = None,
        tool_calls: int = 0,
        answer: str | None = None,
        reason: Fault | None = None,
    ) -> Change:
        seq = self.snapshot.run.seq + 1
        said = {
            "role": Role.ASSISTANT,
            "text": clean(self.reply.text),
            "reasoning": clean(self.reply.reasoning),
            "provider": None if self.reply.raw is None else self.provider,
            "raw": clean(self.reply.raw),
        }
        before = [{"role": Role.USER, "text": clean(self.prompt)}] if self.prompt else []
        after = [{"role": Role.USER, "text": nudge}] if nudge else []
        messages = [
            StoredMessage(number=self.snapshot.messages + place, seq=seq, **values)
            for place, values in enumerate([*before, said, *after], 1)
        ]
        return change(
            self.snapshot,
            trigger,
            self.given,
            {"used": self._used(tool_calls), "answer": answer},
            rows=Rows(messages=messages, calls=calls or ()),
            cause=Cause(error=reason, usage=self.usage, model=self.model),
        )


def _begun(transcript: Sequence[Message]) -> list[str]:
    """The texts of the replies directly before this one that were cut off, in order."""
    texts: list[str] = []
    place = len(transcript)
    while place > 1:
        told, reply = transcript[place - 1], transcript[place - 2]
        if told.text != CUT_OFF or not isinstance(reply, AssistantMessage):
            break
        texts.insert(0, reply.text)
        place -= 2
    return texts


def _times_cut_off(transcript: Sequence[Message]) -> int:
    """How many replies directly before this one were cut off, in a text or in a call."""
    times = 0
    for message in reversed(transcript):
        match message:
            case UserMessage(text) if text == CUT_OFF:  # an empty reply leaves nothing but this
                times += 1
            case AssistantMessage(calls=calls):
                times += bool(calls)
            case ToolMessage(text=text, error=True) if '"type":"cut_off"' in text:
                pass
            case _:
                break
    return times


def faulted(
    snapshot: Snapshot,
    error: ProviderError,
    model: str | None,
    given: Circumstances,
    fallback: str | None = None,
) -> Change:
    """The change after a failed model call: a wait before the next attempt, or the run's end.

    Args:
        snapshot: the run.
        error: why it failed.
        model: the one that failed.
        given: the time, and what else the driver knows.
        fallback: the model to continue with immediately, instead of ending the run.
    """
    run = snapshot.run
    message = str(clean(str(error)))
    used, usage = bill(run, error)
    tried = _tried(run, error, given.now)
    given_up = _given_up(run._replace(**tried), given, fallback) if error.retryable else ""
    if not error.retryable or given_up:
        message = f"{message}{given_up}"
        if fallback is None:
            fault = Fault(type=error.kind, message=message)
            cause = Cause(error=fault, usage=usage, model=model)
            return stop(snapshot, Trigger.FAIL, given, cause, {"used": used})
        fault = Fault(type=error.kind, message=f"{message} Going on with {fallback}.")
        cause = Cause(error=fault, usage=usage, model=model)
        own: RunColumns = {"used": used, "model": fallback, **AFRESH}
        return change(snapshot, Trigger.RETRY, given, own, cause=cause)
    fault = Fault(type=error.kind, message=message)
    wait = given.policy.wait(run.attempt, given.jitter, error.retry_after)
    columns: RunColumns = {
        "used": used,
        **tried,
        "attempt": run.attempt + 1,
        "not_before": given.now + wait,
        **released_for(wait, given.policy),
    }
    cause = Cause(error=fault, usage=usage, model=model)
    return change(snapshot, Trigger.RETRY, given, columns, cause=cause)


def _tried(run: RunRow, error: ProviderError, now: datetime) -> RunColumns:
    """The step's budgets after a failed call: one more failure, or the time of an outage."""
    if error.kind in OUTAGES:
        return {"outage_since": run.outage_since or now}
    return {"failures": run.failures + 1, "outage_since": None}


def _given_up(run: RunRow, given: Circumstances, fallback: str | None) -> str:
    """Why its step is not tried again with this model, to be added to the fault; or nothing."""
    policy = given.policy
    if run.outage_since is None:
        over = policy.exhausted(run.failures)
        return f" (failure {run.failures} of {policy.attempts})" if over else ""
    if policy.outlasted(run.outage_since, given.now):
        return f" (every call since {run.outage_since:%Y-%m-%d %H:%M}Z was refused)"
    return " (refused too often)" if fallback and policy.exhausted(run.attempt) else ""


def bill(run: RunRow, error: ProviderError) -> tuple[Used, Usage | None]:
    """The run's usage after a failed call, and the call's own: all that was reserved, or none.

    A provider may have worked on a call whose answer did not arrive, and bill it. One that it
    refused in an outage is not a turn: a run would use up its turns while it waits.
    """
    usage = run.unsettled if error.kind in MAY_BE_BILLED else None
    return run.used.plus(turns=error.kind not in OUTAGES, usage=usage), usage


def released_for(wait: timedelta, policy: RetryPolicy) -> RunColumns:
    """The columns that give the run back to any worker, if `wait` is too long to sit out."""
    return {} if wait <= policy.keep_lease else {"owner": None, "lease_until": None}
