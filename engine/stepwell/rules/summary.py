"""Pure: when a transcript is summarised, what is summarised, and what its summary changes."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from stepwell.errors import CONTEXT_LENGTH, ProviderError
from stepwell.machine import Trigger
from stepwell.messages import (
    Message,
    Reply,
    Request,
    StopReason,
    ToolMessage,
    UserMessage,
)
from stepwell.plain_json import clean, dumps
from stepwell.retry import RetryPolicy
from stepwell.rules.change import Change, cap, change
from stepwell.rules.turn import NUDGES, bill, faulted
from stepwell.state.records import Fault, Role, StoredMessage
from stepwell.state.shown import Shown, summary_text
from stepwell.state.snapshot import Snapshot
from stepwell.state.tokens import count, weigh
from stepwell.state.transcript import SHORT, shortened
from stepwell.workflow import Agent, Workflow

# No summary is tried again before the transcript has grown by this share of the window.
GROWTH = 10
# Room for a reply, where the workflow does not say how long one may be; a part of the window at
# most.
REPLY = 4_000
PART_OF_WINDOW = 4
# A summary that is shorter says nothing.
SHORTEST_SUMMARY = 40
# What is quoted of the user's own words, in characters.
QUOTED = 8_000
# To what a result or a message is cut in what the summariser reads, from generous to strict.
_CUTS = (20_000, 4_000, 1_000, 300)


@dataclass(frozen=True, slots=True)
class Cut:
    """What a summary would stand for.

    Attributes:
        covers: number of the last stored message.
        messages: all but the first one, up to there.
    """

    covers: int
    messages: tuple[Message, ...]


def window(workflow: Agent, snapshot: Snapshot) -> int | None:
    """The model's window in tokens, if it is known."""
    known = workflow.summarising.window
    if known is None and snapshot.offer is not None:
        known = snapshot.offer.terms.window
    refused = snapshot.run.window
    return known if refused is None else min(refused, known or refused)


