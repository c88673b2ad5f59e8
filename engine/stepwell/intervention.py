"""Pure: what starts a run, and what people and recovery change in one from outside."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict

from stepwell.approval import expire
from stepwell.budget import UNITS
from stepwell.change import Change, change, stop
from stepwell.envelope import clean
from stepwell.errors import InvalidInput, RunNotResumable
from stepwell.machine import INITIAL, LIVE, State, Trigger
from stepwell.records import ApprovePolicy, Fault, Role, RunRow, StoredMessage
from stepwell.retry import RetryPolicy
from stepwell.snapshot import Snapshot
from stepwell.workflow import Workflow


class RunOptions(TypedDict, total=False):
    """How a run is started.

    Attributes:
        key: unique for each workflow: the same key finds its run again.
        user: whom it is for.
        model: instead of the workflow's own.
        max_turns, max_tool_calls, max_tokens, max_cost, max_seconds: instead of the workflow's
            own limits; see `workflow.Limits`.
    """

    key: str | None
    user: str | None
    model: str | None
    max_turns: int | None
    max_tool_calls: int | None
    max_tokens: int | None
    max_cost: Decimal | float | str | None
    max_seconds: int | None


class Raises(TypedDict, total=False):
    """By how much the limits of a run are raised."""

    max_turns: int
    max_tool_calls: int
    max_tokens: int
    max_cost: Decimal | float | str
    max_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a new run is made of."""

    id: str
    input: str
    key: str | None = None
    user: str | None = None
    model: str | None = None
    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    max_seconds: int | None = None
    approve: ApprovePolicy = ApprovePolicy.PARK


def new_run(id_: str, text: str, approve: ApprovePolicy | str, options: RunOptions) -> Start:
    """What a new run is made of, checked.

    Raises:
        InvalidInput: there is nothing to do, no such way to approve, or a negative limit.
    """
    if not text.strip():
        raise InvalidInput("The input is empty.", "Say what the run is to do.")
    try:
        policy = ApprovePolicy(approve)
    except ValueError:
        choices = ", ".join(ApprovePolicy)
        raise InvalidInput(f"approve cannot be {approve!r}.", f"Choices: {choices}.") from None
    limits = amounts(options)
    words: dict[str, Any] = {k: clean(v) for k, v in options.items() if k not in UNITS}
    return Start(id=id_, input=str(clean(text)), approve=policy, **words | limits)


# More would not fit into the database, and no run comes near it.
MOST = 10**9


def amounts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `given` that are limits, checked; USD as an exact decimal.

    Raises:
        InvalidInput: one is negative, too large, or no number.
    """
    found: dict[str, Any] = {}
    for name in UNITS:
        value = given.get(name)
        if value is None:
            continue
        try:
            number = Decimal(str(value))
        except ArithmeticError as error:
            raise InvalidInput(f"{name} is no number: {value!r}.") from error
        if number.is_nan() or not 0 <= number <= MOST:
            raise InvalidInput(f"{name} is at least 0 and at most {MOST:,}.")
        if name != "max_cost" and number != int(number):
            raise InvalidInput(f"{name} is a whole number, not {value!r}.")
        found[name] = number if name == "max_cost" else int(number)
    return found


def start(workflow: Workflow, new: Start, now: datetime) -> Change:
    """The first transition. The database gives the run its number."""
    limits = {name: getattr(workflow.limits, name) for name in UNITS}
    limits |= {name: getattr(new, name) for name in UNITS if getattr(new, name) is not None}
    run = RunRow(
        number=0,
        id=new.id,
        workflow=workflow.name,
        state=INITIAL,
        seq=1,
        created_at=now,
        updated_at=now,
        key=new.key,
        user=new.user,
        model=new.model,
        approve=new.approve,
        reserved_turns=1 if limits["max_turns"] > 0 else 0,
        digest=workflow.digest,
        **limits,
    )
    first = StoredMessage(number=1, seq=1, role=Role.USER, text=new.input)
    return Change(before=None, run=run, trigger=Trigger.START, by=new.user, messages=(first,))


def resume(
    snapshot: Snapshot,
    now: datetime,
    by: str | None,
    raises: Raises,
    model: str | None = None,
) -> Change | None:
    """What a person's `resume` changes: a raise tops a capped run up, a failed run starts afresh.

    With a `model`, the run goes on with that one. A raise of a live run changes nothing here: it
    is sent to its driver, see `steering`.

    Returns:
        None where nothing has to change for the run to go on, or it cannot.

    Raises:
        RunNotResumable: the run was cancelled, or this cannot be changed in its state.
        InvalidInput: a limit would be lowered.
    """
    run = snapshot.run
    raised = raised_limits(run, raises)
    if run.state is State.CAPPED and run.error and run.error.type in MAY_BE_OVER:
        raised = raised or {"max_turns": run.max_turns}
    more, columns = bool(raised), raised | ({} if model is None else {"model": model})
    if run.state is State.CAPPED:
        if model is not None and not more:
            text = f"Run {run.id} is capped: another model alone does not make it go on."
            raise RunNotResumable(text, "Raise its limit as well.")
        topped = change(snapshot, Trigger.TOP_UP, now, by=by, model=model, columns=columns)
        return topped if more else None
    if run.state is State.FAILED:
        return change(snapshot, Trigger.RESUME, now, by=by, model=model, columns=columns)
    if run.state is State.CANCELLED:
        raise RunNotResumable(f"Run {run.id} was cancelled; that is final.", "Start a new run.")
    if more and run.state is State.DONE:
        raise RunNotResumable(
            f"Run {run.id} is done: its limits cannot be raised any more.",
            f"`stepwell send {run.id} TEXT` goes on with it.",
        )
    return None if model is None else _switch(snapshot, now, by, model)


# What may be over by itself, or be for a person to judge: a run that it stopped simply tries again.
MAY_BE_OVER = frozenset(
    {"cost_per_day", "runs_per_day", "context_full", "repeated_call", "unknown_price"}
)


def raised_limits(run: RunRow, raises: Mapping[str, Any]) -> dict[str, Any]:
    """A run's limits after a raise; only those that are raised, of those it has."""
    more = {name: amount for name, amount in amounts(raises).items() if amount}
    return {
        name: getattr(run, name) + amount
        for name, amount in more.items()
        if getattr(run, name) is not None
    }


