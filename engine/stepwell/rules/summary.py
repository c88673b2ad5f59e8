"""Pure: when and how a transcript is summarised, and the changes that a summary makes."""

from dataclasses import dataclass, replace

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
from stepwell.rules.change import Cause, Change, Rows, cap, change
from stepwell.rules.turn import NUDGES, bill, faulted
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import Fault, Role, RunColumns, StoredMessage, Used
from stepwell.state.shown import Shown, summary_text
from stepwell.state.snapshot import Snapshot
from stepwell.state.tokens import count, weigh
from stepwell.state.transcript import SHORT, shortened
from stepwell.workflow import Summarising, Workflow

# No summary is tried again before the transcript has grown by this share of the window.
GROWTH = 10
# Room for a reply, where the workflow does not say how long one may be; a part of the window at
# most.
REPLY = 4_000
PART_OF_WINDOW = 4
# A summary that is shorter says nothing.
SHORTEST_SUMMARY = 40
# The longest quotation of the user's own words, in characters.
QUOTED = 8_000
# Lengths to which the summariser's text of a result or message is cut, from generous to strict.
_CUTS = (20_000, 4_000, 1_000, 300)


@dataclass(frozen=True, slots=True)
class Cut:
    """The messages that a summary would replace.

    Attributes:
        covers: number of the last stored message.
        messages: all but the first one, up to there.
    """

    covers: int
    messages: tuple[Message, ...]


_DEFAULT = Summarising()


def _policy(workflow: Workflow) -> Summarising:
    return workflow.summarising or _DEFAULT


