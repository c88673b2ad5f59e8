"""The records of a run: plain data, one class for each kind of row."""

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple, TypedDict

from stepwell.envelope import Envelope
from stepwell.machine import CallStatus, Recovery, State
from stepwell.messages import Usage


class Role(StrEnum):
    """Who a stored message is from."""

    USER = "user"
    ASSISTANT = "assistant"
    SUMMARY = "summary"


class ApprovePolicy(StrEnum):
    """The policy of a whole run for calls that need a person."""

    PARK = "park"
    DENY = "deny"
    ALL = "all"


class ApprovalKind(StrEnum):
    """The kind of a question: may the call run, or did it take effect."""

    APPROVAL = "approval"
    IN_DOUBT = "in_doubt"


class ApprovalStatus(StrEnum):
    """The status of a question."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A run's usage so far; never reset.

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
        """These counts and the reservation of a lost call: it may be billed."""
        return self.plus(turns=run.reserved_turns, usage=run.unsettled)

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


class RunLimits(NamedTuple):
    """How far one run may go: `workflow.Limits` without what holds for all runs of a workflow.

    Every limit but the first two may be None: then there is none.
    """

    max_turns: int
    max_tool_calls: int
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    max_seconds: int | None = None


class RunRow(NamedTuple):
    """One run's own columns. A tuple: the cheapest to replace at every step.

    Each field is the column of its name; `used` and `limits` are the columns that they have.

    Attributes:
        number: the key inside the database; `id` is the public ULID.
        seq: how many transitions there were.
        fence: grows with every owner; a writer with an older one changes nothing.
        attempt: 1 for the first try of the present step.
        failures: how many of its tries count against the setting `attempts`.
        outage_since: when the provider began to refuse every call of this step.
        not_before: the run does not continue earlier (a retry's wait, or a question's expiry).
        active_ms: how long it was driven, without waiting for people or for a worker.
        reserved_turns, reserved_tokens, reserved_cost: the most that the next step may use; settled
            by its record, and spent if its driver is lost.
        window: the model's window as a refusal of too long a request has shown it.
        overflow_at: no summary is tried again below so many tokens.
        digest: of the workflow's definition that the last step was taken with.
        owner: number of the worker that drives it, until `lease_until`.
        claimed_at: when its last owner claimed it.
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
    limits: RunLimits
    key: str | None = None
    user: str | None = None
    model: str | None = None
    approve: ApprovePolicy = ApprovePolicy.PARK
    fence: int = 0
    attempt: int = 1
    failures: int = 0
    outage_since: datetime | None = None
    not_before: datetime | None = None
    used: Used = Used()
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
    claimed_at: datetime | None = None
    forked_run: int | None = None
    forked_seq: int | None = None

    def settled(self, usage: Usage) -> Usage:
        """A call's usage; all that was reserved for it, if its provider did not say."""
        if usage.known:
            return usage
        kept = self.unsettled or usage
        return replace(kept, cost=kept.cost or None, known=False)

    @property
    def unsettled(self) -> Usage | None:
        """The most that a call in progress may be billed, if anything is reserved for it."""
        if not self.reserved_tokens and not self.reserved_cost:
            return None
        return Usage(input_tokens=self.reserved_tokens, cost=self.reserved_cost)


class RunColumns(TypedDict, total=False):
    """Those of a run's columns that a transition may set, beside those that every one sets."""

    model: str | None
    fence: int
    attempt: int
    failures: int
    outage_since: datetime | None
    not_before: datetime | None
    used: Used
    limits: RunLimits
    reserved_tokens: int
    reserved_cost: Decimal
    window: int | None
    overflow_at: int
    answer: str | None
    owner: int | None
    lease_until: datetime | None


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


class Call(NamedTuple):
    """One tool call as it is kept: a line of the effect ledger. A tuple, as a run's row is.

    Attributes:
        number: its place among the run's calls; with the run's id it makes the public id.
        arguments: what will run: the model's arguments parsed, or its text where that failed.
        edited: the arguments that a person put in their place.
        fence: of the driver that started it; older than the run's means its outcome was lost.
        full_result: the uncut result, where the outcome holds a cut one.
        started_seq: the transition that first started it.
        reconciled_seq: the one that recorded that its tool could not find out if it took effect.
        restarted_seq: the last one that started it again, after its outcome was lost.
        recovery: its tool's declaration, when the call began, for a lost outcome.
        masked: these arguments are not whole, because they held a secret: they must not run.
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
    fence: int | None = None
    ms: int | None = None
    recovery: Recovery | None = None
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
