"""Pure: how a run is resumed, cancelled, taken over from a lost driver, or given back."""

from collections.abc import Collection
from dataclasses import replace

from stepwell.errors import RunNotResumable
from stepwell.machine import LIVE, State, Trigger
from stepwell.retry import RetryPolicy
from stepwell.rules.allowances import LimitOptions, raised
from stepwell.rules.approval import expire
from stepwell.rules.change import AFRESH, Cause, Change, change, stop
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import Fault, RunColumns
from stepwell.state.snapshot import Snapshot


def resume(
    snapshot: Snapshot,
    given: Circumstances,
    by: str | None,
    raises: LimitOptions,
    model: str | None = None,
) -> Change | None:
    """The change after `resume`: higher limits top up a capped run, a failed one retries.

    With a `model`, the run continues with that one. Higher limits of a live run change nothing
    here: they are sent to its driver, see `steering`.

    Returns:
        None if the run can continue without a change, or cannot continue.

    Raises:
        RunNotResumable: the run was cancelled, or this cannot be changed in its state.
        InvalidInput: a limit would be lowered.
    """
    run = snapshot.run
    limits = raised(run.limits, raises)
    own: RunColumns = {"limits": limits, "model": run.model if model is None else model}
    cause = Cause(by=by, model=model)
    more = limits != run.limits
    if run.state is State.CAPPED:
        more = more or (run.error is not None and run.error.type in MAY_BE_OVER)
        if model is not None and not more:
            text = f"Run {run.id} is capped: another model alone does not let it continue."
            raise RunNotResumable(text, "Raise its limit as well.")
        return change(snapshot, Trigger.TOP_UP, given, own, cause=cause) if more else None
    if run.state is State.FAILED:
        return change(snapshot, Trigger.RESUME, given, own, cause=cause)
    if run.state is State.CANCELLED:
        raise RunNotResumable(f"Run {run.id} was cancelled; that is final.", "Start a new run.")
    if more and run.state is State.DONE:
        raise RunNotResumable(
            f"Run {run.id} is done: its limits cannot be raised any more.",
            f"`stepwell send {run.id} TEXT` continues it.",
        )
    return None if model is None else _switch(snapshot, given, by, model)


# Limits that may have passed by themselves, or that a person may overrule: `resume` tries again.
MAY_BE_OVER = frozenset(
    {"cost_per_day", "runs_per_day", "context_full", "repeated_call", "unknown_price"}
)


def _switch(snapshot: Snapshot, given: Circumstances, by: str | None, model: str) -> Change | None:
    """A live run continues with another model, immediately and without its earlier failures."""
    run = snapshot.run
    if run.state not in LIVE:
        raise RunNotResumable(f"Run {run.id} is {run.state}: its model cannot be changed any more.")
    if run.state is State.AWAITING_APPROVAL:
        text = f"Run {run.id} awaits approval: its model can be changed when it continues."
        raise RunNotResumable(text, "Decide its questions first.")
    if run.owner is not None:
        raise RunNotResumable(
            f"Run {run.id} is being driven just now: its model cannot be changed meanwhile.",
            "Wait until it parks or ends.",
        )
    if model == run.model:
        return None
    cause = Cause(by=by, model=model)
    return change(snapshot, Trigger.RETRY, given, {"model": model, **AFRESH}, cause=cause)


def cancel(
    snapshot: Snapshot, by: str | None, given: Circumstances, *, not_begun: Collection[int] = ()
) -> Change | None:
    """The end of a run because a person wants it; None if it was cancelled already.

    Args:
        snapshot: the run.
        by: who wants it.
        given: the time, and what else the driver knows.
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
    cause = Cause(by=by, error=reason)
    return stop(snapshot, Trigger.CANCEL, given, cause, not_begun=not_begun)


def cancel_instead(snapshot: Snapshot, wanted: Change, by: str, given: Circumstances) -> Change:
    """The end of a run whose cancel was accepted before its driver could let go of it.

    The result of the last effect is kept: its messages, the calls that ended, its usage.

    Args:
        snapshot: the run.
        wanted: the change that would have erased the request.
        by: who asked for the end.
        given: the time, and what else the driver knows.
    """
    ended = {call.number: call for call in wanted.calls if call.status.final}
    reason = Fault(type="cancelled", message=f"Cancelled by {by}.")
    cause = Cause(by=by, error=reason, usage=wanted.usage, model=wanted.model)
    columns: RunColumns = {"used": wanted.run.used}
    if wanted.run.fence != snapshot.run.fence:
        columns["fence"] = wanted.run.fence
    rest = replace(snapshot, batch=snapshot.batch | ended)
    made = stop(rest, Trigger.CANCEL, given, cause, columns)
    calls = (*ended.values(), *made.calls)
    return replace(made, messages=wanted.messages, calls=calls, notes=wanted.notes)


def lost_worker(snapshot: Snapshot, policy: RetryPolicy) -> Fault:
    """The story of a run whose process is gone."""
    run = snapshot.run
    return Fault(
        type="worker_lost",
        message=f"The process that drove this run was lost in {run.state} "
        f"(failure {run.failures + 1} of {policy.attempts}).",
    )


def take_over(
    snapshot: Snapshot,
    fault: Fault,
    given: Circumstances,
) -> Change:
    """The change when a run's driver is lost; after the last attempt the run fails.

    The fence grows, so the lost driver cannot write; its reservation counts as spent.

    Args:
        snapshot: the run, still owned.
        fault: why.
        given: the time, and how often and when a fault is tried again.
    """
    run = snapshot.run
    columns: RunColumns = {
        "fence": run.fence + 1,
        "used": run.used.lost(run),
        "owner": None,
        "lease_until": None,
    }
    if run.state is State.AWAITING_APPROVAL:
        return _let_expire(snapshot, given, columns)
    cause = Cause(error=fault, usage=run.unsettled)
    failures = run.failures + 1
    if given.policy.exhausted(failures):
        return stop(snapshot, Trigger.FAIL, given, cause, columns)
    wait = given.policy.wait(run.attempt, given.jitter)
    not_before = given.now + wait if wait else None
    columns |= {"attempt": run.attempt + 1, "failures": failures, "not_before": not_before}
    return change(snapshot, Trigger.RETRY, given, columns, cause=cause)


def interrupt(snapshot: Snapshot, reason: str, given: Circumstances) -> Change:
    """The change when this process has to stop: the run is given back, ready to continue."""
    run = snapshot.run
    fault = Fault(type="interrupted", message=f"The process was stopped ({reason}).")
    columns: RunColumns = {
        "used": run.used.lost(run),
        "owner": None,
        "lease_until": None,
    }
    if run.state is State.AWAITING_APPROVAL:
        return _let_expire(snapshot, given, columns)
    cause = Cause(error=fault, usage=run.unsettled)
    return change(snapshot, Trigger.RETRY, given, columns, cause=cause)


def _let_expire(snapshot: Snapshot, given: Circumstances, columns: RunColumns) -> Change:
    """A parked run is driven only to let its questions expire: that comes before its release."""
    expired = expire(snapshot, given)
    if expired is not None:
        return replace(expired, run=expired.run._replace(**columns))
    # The clock has been set back since.
    own: RunColumns = {**columns, "not_before": snapshot.run.not_before}
    return change(snapshot, Trigger.DECISION, given, own)