def room(workflow: Agent, snapshot: Snapshot) -> int | None:
    """Tokens that a request may take at most, so that a reply still fits; None if not known."""
    whole = window(workflow, snapshot)
    if whole is None:
        return None
    reply = min(workflow.max_output_tokens or REPLY, whole // PART_OF_WINDOW)
    return whole - reply


def threshold(workflow: Agent, snapshot: Snapshot) -> int | None:
    """Tokens from which on a summary is wanted."""
    at, whole = workflow.summarising.at, window(workflow, snapshot)
    if at > 1:
        return int(at)
    return None if whole is None else int(at * whole)


def overflows(workflow: Agent, snapshot: Snapshot) -> bool:
    """Whether the transcript has to be made shorter before the model is asked."""
    most, wanted = room(workflow, snapshot), threshold(workflow, snapshot)
    if most is None and wanted is None:
        return False
    tokens = snapshot.tokens
    if most is not None and tokens > most:
        return True
    due = wanted is not None and tokens >= max(wanted, snapshot.run.overflow_at)
    return due and cut(workflow, snapshot) is not None


def cut(workflow: Agent, snapshot: Snapshot) -> Cut | None:
    """All but the first message and the last turns; None if that is nothing, or a summary alone.

    A reply and its results stay together, and so do a user's message and the reply to it.
    """
    shown = snapshot.shown
    turns = shown.turns()
    if len(turns) <= workflow.summarising.keep_turns:
        return None
    place = turns[-workflow.summarising.keep_turns]
    begins = 1 if shown.said is None else 2
    while place > begins and isinstance(shown.messages[place - 1], UserMessage):
        place -= 1
    if place <= begins:
        return None
    return Cut(shown.numbers[place - 1], tuple(shown.messages[1:place]))


def request(workflow: Agent, snapshot: Snapshot, found: Cut, output: int | None) -> Request:
    """What the summariser is asked: one message, in which everything else is quoted as data."""
    policy = workflow.summarising
    other = snapshot.offer.summariser if snapshot.offer else None
    whole = (other.window if other else None) or window(workflow, snapshot)
    most = None if whole is None else whole - policy.max_tokens - count(policy.prompt) - REPLY // 4
    return Request(
        instructions=policy.prompt,
        transcript=[UserMessage(_reading(snapshot, found, most))],
        attempt=snapshot.run.attempt,
        max_output_tokens=min(policy.max_tokens, output or policy.max_tokens),
    )


def _reading(snapshot: Snapshot, found: Cut, most: int | None) -> str:
    """The conversation as a text that fits; what is cut is cut in its longest parts first."""
    text = ""
    for longest in (None, *_CUTS):
        parts = [_quoted("task", snapshot.transcript[0].text, longest)]
        messages = found.messages
        if snapshot.shown.said is not None:
            parts.append(_quoted("earlier summary", messages[0].text, longest))
            messages = messages[1:]
        parts += [line for message in messages for line in _lines(message, longest)]
        text = "\n\n".join(parts)
        if most is None or count(text) <= most:
            return text
    half = max(most or 0, 0) * 3 // 2  # of its bytes, which are what `count` counts
    return f"{text[: half // 2]}\n\n[…]\n\n{text[-half // 2 :]}"


def _lines(message: Message, longest: int | None) -> list[str]:
    if isinstance(message, ToolMessage):
        return [_quoted(f"result of {message.tool}", message.text, longest)]
    if isinstance(message, UserMessage):
        return [_quoted("user", message.text, longest)]
    said = [_quoted("agent", message.text, longest)] if message.text.strip() else []
    return said + [
        _quoted(f"agent calls {call.name}", dumps(call.arguments), longest)
        for call in message.calls
    ]


def _quoted(who: str, text: str, longest: int | None) -> str:
    if longest is not None and len(text) > longest:
        text = f"{text[:longest]}… [{len(text) - longest:,} more characters]"
    return f"[{who}]\n{text}"


def summarised(
    workflow: Agent, snapshot: Snapshot, reply: Reply, model: str, now: datetime
) -> Change:
    """What a summary changes; one that is of no use changes nothing but that it was tried."""
    found = cut(workflow, snapshot)
    text = str(clean(reply.text)).strip()
    said = _said(snapshot.shown, found)
    problem = _problem(workflow, reply, text, said, found)
    used = snapshot.run.used.plus(turns=1, usage=reply.usage)
    if problem is not None or found is None:
        fault = Fault(type="summary_useless", message=problem or "There is nothing to summarise.")
        return skip(workflow, snapshot, now, fault, model=model, usage=reply.usage, used=used)
    message = StoredMessage(
        number=snapshot.messages + 1,
        seq=snapshot.run.seq + 1,
        role=Role.SUMMARY,
        text=text,
        raw={"said": said},
        covers=found.covers,
    )
    after = replace(snapshot, shown=snapshot.shown.copy())
    after.shown.summarise(found.covers, text, said)
    columns = {"used": used, "overflow_at": after.tokens + _growth(workflow, snapshot)}
    return change(
        snapshot,
        Trigger.SUMMARISED,
        now,
        messages=[message],
        usage=reply.usage,
        model=model,
        columns=columns,
    )


def _problem(
    workflow: Agent, reply: Reply, text: str, said: list[str], found: Cut | None
) -> str | None:
    """Why a summary is of no use."""
    if reply.stop is not StopReason.END or reply.calls:
        return f"The summary did not end as it should ({reply.reason or reply.stop})."
    if len(text) < SHORTEST_SUMMARY:
        return f"The summary says nothing: {text!r}."
    if count(text) > 2 * workflow.summarising.max_tokens:
        return f"The summary is longer than {workflow.summarising.max_tokens:,} tokens."
    if found and count(summary_text(text, said)) >= sum(map(weigh, found.messages)):
        return "The summary is no shorter than what it stands for."
    return None


def _said(shown: Shown, found: Cut | None) -> list[str]:
    """What the user has said since the task was set, the last of it first kept."""
    texts = list(shown.said or ())
    begins = 1 if shown.said is not None else 0
    covered = (found.messages if found else ())[begins:]
    texts += [m.text for m in covered if isinstance(m, UserMessage) and m.text not in NUDGES]
    kept: list[str] = []
    for text in reversed(texts):
        if sum(map(len, kept)) + len(text) > QUOTED:
            break
        kept.insert(0, text)
    return kept


def skip(
    workflow: Agent,
    snapshot: Snapshot,
    now: datetime,
    fault: Fault | None = None,
    **more: Any,
) -> Change:
    """Go on without a summary; where the window is full, the oldest results are shown shortened.

    Args:
        workflow: the run's.
        snapshot: the run.
        now: the time.
        fault: why there is none, if one was tried.
        more: the `model` that was asked, its `usage`, and what was `used` with it.
    """
    used = more.pop("used", snapshot.run.used)
    most = room(workflow, snapshot)
    short, tokens = _shortened(snapshot, most)
    if most is not None and tokens > most:
        text = f"The context cannot be reduced: it takes about {tokens:,} of {most:,} tokens."
        reason = Fault(type="context_full", message=f"Stopped unfinished: {text}")
        return cap(snapshot, now, reason, columns={"used": used}, **more)
    columns = {"used": used, "overflow_at": tokens + _growth(workflow, snapshot)}
    return change(
        snapshot,
        Trigger.SUMMARY_SKIPPED,
        now,
        shortened=short,
        error=fault,
        columns=columns,
        **more,
    )


def not_summarised(
    workflow: Agent,
    snapshot: Snapshot,
    error: ProviderError,
    model: str | None,
    now: datetime,
    policy: RetryPolicy,
    jitter: float,
) -> Change:
    """What it changes that the summariser failed: the run goes on without, unless it cannot."""
    fault = Fault(type=error.kind, message=f"No summary: {clean(str(error))}")
    used, usage = bill(snapshot.run, error)
    skipped = skip(workflow, snapshot, now, fault, model=model, usage=usage, used=used)
    if skipped.trigger is Trigger.CAP and error.retryable:
        return faulted(snapshot, error, model, now, policy, jitter)
    return skipped


def is_too_long(workflow: Workflow, snapshot: Snapshot, error: ProviderError) -> bool:
    """Whether a provider's refusal can be answered by summarising, which is tried once."""
    refused = error.kind == CONTEXT_LENGTH and isinstance(workflow, Agent)
    return refused and (snapshot.run.attempt == 1 or snapshot.run.window is None)


def too_long(snapshot: Snapshot, error: ProviderError, model: str | None, now: datetime) -> Change:
    """What it changes that the provider found a request too long: its window is known now."""
    run = snapshot.run
    fault = Fault(type=error.kind, message=str(clean(str(error))))
    columns = {
        "used": run.used.plus(turns=1),
        "attempt": run.attempt + 1,
        "window": max(1, snapshot.tokens * (GROWTH - 1) // GROWTH),
    }
    return change(snapshot, Trigger.OVERFLOW, now, error=fault, model=model, columns=columns)


def _shortened(snapshot: Snapshot, most: int | None) -> tuple[list[int], int]:
    """Calls whose results have to be shown shortened, the oldest first, and what is left then."""
    shown, calls = snapshot.shown, list[int]()
    counted = since = 0  # by how much the estimates grow less
    tokens = before = snapshot.tokens
    for place, (message, weight) in enumerate(zip(shown.messages, shown.weights(), strict=True)):
        if most is None or tokens <= most:
            break
        if not isinstance(message, ToolMessage) or len(message.text) <= 2 * SHORT:
            continue
        lighter = weight - weigh(shortened(message))
        counted, since = (
            (counted + lighter, since) if place < shown.counted else (counted, since + lighter)
        )
        tokens = before - shown.saved(counted) - since
        calls.append(snapshot.ids[message.call])
    return calls, tokens


def _growth(workflow: Agent, snapshot: Snapshot) -> int:
    whole = window(workflow, snapshot) or threshold(workflow, snapshot) or 0
    return whole // GROWTH
