"""Drives claimed runs, and gives them back if this process cannot continue."""

import logging
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from stepwell import clock
from stepwell.driving.steps import OnTransition, Resources, Steps, keep_late
from stepwell.effects.caller import Caller, CallerLeft
from stepwell.effects.dispatch import Dispatched
from stepwell.effects.perform import Connect, Performer
from stepwell.errors import LeaseLost, StoreError, system_limit
from stepwell.machine import LIVE
from stepwell.messages import OnText
from stepwell.rules.change import Change
from stepwell.rules.decide import CallEnded
from stepwell.rules.recovery import interrupt, take_over
from stepwell.state.records import Fault
from stepwell.state.snapshot import Snapshot
from stepwell.workflow import Workflow

log = logging.getLogger("stepwell")

# A shell's exit code for a process that a signal ended is this and the signal's number.
SIGNALLED = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver(Resources):
    """Takes claimed runs as far as they go.

    Attributes:
        log: told of every transition after it was committed, by whichever thread made it.
        on_transition: the same, but in the thread that drives; None if there is no listener.
        on_text: likewise gets the text of replies as it arrives.
    """

    log: OnTransition
    on_transition: OnTransition | None
    on_text: OnText | None

    def drive(self, workflow: Workflow, connect: Connect, snapshot: Snapshot) -> None:
        """Continue until the run waits for something or has ended; then it has no owner any more.

        Args:
            workflow: the run's.
            connect: gives the provider of a model, when the first call to it is made.
            snapshot: the run, claimed by this process.

        Raises:
            StoreError: the outcome of an effect could not be recorded while the lease was held.
        """
        caller, number, fence = Caller(), snapshot.run.number, snapshot.run.fence
        performer = self._performer(workflow, connect, snapshot, caller)
        try:  # from here on, because everything that is held must be released
            self._go(self._begin(workflow, performer, snapshot, caller))
        except LeaseLost as lost:
            log.warning("Lease lost: %s", lost)
        except StoreError:
            raise
        except Exception as error:
            limit = system_limit(error)
            if limit is None:
                log.exception("Run %s: the driver failed.", snapshot.run.id)
                fault = Fault(type="internal_error", message=f"{type(error).__name__}: {error}")
            else:
                log.warning("Run %s: %s", snapshot.run.id, limit)
                fault = Fault(type=limit.type, message=str(limit))
            jitter = random.random()  # noqa: S311 - no secret
            self._give_back(snapshot, lambda s: take_over(s, fault, self.given(jitter)))
        except BaseException as error:
            caller.leave()
            if not caller.is_forked:  # a child of a listener's fork ends: the run is its parent's
                self.hand_back(snapshot, _why(error))
            raise
        finally:
            try:
                caller.leave()
                performer.abandon()
            finally:  # after a further Ctrl-C, too, else it would be renewed for ever
                self.leases.drop(number, fence)

    def _performer(
        self, workflow: Workflow, connect: Connect, snapshot: Snapshot, caller: Caller
    ) -> Performer:
        def late(call: int, done: Dispatched) -> None:
            keep_late(self.store, snapshot.run.number, call, done.outcome)

        on_text = _harmless(caller.here(self.on_text), snapshot.run.id) if self.on_text else None
        return Performer(workflow, connect, on_text, late)

    def _begin(
        self, workflow: Workflow, performer: Performer, snapshot: Snapshot, caller: Caller
    ) -> Steps:
        run = snapshot.run = snapshot.run._replace(digest=workflow.digest)
        heard = caller.here(self.on_transition) if self.on_transition else None

        def tell(change: Change) -> None:
            self._tell(change, heard)

        return Steps(
            use=self,
            workflow=workflow,
            snapshot=snapshot,
            lease=self.leases.hold(run.number, run.fence, run.lease_until or self.leases.until()),
            performer=performer,
            caller=caller,
            tell=tell,
            driven_since=clock.now(),
        )

    @staticmethod
    def _go(steps: Steps) -> None:
        """Let another thread take the steps, and a further one where a tool keeps that for long."""
        given_up: CallEnded | None = None

        def take() -> None:  # no partial: freezegun looks five frames up for `threading`
            steps.take(given_up)

        while True:
            given_up = steps.caller.wait_for(take, steps.performer)
            if given_up is None:
                return

    def tell(self, change: Change) -> None:
        """Say that a transition was committed."""
        self._tell(change, self.on_transition)

    def _tell(self, change: Change, heard: OnTransition | None) -> None:
        """Log it, and tell the listener, whose failure is not the run's."""
        self.log(change)
        try:
            if heard is not None:
                heard(change)
        except CallerLeft:
            log.debug("Run %s: the listener has left.", change.run.id)
        except Exception:
            log.exception("Run %s: a listener failed.", change.run.id)

    def hand_back(self, snapshot: Snapshot, reason: str) -> None:
        """Give a run back in the middle of an effect, because this process has to stop."""
        try:
            self._give_back(snapshot, lambda s: interrupt(s, reason, self.given()))
        except StoreError as failed:  # then the next one finds that this process is gone
            log.warning("Run %s was not given back: %s", snapshot.run.id, failed)

    def _give_back(self, snapshot: Snapshot, how: Callable[[Snapshot], Change]) -> None:
        """Release the run and say so; a change that was being recorded may have come first."""
        for _ in range(3):
            fresh = self.store.load(snapshot.run.number)
            run = fresh.run
            if run.fence != snapshot.run.fence or run.owner is None or run.state not in LIVE:
                return
            try:
                change = self.store.record(fresh, how(fresh))
            except LeaseLost:
                continue
            else:
                self.tell(change)
                return


def _harmless(on_text: OnText, run: str) -> OnText:
    """`on_text`, called until it raises: a provider must not take that for its own fault."""
    is_broken = False

    def tell(text: str) -> None:
        nonlocal is_broken
        if is_broken:
            return
        try:
            on_text(text)
        except Exception:
            is_broken = True
            log.exception("Run %s: on_text failed, so it is not called again.", run)

    return tell


def _why(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "SIGINT"
    code = error.code if isinstance(error, SystemExit) else None
    if isinstance(code, int) and code > SIGNALLED:
        return signal.Signals(code - SIGNALLED).name
    return type(error).__name__