def _switch(snapshot: Snapshot, now: datetime, by: str | None, model: str) -> Change | None:
    """A live run goes on with another model, at once and with its attempts afresh."""
    run = snapshot.run
    if run.state not in LIVE:
        raise RunNotResumable(f"Run {run.id} is {run.state}: its model cannot be changed any more.")
    if run.state is State.AWAITING_APPROVAL:
        text = f"Run {run.id} awaits approval: its model can be changed when it goes on."
        raise RunNotResumable(text, "Decide its questions first.")
    if run.owner is not None:
        raise RunNotResumable(
            f"Run {run.id} is being driven just now: its model cannot be changed meanwhile.",
            "Wait until it parks or ends.",
        )
    if model == run.model:
        return None
    columns = {"model": model, "attempt": 1}
    return change(snapshot, Trigger.RETRY, now, by=by, model=model, columns=columns)


def cancel(
    snapshot: Snapshot, by: str | None, now: datetime, *, not_begun: Collection[int] = ()
) -> Change | None:
    """The end of a run at a person's wish; None where that is what it has come to already.

    Args:
        snapshot: the run.
        by: who wants it.
        now: the time.
        not_begun: calls recorded as running, of which the driver knows that they are not yet.

    Raises:
        RunNotResumable: it has ended otherwise.
    """
    run = snapshot.run
    if run.state is State.CANCELLED:
        return None
    if run.state not in LIVE:
        raise RunNotResumable(f"Run {run.id} is {run.state} already: nothing was cancelled.")
    reason = Fault(type="cancelled", message=f"Cancelled by {by}." if by else "Cancelled.")
    return stop(snapshot, Trigger.CANCEL, now, reason, by=by, not_begun=not_begun)


def lost_worker(snapshot: Snapshot, policy: RetryPolicy) -> Fault:
    """The story of a run whose process is gone."""
    run = snapshot.run
    return Fault(
        type="worker_lost",
        message=f"The process that drove this run was lost in {run.state} "
        f"(attempt {run.attempt} of {policy.attempts}).",
    )


def take_over(
    snapshot: Snapshot, fault: Fault, now: datetime, policy: RetryPolicy, jitter: float | None
) -> Change:
    """What it changes that a run has lost its driver; after the last attempt the run fails.

    The fence grows, so that the lost driver can write nothing; what it had reserved is spent.

    Args:
        snapshot: the run, still owned.
        fault: why.
        now: the time.
        policy: how often and when it is tried again.
        jitter: a random number in [0, 1); None to go on at once, where a person asked for it.
    """
    run = snapshot.run
    columns = {
        "fence": run.fence + 1,
        "used": run.used.lost(run),
        "owner": None,
        "lease_until": None,
    }
    if run.state is State.AWAITING_APPROVAL:
        return _let_expire(snapshot, now, columns)
    if policy.exhausted(run.attempt):
        return stop(snapshot, Trigger.FAIL, now, fault, usage=run.unsettled, columns=columns)
    wait = policy.wait(run.attempt, 0 if jitter is None else jitter)
    columns |= {"attempt": run.attempt + 1, "not_before": now + wait if wait else None}
    return change(snapshot, Trigger.RETRY, now, error=fault, usage=run.unsettled, columns=columns)


def interrupt(snapshot: Snapshot, reason: str, now: datetime) -> Change:
    """What it changes that this process has to stop: it gives the run back, ready to go on."""
    run = snapshot.run
    fault = Fault(type="interrupted", message=f"The process was stopped ({reason}).")
    columns = {
        "used": run.used.lost(run),
        "owner": None,
        "lease_until": None,
    }
    if run.state is State.AWAITING_APPROVAL:
        return _let_expire(snapshot, now, columns)
    return change(snapshot, Trigger.RETRY, now, error=fault, usage=run.unsettled, columns=columns)


def _let_expire(snapshot: Snapshot, now: datetime, columns: dict[str, Any]) -> Change:
    """A parked run is driven only to let its questions expire: whoever gives it back does that."""
    expired = expire(snapshot, now)
    if expired is not None:
        return replace(expired, run=expired.run._replace(**columns))
    deadline = {"not_before": snapshot.run.not_before}  # the clock has been set back since
    return change(snapshot, Trigger.DECISION, now, columns=columns | deadline)
