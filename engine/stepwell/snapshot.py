"""A run as its driver holds it: what is needed to take the next step, and no more."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from stepwell.envelope import Envelope
from stepwell.inbox import InboxEntry
from stepwell.machine import CallStatus, State
from stepwell.messages import AssistantMessage, Message, ToolCall, Usage, UserMessage
from stepwell.offer import Offer, Today
from stepwell.shown import Shown
from stepwell.transcript import shortened, tool_messages


class Role(StrEnum):
    """Who a stored message is from."""

    USER = "user"
    ASSISTANT = "assistant"
    SUMMARY = "summary"


class ApprovePolicy(StrEnum):
    """What becomes of calls that need a person, for a whole run."""

    PARK = "park"
    DENY = "deny"
    ALL = "all"


class ApprovalKind(StrEnum):
    """What a person is asked: may it run, or what became of it."""

    APPROVAL = "approval"
    IN_DOUBT = "in_doubt"


class ApprovalStatus(StrEnum):
    """What became of a question."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a run has used so far; never reset.

    Attributes:
        cost: USD, or None once the price of any call is not known.
    """

    turns: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = Decimal(0)

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def lost(self, run: "RunRow") -> "Used":
        """These counts with what was reserved for a call that was lost: it may be billed."""
        lost = Usage(input_tokens=run.reserved_tokens, cost=run.reserved_cost)
        return self.plus(turns=run.reserved_turns, usage=lost)

    def plus(self, *, turns: int = 0, tool_calls: int = 0, usage: Usage | None = None) -> "Used":
        """These counts with more added; a price that is not known makes the sum unknown."""
        more = usage or Usage(cost=Decimal(0))
        known = self.cost is not None and more.cost is not None
        return Used(
            turns=self.turns + turns,
            tool_calls=self.tool_calls + tool_calls,
            input_tokens=self.input_tokens + more.input_tokens,
            cached_tokens=self.cached_tokens + more.cached_tokens,
            output_tokens=self.output_tokens + more.output_tokens,
            cost=(self.cost or Decimal(0)) + (more.cost or Decimal(0)) if known else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error as it is recorded."""

    type: str
    message: str

    def as_json(self) -> dict[str, str]:
        """The error as users see it."""
        return {"type": self.type, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run's own columns.

    Attributes:
        number: the key inside the database; `id` is the public ULID.
        seq: how many transitions there were.
        fence: grows with every owner; a writer with an older one changes nothing.
        attempt: 1 for the first try of the present step.
        not_before: nobody goes on earlier (a retry's wait, or when a question expires).
        max_tokens, max_cost, max_seconds: None for no limit; see `workflow.Limits`.
        active_ms: how long it was driven, without waiting for people or for a worker.
        reserved_turns, reserved_tokens, reserved_cost: what the next step may use at most; settled
            by its record, and spent if its driver is lost.
        window: the model's window as a refusal of too long a request has shown it.
        overflow_at: no summary is tried again below so many tokens.
        digest: of the workflow's definition that the last step was taken with.
        owner: number of the worker that drives it, until `lease_until`.
        cancel_requested: who asked for it, while another process drives the run.
        forked_run, forked_seq: the number of the run that it was forked from, and after which
            transition of it.
    """

    number: int
    id: str
    workflow: str
    state: State
    seq: int
    created_at: datetime
    updated_at: datetime
    max_turns: int
    max_tool_calls: int
    key: str | None = None
    user: str | None = None
    model: str | None = None
    approve: ApprovePolicy = ApprovePolicy.PARK
    fence: int = 0
    attempt: int = 1
    not_before: datetime | None = None
    used: Used = Used()
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    max_seconds: int | None = None
    active_ms: int = 0
    reserved_turns: int = 0
    reserved_tokens: int = 0
    reserved_cost: Decimal = Decimal(0)
    window: int | None = None
    overflow_at: int = 0
    digest: str | None = None
    answer: str | None = None
    error: Fault | None = None
    finished_at: datetime | None = None
    cancel_requested: str | None = None
    owner: int | None = None
    lease_until: datetime | None = None
    forked_run: int | None = None
    forked_seq: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """One message as it is kept. Results of calls are kept with the calls.

    Attributes:
        covers: of a summary: the number of the last message that it stands for.
    """

    number: int
    seq: int
    role: Role
    text: str
    reasoning: str | None = None
    provider: str | None = None
    raw: Any = None
    covers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call as it is kept: a line of the effect ledger.

    Attributes:
        number: its place among the run's calls; with the run's id it makes the public id.
        arguments: what will run: the model's arguments parsed, or its text where that failed.
        edited: the arguments that a person put in their place.
        fence: of the driver that started it; older than the run's means its outcome was lost.
        full_result: the uncut result, where the outcome holds a cut one.
        started_seq: the transition that first started it.
        reconciled_seq: the one that recorded that its tool could not find out what became of it.
        restarted_seq: the last one that started it again, after its outcome was lost.
        shortened_seq: the one from which on the model is shown only the result's beginning.
        masked: these arguments are not whole, for they held a secret: they must not run.
    """

    number: int
    provider_id: str
    tool: str
    arguments: Any
    status: CallStatus
    requested_seq: int
    edited: dict[str, Any] | None = None
    outcome: Envelope | None = None
    full_result: str | None = None
    started_seq: int | None = None
    restarted_seq: int | None = None
    reconciled_seq: int | None = None
    finished_seq: int | None = None
    shortened_seq: int | None = None
    fence: int | None = None
    ms: int | None = None
    masked: bool = False

    def is_marked_by(self, fence: int, seq: int) -> bool:
        """Whether it was this transition, under this fence, that recorded it as running."""
        marked = self.restarted_seq or self.started_seq
        return self.status is CallStatus.RUNNING and (self.fence, marked) == (fence, seq)

    @property
    def effective(self) -> Any:
        """The arguments that run: the edited ones where there are any."""
        return self.arguments if self.edited is None else self.edited


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One question to a person about one exact call.

    Attributes:
        digest: of the tool and the arguments that were asked about, or approved after an edit.
        all_of_tool: the answer holds for every further call of this tool in this run.
    """

    number: int
    call: int
    kind: ApprovalKind
    digest: str
    asked_at: datetime
    asked_seq: int
    expires_at: datetime | None = None
    status: ApprovalStatus = ApprovalStatus.PENDING
    all_of_tool: bool = False
    decided_at: datetime | None = None
    decided_seq: int | None = None
    decided_by: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class Snapshot:
    """All that the next step depends on. Belongs to one driver, which alone changes it.

    Attributes:
        shown: what the model is shown, legal whenever a model call may follow.
        batch: the calls of the last reply that asked for any, by number.
        approvals: the questions about those calls, by number.
        blanket: tools whose every further call a person has approved.
        notes: the run's scratchpad.
        ids: every id that a call has been given, for none may be there twice, with its number.
        inbox: what was sent to the run and not taken yet, as far as its driver knows.
        messages, calls, questions, replies: how many there are.
        stopping: its driver has to stop: what is under way may end, nothing more begins.
        offer: what its next model call may take; None until its driver has asked.
        today: what all runs of its workflow came to today, if there are limits a day.
        last, repeats: the calls of the last reply that have ended, and how many replies in a row
            asked for the same and came to the same.
    """

    run: RunRow
    shown: Shown = field(default_factory=Shown)
    batch: dict[int, Call] = field(default_factory=dict)
    approvals: dict[int, Approval] = field(default_factory=dict)
    blanket: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    inbox: tuple[InboxEntry, ...] = ()
    messages: int = 0
    calls: int = 0
    questions: int = 0
    replies: int = 0
    stopping: bool = False
    offer: Offer | None = None
    today: Today | None = None
    last: tuple[Call, ...] = ()
    repeats: int = 0
    _closed: bool = True

    def is_between_steps(self) -> bool:
        """Whether it is driven, and none of its calls is recorded as running by its driver."""
        fence = self.run.fence
        running = CallStatus.RUNNING
        busy = any(call.status is running and call.fence == fence for call in self.batch.values())
        return self.run.owner is not None and not busy

    @property
    def transcript(self) -> list[Message]:
        """The messages that the model is shown."""
        return self.shown.messages

    @property
    def last_text(self) -> str:
        """The text of the last message that the model is shown."""
        return self.transcript[-1].text if self.transcript else ""

    @property
    def tokens(self) -> int:
        """What a request for the next reply takes, as far as that is known."""
        return self.shown.tokens(self.offer.overhead if self.offer else 0)

    @property
    def is_answered(self) -> bool:
        """Whether the last batch's results are in the transcript."""
        return self._closed

    def extend(
        self,
        messages: Sequence[StoredMessage] = (),
        calls: Sequence[Call] = (),
        approvals: Sequence[Approval] = (),
        notes: Sequence[str] = (),
        shortened: Sequence[int] = (),
        usage: Usage | None = None,
    ) -> None:
        """Take in what one transition wrote, at a cost that does not depend on the past.

        Args:
            messages: its rows of each kind.
            calls: likewise.
            approvals: likewise.
            notes: likewise.
            shortened: numbers of calls whose results are shown cut from here on.
            usage: of the model call whose request was the transcript up to here.
        """
        fresh = [call for call in calls if call.number > self.calls]
        self.batch.update({call.number: call for call in calls if call.number <= self.calls})
        self._close()
        for message in messages:
            self._add_message(message, fresh)
        if fresh and not any(message.role is Role.ASSISTANT for message in messages):
            self._ask("", None, fresh, None, None)  # a pipeline's plan asked, not the model
        self.calls += len(fresh)
        self.ids.update((call.provider_id, call.number) for call in fresh)
        if usage is not None and usage.input_tokens:
            self.shown.report(usage.input_tokens + usage.output_tokens)
        self._close()
        if shortened:
            numbers = set(shortened)
            self.shown.shorten(id_ for id_, number in self.ids.items() if number in numbers)
        for approval in approvals:
            self.approvals[approval.number] = approval
            self.questions = max(self.questions, approval.number)
            if approval.all_of_tool:
                self.blanket.add(self.batch[approval.call].tool)
        self.notes.extend(notes)

    def _add_message(self, message: StoredMessage, calls: list[Call]) -> None:
        self._close()
        self.messages += 1
        if message.role is Role.USER:
            self.shown.add(message.number, UserMessage(message.text))
            return
        if message.role is Role.SUMMARY:
            self.shown.summarise(message.covers or 0, message.text, (message.raw or {})["said"])
            return
        self.replies += 1
        if not (message.text.strip() or calls or message.raw):
            return  # kept, but every provider refuses an empty message
        self._ask(message.text, message.reasoning, calls, message.provider, message.raw)

    def _ask(
        self,
        text: str,
        reasoning: str | None,
        calls: list[Call],
        provider: str | None,
        raw: Any,
    ) -> None:
        asked = tuple(ToolCall(c.tool, c.arguments, c.provider_id) for c in calls)
        self.shown.add(self.messages, AssistantMessage(text, reasoning, asked, provider, raw))
        if calls:
            self.batch = {call.number: call for call in calls}
            self.approvals = {}
            self._closed = False

    def _close(self) -> None:
        """Answer the last reply's calls, in the order asked, once all of them have ended."""
        if self._closed or not all(call.status.final for call in self.batch.values()):
            return
        results = tool_messages(
            (c.provider_id, c.tool, c.outcome or {}) for c in self.batch.values()
        )
        number = self.shown.numbers[-1]
        for call, result in zip(self.batch.values(), results, strict=True):
            self.shown.add(number, shortened(result) if call.shortened_seq else result)
        ended = tuple(self.batch.values())
        self.repeats = self.repeats + 1 if is_repeated(self.last, ended) else 1
        self.last = ended
        self._closed = True


def is_repeated(last: Sequence[Call], batch: Sequence[Call]) -> bool:
    """Whether the calls of two replies asked for the same, and came to the same."""
    return len(last) == len(batch) and all(map(_is_the_same, last, batch))


def _is_the_same(one: Call, other: Call) -> bool:
    return (one.tool, one.arguments, one.status) == (
        other.tool,
        other.arguments,
        other.status,
    ) and _came_to(one) == _came_to(other)


def _came_to(call: Call) -> Envelope:
    """A call's outcome, but for what we have added to it."""
    return {k: v for k, v in (call.outcome or {}).items() if k != "repeated"}