def window(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> int | None:
    """The model's window in tokens, if it is known."""
    known = _policy(workflow).window
    if known is None and given.terms is not None:
        known = given.terms.terms.window
    refused = snapshot.run.window
    return known if refused is None else min(refused, known or refused)


def room(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> int | None:
    """Tokens that a request may take at most, so that a reply still fits; None if not known."""
    whole = window(workflow, snapshot, given)
    if whole is None:
        return None
    reply = min(workflow.max_output_tokens or REPLY, whole // PART_OF_WINDOW)
    return whole - reply


def threshold(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> int | None:
    """Tokens from which on a summary is wanted."""
    at, whole = _policy(workflow).at, window(workflow, snapshot, given)
    if at > 1:
        return int(at)
    return None if whole is None else int(at * whole)


def overflows(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> bool:
    """Whether the transcript has to be made shorter before the model is asked."""
    most, wanted = room(workflow, snapshot, given), threshold(workflow, snapshot, given)
    if most is None and wanted is None:
        return False
    tokens = snapshot.shown.tokens(given.overhead)
    # A context that could not be made shorter is sent as it is; once it grows, it is tried again.
    irreducible = snapshot.run.overflow_at - _growth(workflow, snapshot, given)
    if most is not None and tokens > max(most, irreducible):
        return True
    due = wanted is not None and tokens >= max(wanted, snapshot.run.overflow_at)
    return due and replaceable(workflow, snapshot) is not None


def replaceable(workflow: Workflow, snapshot: Snapshot) -> Cut | None:
    """All but the first message and the last turns; None if that is nothing, or a summary alone.

    A reply and its results stay together, and so do a user's message and the reply to it.
    """
    shown = snapshot.shown
    turns = shown.turns()
    if len(turns) <= _policy(workflow).keep_turns:
        return None
    place = turns[-_policy(workflow).keep_turns]
    begins = 1 if shown.said is None else 2
    while place > begins and isinstance(shown.messages[place - 1], UserMessage):
        place -= 1
    if place <= begins:
        return None
    return Cut(shown.numbers[place - 1], tuple(shown.messages[1:place]))


def request(
    workflow: Workflow, snapshot: Snapshot, given: Circumstances, found: Cut, output: int | None
) -> Request:
    """The request to the summariser: one message, in which everything else is quoted as data."""
    policy = _policy(workflow)
    other = given.terms.summariser if given.terms else None
    whole = (other.window if other else None) or window(workflow, snapshot, given)
    most = None if whole is None else whole - policy.max_tokens - count(policy.prompt) - REPLY // 4
    return Request(
        instructions=policy.prompt,
        transcript=[UserMessage(_reading(snapshot, found, most))],
        attempt=snapshot.run.attempt,
        max_output_tokens=min(policy.max_tokens, output or policy.max_tokens),
    )


def _reading(snapshot: Snapshot, found: Cut, most: int | None) -> str:
    """The conversation as a text that fits; its longest parts are cut first."""
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
    workflow: Workflow, snapshot: Snapshot, reply: Reply, model: str, given: Circumstances
) -> Change:
    """The change after a summary; a useless one only counts as tried."""
    found = replaceable(workflow, snapshot)
    text = str(clean(reply.text)).strip()
    said = _said(snapshot.shown, found)
    problem = _problem(workflow, reply, text, said, found)
    usage = snapshot.run.settled(reply.usage)
    used = snapshot.run.used.plus(turns=1, usage=usage)
    if problem is not None or found is None:
        fault = Fault(type="summary_useless", message=problem or "There is nothing to summarise.")
        cause = Cause(error=fault, usage=usage, model=model)
        return skip(workflow, snapshot, given, cause, used)
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
    tokens, most = after.shown.tokens(given.overhead), room(workflow, snapshot, given)
    fits = most is None or tokens <= most  # else the oldest results are shortened, too
    columns: RunColumns = {
        "used": used,
        "overflow_at": tokens + _growth(workflow, snapshot, given) if fits else 0,
    }
    cause = Cause(usage=usage, model=model)
    rows = Rows(messages=[message])
    return change(snapshot, Trigger.SUMMARISED, given, columns, rows=rows, cause=cause)


def _problem(
    workflow: Workflow, reply: Reply, text: str, said: list[str], found: Cut | None
) -> str | None:
    """Why a summary is of no use."""
    if reply.stop is not StopReason.END or reply.calls:
        return f"The summary did not end as it should ({reply.reason or reply.stop})."
    if len(text) < SHORTEST_SUMMARY:
        return f"The summary says nothing: {text!r}."
    if count(text) > 2 * _policy(workflow).max_tokens:
        return f"The summary is longer than {_policy(workflow).max_tokens:,} tokens."
    if found and weigh(UserMessage(summary_text(text, said))) >= sum(map(weigh, found.messages)):
        return "The summary is not shorter than the messages that it replaces."
    return None


def _said(shown: Shown, found: Cut | None) -> list[str]:
    """The user's words since the task was set; the newest are kept first."""
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
    workflow: Workflow,
    snapshot: Snapshot,
    given: Circumstances,
    cause: Cause | None = None,
    used: Used | None = None,
) -> Change:
    """Continue without a summary; if the window is full, show the oldest results shortened.

    Tokens are estimated, and an estimate alone ends no run: if even that is too much, the model is
    asked all the same, and the run is capped only after its provider has refused the request.

    Args:
        workflow: the run's.
        snapshot: the run.
        given: the time, and what else the driver knows.
        cause: why there is none, if one was tried, and what that took.
        used: the run's counts with what that took.
    """
    used, cause = used or snapshot.run.used, cause or Cause()
    most = room(workflow, snapshot, given)
    short, tokens = _shortened(snapshot, given, most)
    if most is not None and tokens > most and snapshot.run.window is not None:
        text = f"The context cannot be reduced: it takes about {tokens:,} of {most:,} tokens."
        reason = Fault(type="context_full", message=f"Stopped unfinished: {text}")
        return cap(snapshot, given, replace(cause, error=reason), {"used": used})
    columns: RunColumns = {
        "used": used,
        "overflow_at": tokens + _growth(workflow, snapshot, given),
    }
    rows = Rows(shortened=short)
    return change(snapshot, Trigger.SUMMARY_SKIPPED, given, columns, rows=rows, cause=cause)


def not_summarised(
    workflow: Workflow,
    snapshot: Snapshot,
    error: ProviderError,
    model: str | None,
    given: Circumstances,
) -> Change:
    """The change after a failed summary: continue without one, or cap the run if it cannot."""
    fault = Fault(type=error.kind, message=f"No summary: {clean(str(error))}")
    used, usage = bill(snapshot.run, error)
    cause = Cause(error=fault, usage=usage, model=model)
    skipped = skip(workflow, snapshot, given, cause, used)
    if skipped.trigger is Trigger.CAP and error.retryable:
        return faulted(snapshot, error, model, given)
    return skipped


def is_too_long(workflow: Workflow, snapshot: Snapshot, error: ProviderError) -> bool:
    """Whether a provider's refusal can be answered by summarising, which is tried once."""
    refused = error.kind == CONTEXT_LENGTH and workflow.summarising is not None
    return refused and (snapshot.run.attempt == 1 or snapshot.run.window is None)


def too_long(
    snapshot: Snapshot, error: ProviderError, model: str | None, given: Circumstances
) -> Change:
    """The change after a provider found a request too long: its window is known now."""
    run = snapshot.run
    fault = Fault(type=error.kind, message=str(clean(str(error))))
    columns: RunColumns = {
        "used": run.used.plus(turns=1),
        "attempt": run.attempt + 1,
        "window": max(1, snapshot.shown.tokens(given.overhead) * (GROWTH - 1) // GROWTH),
    }
    cause = Cause(error=fault, model=model)
    return change(snapshot, Trigger.OVERFLOW, given, columns, cause=cause)


def _shortened(snapshot: Snapshot, given: Circumstances, most: int | None) -> tuple[list[int], int]:
    """Calls whose results must be shown shortened, the oldest first, and the tokens left then."""
    shown, calls = snapshot.shown, list[int]()
    counted = since = 0  # by how much the estimates grow less
    tokens = before = snapshot.shown.tokens(given.overhead)
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


def _growth(workflow: Workflow, snapshot: Snapshot, given: Circumstances) -> int:
    whole = window(workflow, snapshot, given) or threshold(workflow, snapshot, given) or 0
    return whole // GROWTH
