"""The steps of one driven run: decide, perform, record, until it waits or has ended."""

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from stepwell import clock
from stepwell.driving.lease import Lease, Leases
from stepwell.driving.model_gate import ModelGate
from stepwell.effects.caller import Caller
from stepwell.effects.perform import Performer
from stepwell.envelope import Envelope, cut
from stepwell.errors import DatabaseMoved, LeaseLost, StoreError
from stepwell.machine import CallStatus, State
from stepwell.retry import RetryPolicy
from stepwell.rules.change import Change
from stepwell.rules.decide import (
    AskModel,
    CallEnded,
    Faulted,
    Finish,
    Outcome,
    Reconcile,
    Record,
    RunCalls,
    Wait,
    conclude,
    decide,
)
from stepwell.state.circumstances import CallTerms, Circumstances, Today
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store
from stepwell.workflow import Workflow, model_name

log = logging.getLogger("stepwell")
OnTransition = Callable[[Change], None]

# Seconds after which a run that waits for its model looks whether it has to stop.
LONGEST_PAUSE = 0.5
# Seconds between tries to record an outcome that the database could not take.
RECORD_AGAIN = 0.25
# Characters that are kept of an outcome that came too late.
LATE_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What all driven runs of a process share.

    Attributes:
        gate: keeps this process from hammering a model.
        stopping: once it is set, no effect begins; runs are given back between two steps.
        default_model: of workflows that name none.
    """

    store: Store
    leases: Leases
    policy: RetryPolicy
    gate: ModelGate
    stopping: threading.Event
    default_model: str | None

    def given(self, jitter: float = 0) -> Circumstances:
        """The circumstances of a change that no driver makes."""
        return Circumstances(now=clock.now(), policy=self.policy, jitter=jitter)


@dataclass(slots=True, kw_only=True)
class Steps:
    """Takes the steps of one run, claimed by this process.

    Attributes:
        caller: who waits for it; once that has left, nothing begins.
        tell: told of every transition after it was committed; raises nothing.
        driven_since: when this process claimed it.
        terms, today: as `Circumstances` has them.
    """

    use: Resources
    workflow: Workflow
    snapshot: Snapshot
    lease: Lease
    performer: Performer
    caller: Caller
    tell: OnTransition
    driven_since: datetime
    terms: CallTerms | None = None
    today: Today | None = None

    def take(self, outcome: Outcome | None) -> None:
        """Continue until the run waits for something or has ended; then it has no owner any more.

        Args:
            outcome: that of the last effect, if it is not recorded yet.

        Raises:
            LeaseLost: another process has the run.
            StoreError: the outcome of an effect could not be recorded while the lease was held.
        """
        snapshot = self.snapshot
        if outcome is not None:
            self._conclude(outcome)
        while self._may_go_on():
            self._look_around()
            match decide(self.workflow, snapshot, self._given()):
                case Finish():
                    return
                case Record(change):
                    self._record(change)
                case Wait(until):
                    if snapshot.run.owner is None or until is None:
                        return
                    self._wait(until)
                    self._look_again()
                case AskModel() | RunCalls() | Reconcile() as command:
                    if not self.use.leases.secure(self.lease):
                        raise LeaseLost(f"Run {snapshot.run.id} was taken over; nothing was begun.")
                    outcome = self._perform(command)
                    if outcome is None:
                        self._look_again()
                    else:
                        self._conclude(outcome)

    def _look_around(self) -> None:
        """Read the terms of the next model call, and today's totals if they are limited."""
        run, limits = self.snapshot.run, self.workflow.limits
        if self.terms is None or self.terms.model != run.model:
            self.terms = self.performer.terms(run.model)
        asks = run.state in {State.AWAITING_MODEL, State.SUMMARISING}
        if asks and (limits.runs_per_day, limits.cost_per_day) != (None, None):
            self.today = self.use.store.today(run, clock.now())

    def _given(self) -> Circumstances:
        return Circumstances(
            now=clock.now(),
            stopping=self.use.stopping.is_set(),
            driven_since=self.driven_since,
            terms=self.terms,
            today=self.today,
            policy=self.use.policy,
            jitter=random.random(),  # noqa: S311 - no secret
        )

    def _may_go_on(self) -> bool:
        """Read requests of others for this run. False once it was given back between two steps.

        Raises:
            LeaseLost: another process has it.
        """
        snapshot, lease = self.snapshot, self.lease
        if self.caller.has_left:
            return False
        if self.use.stopping.is_set() and snapshot.is_between_steps():
            if self.use.store.release(snapshot.run.number, snapshot.run.fence):
                return False
            found, _ = self.use.store.glance(snapshot.run.number)
            lease.cancel_requested = found.cancel_requested
            lease.lost = lease.lost or found.fence != snapshot.run.fence
        if lease.lost and snapshot.run.owner is not None:
            raise LeaseLost(f"Run {snapshot.run.id} was taken over; nothing more was begun.")
        if lease.cancel_requested is not None:
            snapshot.run = snapshot.run._replace(cancel_requested=lease.cancel_requested)
        return True

    def _perform(self, command: AskModel | RunCalls | Reconcile) -> Outcome | None:
        """Carry it out; None if the model takes no further call just now."""
        if not isinstance(command, AskModel):
            return self.performer.perform(command, self.snapshot)
        model = (
            command.model
            or self.snapshot.run.model
            or model_name(self.workflow.model)
            or self.use.default_model
            or ""
        )
        gate = self.use.gate
        wait = gate.enter(model)
        if wait > 0:
            self.lease.news.wait(min(wait, LONGEST_PAUSE))
            return None
        error = None
        try:
            outcome = self.performer.perform(command, self.snapshot)
            error = outcome.error if isinstance(outcome, Faulted) else None
        finally:
            gate.leave(model, error)
        return outcome

    def _conclude(self, outcome: Outcome) -> None:
        snapshot = self.snapshot
        change = conclude(self.workflow, snapshot, outcome, self._given())
        try:
            self._record(change)
        except LeaseLost:
            # "It took too long" is not evidence, and would exclude the outcome that may still come.
            if isinstance(outcome, CallEnded) and outcome.status is not CallStatus.IN_DOUBT:
                keep_late(self.use.store, snapshot.run.number, outcome.number, outcome.outcome)
            raise

    def _record(self, change: Change) -> None:
        """Commit. While it fails, nothing else of this run begins.

        It is tried as long as the lease lasts that was held when it failed first. (That one may be
        renewed for ever even on a full disk, for a renewal needs no more room.)
        """
        snapshot, lease = self.snapshot, self.lease
        until, said = lease.until_monotonic, False
        while True:
            try:
                change = self.use.store.record(snapshot, change)
            except DatabaseMoved:  # trying again cannot help
                raise
            except StoreError as error:
                is_over = not lease.is_held() or clock.monotonic() > until
                if is_over or self.caller.has_left:
                    raise
                if not said:
                    log.warning("Run %s: %s Trying again.", snapshot.run.id, error.message)
                said = True
                time.sleep(RECORD_AGAIN)
            else:
                break
        self.tell(change)

    def _wait(self, until: datetime) -> None:
        seconds = (until - clock.now()).total_seconds()
        if seconds > 0:
            self.lease.news.wait(min(seconds, self.use.policy.keep_lease.total_seconds()))

    def _look_again(self) -> None:
        """Read the messages that were sent to a run while it waited."""
        if self.caller.has_left:  # then the store may be closed: it would be opened again
            return
        with suppress(StoreError):  # the next record tells it, too
            self.snapshot.inbox = self.use.store.waiting(self.snapshot.run.number)


def keep_late(store: Store, number: int, call: int, outcome: Envelope) -> None:
    """Keep the outcome of a run's call that came too late."""
    with suppress(StoreError):  # it is evidence, no more
        store.keep_late(number, call, cut(store.mask.value(outcome), LATE_CHARACTERS)[0])
