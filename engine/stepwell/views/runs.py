"""Runs as people and programs see them: frozen, with the names of the JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import computed_field

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
    """The usage of a run.

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
        arguments: the model's; `edited_arguments` are those that a person put in their place.
        outcome: the envelope that the model reads, or None while there is none.
        full_result: the uncut result, where the outcome holds a cut one.
        late_outcome: the outcome that arrived after the call was abandoned; evidence only.
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
        edited: whether a person has edited the model's arguments.
        reasoning: the model's words when it requested the call.
        late_outcome: of a call in doubt: the outcome that arrived after it was abandoned. For an
            inherited call, the outcome in the original run.
        inherited: whether the call was open at the transition where the run was forked.
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
    """The status that a transition gave a call: `waiting`, `running` or a final one."""

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
    """A run at one of its transitions. For a fork: the original's transition it started from."""

    run: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxView:
    """A message or raise sent to a run.

    Attributes:
        kind: "message", or "top_up": a raise of its limits.
        amounts: of a top_up: by the limit's name, how much it raises that.
        delivered_seq: the transition that took it; None while it waits.
    """

    id: str
    run: str
    kind: str
    text: str | None
    amounts: dict[str, Any] | None
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
        not_before: the run does not continue earlier: a retry's wait, or when a question expires.
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
    redefined: tuple[int, ...]
    forks: tuple[PointView, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def trace(self) -> tuple[TraceStep, ...]:
        """The model's reasoning, calls and observations, step by step."""
        return tuple(_trace(self))


def _trace(run: RunDetail) -> Iterator[TraceStep]:
    replies = {said.seq: said for said in run.messages if said.role == "assistant"}
    observed = {said.call: said.text for said in run.messages if said.role == "tool"}
    asked: dict[int, list[CallView]] = {}
    for call in run.calls:
        asked.setdefault(call.requested_seq, []).append(call)
    for step, seq in enumerate(sorted({*replies, *asked}), 1):
        calls, reply = asked.get(seq, []), replies.get(seq)
        thought = reply and (reply.reasoning or (reply.text if calls else None))
        if thought:
            yield TraceStep(step=step, type="reasoning", text=thought)
        for call in calls:
            sent = call.arguments if call.edited_arguments is None else call.edited_arguments
            yield TraceStep(
                step=step, type="tool_call", tool=call.tool, arguments=sent, call=call.id
            )
        for call in calls:
            if call.id in observed:
                text = observed[call.id]
                yield TraceStep(
                    step=step, type="observation", tool=call.tool, text=text, call=call.id
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field of a run that differs, such as `used.turns`."""

    name: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDifference:
    """One call that differs, or exists on one side only."""

    number: int
    left: CallView | None
    right: CallView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptDifference:
    """The difference of two transcripts: the number of common messages, then each side's own."""

    common: int
    left: tuple[MessageView, ...]
    right: tuple[MessageView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """The differences between two runs, or between a run and its own past. Nothing else."""

    left: PointView
    right: PointView
    changed: tuple[Difference, ...]
    transcript: TranscriptDifference
    calls: tuple[CallDifference, ...]
