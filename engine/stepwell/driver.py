"""Drives one run: decide, perform, record, until it waits or has ended."""

import logging
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from stepwell import clock
from stepwell.change import Change
from stepwell.decide import (
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
from stepwell.dispatch import Dispatched
from stepwell.envelope import Envelope, cut
from stepwell.errors import LeaseLost, StoreError
from stepwell.gate import ModelGate
from stepwell.intervention import interrupt, take_over
from stepwell.lease import Lease, Leases
from stepwell.machine import LIVE, State
from stepwell.messages import OnText
from stepwell.perform import Connect, Performer
from stepwell.records import Fault, RunRow
from stepwell.retry import RetryPolicy
from stepwell.snapshot import Snapshot
from stepwell.store import Store
from stepwell.workflow import Workflow, model_name

log = logging.getLogger("stepwell")
OnTransition = Callable[[Change], None]

# Seconds that a rate limit holds the other runs of its model back, where it does not say itself,
# and after which a run that is held back looks whether it has to stop.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 0.5
# Seconds between tries to record an outcome that the database could not take.
RECORD_AGAIN = 0.25
# What is kept of an outcome that came too late.
LATE_CHARACTERS = 20_000
# A shell's exit code for a process that a signal ended is this and the signal's number.
SIGNALLED = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Takes claimed runs as far as they go.

    Attributes:
        gate: keeps this process from hammering a model.
        stopping: once it is set, no effect begins; runs are given back between two steps.
        default_model: of workflows that name none.
        on_transition: told of every transition after it was committed.
        on_text: gets the text of replies as it arrives; None where nobody listens.
    """

    store: Store
    leases: Leases
    policy: RetryPolicy
    gate: ModelGate
    stopping: threading.Event
    default_model: str | None
    on_transition: OnTransition
    on_text: OnText | None

    def drive(self, workflow: Workflow, connect: Connect, snapshot: Snapshot) -> None:
        """Go on until the run waits for something or has ended; then it has no owner any more.

        Args:
            workflow: what the run is an execution of.
            connect: gives the provider of a model, when the first call to it is made.
            snapshot: the run, claimed by this process.

        Raises:
            StoreError: what came of an effect could not be recorded while the lease was held.
        """
        run = snapshot.run = snapshot.run._replace(digest=workflow.digest)
        lease = self.leases.hold(run.number, run.fence, run.lease_until or self.leases.until())

        def late(call: int, done: Dispatched) -> None:
            self._keep_late(run, call, done.outcome)

        snapshot.driven_since = clock.now()
        performer = Performer(workflow, connect, self.on_text, late)
        try:
            self._steps(workflow, performer, snapshot, lease)
        except LeaseLost as lost:
            log.warning("Lease lost: %s", lost)
        except StoreError:
            raise
        except Exception as error:
            log.exception("Run %s: the driver failed.", run.id)
            fault = Fault(type="internal_error", message=f"{type(error).__name__}: {error}")
            jitter = random.random()  # noqa: S311 - no secret
            self._give_back(
                snapshot, lambda s: take_over(s, fault, clock.now(), self.policy, jitter)
            )
        except BaseException as error:
            self.hand_back(snapshot, _why(error))
            raise
        finally:
            performer.abandon()
            self.leases.drop(lease)

    def _steps(
        self, workflow: Workflow, performer: Performer, snapshot: Snapshot, lease: Lease
    ) -> None:
        while self._may_go_on(snapshot, lease):
            self._look_around(workflow, performer, snapshot)
            match decide(workflow, snapshot, clock.now()):
                case Finish():
                    return
                case Record(change):
                    self._record(snapshot, change, lease)
                case Wait(until):
                    if snapshot.run.owner is None or until is None:
                        return
                    self._wait(until, lease)
                    self._look_again(snapshot)
                case AskModel() | RunCalls() | Reconcile() as command:
                    if not self.leases.secure(lease):
                        raise LeaseLost(f"Run {snapshot.run.id} was taken over; nothing was begun.")
                    outcome = self._perform(workflow, performer, command, snapshot, lease)
                    if outcome is None:
                        self._look_again(snapshot)
                    else:
                        self._conclude(workflow, snapshot, outcome, lease)

    def _look_around(self, workflow: Workflow, performer: Performer, snapshot: Snapshot) -> None:
        """Ask what the next model call may take, and what today came to, where that is limited."""
        run, limits = snapshot.run, workflow.limits
        if snapshot.offer is None or snapshot.offer.model != run.model:
            snapshot.offer = performer.offer(run.model)
        asks = run.state in {State.AWAITING_MODEL, State.SUMMARISING}
        if asks and (limits.runs_per_day, limits.cost_per_day) != (None, None):
            snapshot.today = self.store.today(run, clock.now())

    def _may_go_on(self, snapshot: Snapshot, lease: Lease) -> bool:
        """Take in what others want of this run. False once it was given back between two steps.

        Raises:
            LeaseLost: somebody else has it.
        """
        if self.stopping.is_set() and snapshot.is_between_steps():
            self.store.release(snapshot.run.number, snapshot.run.fence)
            return False
        if lease.lost and snapshot.run.owner is not None:
            raise LeaseLost(f"Run {snapshot.run.id} was taken over; nothing more was begun.")
        if lease.cancel_requested is not None:
            snapshot.run = snapshot.run._replace(cancel_requested=lease.cancel_requested)
        return True

    def _perform(
        self,
        workflow: Workflow,
        performer: Performer,
        command: AskModel | RunCalls | Reconcile,
        snapshot: Snapshot,
        lease: Lease,
    ) -> Outcome | None:
        """Do it; None where the model has no room for another call just now."""
        if not isinstance(command, AskModel):
            return performer.perform(command, snapshot)
        model = (
            command.model
            or snapshot.run.model
            or model_name(workflow.model)
            or self.default_model
            or ""
        )
        wait = self.gate.enter(model)
        if wait > 0:
            lease.news.wait(min(wait, LONGEST_PAUSE))
            return None
        try:
            outcome = performer.perform(command, snapshot)
        finally:
            self.gate.leave(model)
        if isinstance(outcome, Faulted) and outcome.error.kind == "rate_limited":
            # Not for longer than a run keeps its lease: then it asks itself, and is put back.
            longest = self.policy.keep_lease.total_seconds()
            self.gate.close(model, min(outcome.error.retry_after or FIRST_PAUSE, longest))
        return outcome

    def _conclude(
        self, workflow: Workflow, snapshot: Snapshot, outcome: Outcome, lease: Lease
    ) -> None:
        snapshot.stopping = self.stopping.is_set()
        jitter = random.random()  # noqa: S311 - no secret
        change = conclude(workflow, snapshot, outcome, clock.now(), self.policy, jitter)
        try:
            self._record(snapshot, change, lease)
        except LeaseLost:
            if isinstance(outcome, CallEnded):
                self._keep_late(snapshot.run, outcome.number, outcome.outcome)
            raise

    def _record(self, snapshot: Snapshot, change: Change, lease: Lease) -> None:
        """Commit. While it fails, nothing else of this run begins.

        It is tried as long as the lease lasts that was held when it failed first. (That one may be
        renewed for ever even on a full disk, for a renewal needs no more room.)
        """
        until, said = lease.until_monotonic, False
        while True:
            try:
                self.store.record(snapshot, change)
            except StoreError as error:
                if not lease.is_held() or clock.monotonic() > until:
                    raise
                if not said:
                    log.warning("Run %s: %s Trying again.", snapshot.run.id, error.message)
                said = True
                time.sleep(RECORD_AGAIN)
            else:
                break
        try:
            self.on_transition(change)
        except Exception:  # what listens is no part of the run
            log.exception("Run %s: a listener failed.", snapshot.run.id)

    def _keep_late(self, run: RunRow, call: int, outcome: Envelope) -> None:
        with suppress(StoreError):  # it is evidence, no more
            self.store.keep_late(run.number, call, cut(outcome, LATE_CHARACTERS)[0])

    def _wait(self, until: datetime, lease: Lease) -> None:
        seconds = (until - clock.now()).total_seconds()
        if seconds > 0:
            lease.news.wait(min(seconds, self.policy.keep_lease.total_seconds()))

    def _look_again(self, snapshot: Snapshot) -> None:
        """Take in what was sent to a run while it waited."""
        with suppress(StoreError):  # the next record tells it, too
            snapshot.inbox = self.store.waiting(snapshot.run.number)

    def hand_back(self, snapshot: Snapshot, reason: str) -> None:
        """Give a run back in the middle of an effect, for this process has to stop."""
        try:
            self._give_back(snapshot, lambda s: interrupt(s, reason, clock.now()))
        except StoreError as failed:  # then the next one finds that this process is gone
            log.warning("Run %s was not given back: %s", snapshot.run.id, failed)

    def _give_back(self, snapshot: Snapshot, how: Callable[[Snapshot], Change]) -> None:
        """Release the run and say so; what was being recorded meanwhile may have come first."""
        for _ in range(3):
            fresh = self.store.load(snapshot.run.number)
            run = fresh.run
            if run.fence != snapshot.run.fence or run.owner is None or run.state not in LIVE:
                return
            try:
                change = how(fresh)
                self.store.record(fresh, change)
            except LeaseLost:
                continue
            else:
                self.on_transition(change)
                return


def _why(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "SIGINT"
    code = error.code if isinstance(error, SystemExit) else None
    if isinstance(code, int) and code > SIGNALLED:
        return signal.Signals(code - SIGNALLED).name
    return type(error).__name__
