"""What people and programs are shown of runs: frozen, with the names that the JSON has."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from stepwell.envelope import Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsView:
    """How far a run may go. See `workflow.Limits`."""

    max_turns: int
    max_tool_calls: int
    max_tokens: int | None
    max_cost: Decimal | None
    max_seconds: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedView:
    """What a run has used.

    Attributes:
        parallel_turns: those of the turns that asked for more than one call at once.
        cost: USD, None where a price is not known.
        active_ms: how long it was driven, in milliseconds.
    """

    turns: int
    parallel_turns: int
    tool_calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: Decimal | None
    active_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """One entry of the transcript; the result of a call has the role "tool"."""

    seq: int
    role: str
    text: str
    reasoning: str | None = None
    call: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """One tool call.

    Attributes:
        provider_id: the id that the model knows it by.
        arguments: what the model asked for; `edited_arguments` is what a person put in its place.
        outcome: the envelope that the model reads, or None while there is none.
        full_result: the uncut result, where the outcome holds a cut one.
        late_outcome: what it came to after it was no longer waited for: evidence, no more.
        ms: how long it ran, in milliseconds.
    """

    id: str
    provider_id: str
    tool: str
    arguments: Any
    edited_arguments: dict[str, Any] | None
    status: str
    outcome: Envelope | None
    full_result: str | None
    idempotency_key: str
    requested_seq: int
    started_seq: int | None
    restarted_seq: int | None
    finished_seq: int | None
    late_outcome: Envelope | None
    ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalView:
    """One question to a person.

    Attributes:
        workflow, input: of the run.
        kind: "approval" (may it run?) or "in_doubt" (did it happen?).
        edited: whether a person has put other arguments in the place of the model's.
        reasoning: what the model said when it asked for the call.
        late_outcome: of a call in doubt: what it came to after it was no longer waited for; of an
            inherited one, in the original.
        inherited: whether the call was open where the run was forked from another.
    """

    id: str
    run: str
    workflow: str
    input: str
    call: str
    kind: str
    tool: str
    arguments: Any
    edited: bool
    reasoning: str | None
    late_outcome: Envelope | None
    asked_at: datetime
    expires_at: datetime | None
    status: str
    decided_at: datetime | None
    decided_by: str | None
    reason: str | None
    all_of_tool: bool
    inherited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One step of the reasoning trace; `step` counts model replies and a plan's own calls."""

    step: int
    type: str
    text: str | None = None
    tool: str | None = None
    arguments: Any = None
    call: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStep:
    """What one transition made of one call: `waiting`, `running`, or how it ended."""

    id: str
    tool: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One committed transition.

    Attributes:
        by: the person who caused it, or the process as "host:pid".
        digest: of the workflow's definition at that time; it changes with the code.
        calls: those that it requested, started or ended.
    """

    seq: int
    at: datetime
    trigger: str
    source: str | None
    dest: str
    by: str | None
    fence: int
    attempt: int
    digest: str | None
    model: str | None
    calls: tuple[CallStep, ...]
    usage: dict[str, int] | None
    cost: Decimal | None
    error: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class PointView:
    """A run at one of its transitions. Of a fork: the one of the original that it went on from."""

    run: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxView:
    """What somebody sent to a run.

    Attributes:
        kind: "message", or "top_up": a raise of its limits.
        amounts: of a top_up: by the limit's name, how much it raises that.
        delivered_seq: the transition that took it; None while it waits.
    """

    id: str
    run: str
    kind: str
    text: str | None
    amounts: dict[str, int] | None
    by: str | None
    sent_at: datetime
    delivered_seq: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run.

    Attributes:
        schedule: the name of the schedule that started it.
        digest: of the workflow's definition that the last step was taken with.
        owner: the process that drives it, as "host:pid".
        stuck: whether that process is gone or silent: the next resume or worker takes over.
        not_before: nobody goes on earlier: a retry's wait, or when a question expires.
        seq: the number of its last transition.
        forked_from: the run that it began as a part of.
    """

    id: str
    workflow: str
    state: str
    input: str
    answer: str | None
    error: dict[str, str] | None
    key: str | None
    schedule: str | None
    user: str | None
    model: str | None
    approve: str
    digest: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    attempt: int
    not_before: datetime | None
    owner: str | None
    lease_until: datetime | None
    stuck: bool
    cancel_requested: str | None
    limits: LimitsView
    used: UsedView
    seq: int
    forked_from: PointView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail(Run):
    """One run with everything in it, in order.

    Attributes:
        redefined: the transitions from which on the workflow's definition was another one.
        forks: the runs that were forked from it.
    """

    messages: tuple[MessageView, ...]
    calls: tuple[CallView, ...]
    approvals: tuple[ApprovalView, ...]
    inbox: tuple[InboxView, ...]
    trace: tuple[TraceStep, ...]
    redefined: tuple[int, ...]
    forks: tuple[PointView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One word about a run that is not the same on both sides, such as `used.turns`."""

    name: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDifference:
    """One call that is not the same on both sides, or is there on one only."""

    number: int
    left: CallView | None
    right: CallView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptDifference:
    """How two transcripts differ: after so many common messages, what only one of them has."""

    common: int
    left: tuple[MessageView, ...]
    right: tuple[MessageView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """What differs between two runs, or between one and itself at an earlier time; no more."""

    left: PointView
    right: PointView
    changed: tuple[Difference, ...]
    transcript: TranscriptDifference
    calls: tuple[CallDifference, ...]


@dataclass(frozen=True, slots=True)
class ShownCall:
    """One call in a reply, as the model is shown it."""

    id: str
    tool: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """One message as the model is shown it.

    Attributes:
        role: "user", "assistant", "tool", or "summary", which the model reads as the user's.
        calls: what a reply asked for.
        call: of a result: the id of the call that it answers.
        raw: the provider's own items, sent instead of the rest to the model that they are from.
        tokens: about how many it takes.
    """

    role: str
    text: str
    reasoning: str | None = None
    calls: tuple[ShownCall, ...] = ()
    call: str | None = None
    tool: str | None = None
    raw: Any = None
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextView:
    """What the model is shown of a run, after one of its transitions.

    Attributes:
        model: who is asked; of a summary, who writes it. None for the setting STEPWELL_MODEL.
        redefined: whether the workflow was another one then: instructions and tools are today's.
        overhead: estimated tokens of the instructions and the tools.
        estimate: tokens of everything, counted by its characters alone: rather too many.
        reported: tokens that the provider itself counted last, of what was shown then and the
            reply to it; None where it has not, or where what it counted is shown no more.
        tokens: what decides when to summarise: as reported, and estimated since then.
        window: how many the model takes, None where that is not known.
    """

    run: str
    at: int
    state: str
    model: str | None
    redefined: bool
    instructions: str
    tools: tuple[dict[str, Any], ...]
    messages: tuple[ShownMessage, ...]
    overhead: int
    estimate: int
    reported: int | None
    tokens: int
    window: int | None
