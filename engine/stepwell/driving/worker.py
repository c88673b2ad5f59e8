"""Claims runs, drives them, and takes over stuck ones."""

import logging
import random
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from stepwell import clock
from stepwell.driving.driver import Driver
from stepwell.driving.models import Models
from stepwell.errors import LeaseLost, RunNotResumable, StoreError
from stepwell.rules.change import Change
from stepwell.rules.delivery import wake
from stepwell.rules.recovery import lost_worker, take_over
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store
from stepwell.store.claim import Owned
from stepwell.workflow import Workflow

log = logging.getLogger("stepwell")

# Seconds between looks at a run that another process drives.
POLL = 0.1


# The runs that are being driven further up in this call, or by whom this tool was called.
_WITHIN: ContextVar[frozenset[tuple[Path, int]]] = ContextVar("within", default=frozenset())


def check_not_within(store: Store, number: int) -> None:
    """Make sure that a run is not waited for from within itself, without end.

    Raises:
        RunNotResumable: this is called by one of the run's tools, or by a listener.
    """
    # After an interrupt the set may still name a run that is not driven any more.
    if (store.file, number) not in _WITHIN.get() or not store.owned(number):
        return
    raise RunNotResumable(
        f"Run {store.glance(number)[0].id} is being driven, and cannot be resumed from within: "
        "it continues when its tool or listener returns.",
        "Send it a message, or resume it after the call that drives it.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The runs that this process may drive.

    Attributes:
        driver: what drives them.
        workflows: those that this process knows; runs of others are never claimed.
        models: finds the providers of their models.
    """

    driver: Driver
    workflows: Mapping[str, Workflow]
    models: Models

    def advance(
        self, number: int, follow: Callable[[], None], claimed: Snapshot | None = None
    ) -> None:
        """Take one run as far as it goes now, following it while another process drives it.

        Args:
            number: the run's.
            follow: called after every look at a run that is driven elsewhere.
            claimed: the run, where this process drives it already.
        """
        known: Snapshot | None = None
        while True:
            claimed = claimed or self._claim(number, known=known)
            if claimed is not None:
                self.drive(claimed)
                if claimed.run.owner is None and not claimed.inbox:
                    follow()
                    return  # it ended, or waits for longer than anybody holds it
                claimed = None
                continue
            held = self.driver.store.owned(number)
            if not held and self.wake(number):
                continue
            if not held:
                follow()
                return
            known = self.rescue(held[0])
            if known is None:
                time.sleep(POLL)
            follow()

    def next_due(self, limits: Mapping[str, int]) -> Snapshot | None:
        """The oldest run that is due, now driven by this process.

        Args:
            limits: by workflow, how many of its runs may be driven at once, by all processes.
        """
        return self._claim(None, limits)

    def sleeping(self) -> list[int]:
        """Runs that have ended and were sent a message since, for `wake`."""
        talking = [name for name, known in self.workflows.items() if known.takes_messages]
        return self.driver.store.sleeping(self.workflows, talking)

    def wake(self, number: int) -> bool:
        """Continue a run that has ended with the messages sent to it. False if there are none."""

        def woken(snapshot: Snapshot) -> Change | None:
            workflow = self.workflows.get(snapshot.run.workflow)
            return wake(workflow, snapshot, self.driver.given()) if workflow else None

        return self.driver.store.revise(number, woken) is not None

    def is_coming(self) -> bool:
        """Whether a run is in progress in another process, or waits for a retry."""
        return self.driver.store.is_coming(self.workflows, clock.now())

    def sweep(self) -> None:
        """Take every stuck run from the owner that it has lost; and say that we are alive."""
        store = self.driver.store
        store.check_in_place()
        for held in store.owned():
            try:
                self.rescue(held, jitter=random.random())  # noqa: S311 - no secret
            except StoreError:
                raise
            except Exception:  # one run that cannot be read must not hold up the others
                log.exception("Run number %s cannot be read; see `stepwell db check`.", held.number)
        store.renew({}, clock.now(), self.driver.leases.until())

    def _claim(
        self,
        number: int | None,
        limits: Mapping[str, int] = MappingProxyType({}),
        known: Snapshot | None = None,
    ) -> Snapshot | None:
        now, until = clock.now(), self.driver.leases.until()
        return self.driver.store.claim(self.workflows, now, until, number, limits, known)

    def drive(self, snapshot: Snapshot) -> None:
        """Take a claimed run as far as it goes now."""
        workflow = self.workflows[snapshot.run.workflow]
        outside = _WITHIN.get()
        try:
            _WITHIN.set(outside | {(self.driver.store.file, snapshot.run.number)})
            self.driver.drive(workflow, partial(self.models.provider, workflow), snapshot)
        finally:
            _WITHIN.set(outside)

    def free(self, number: int) -> None:
        """Take a run from an owner that has lost it, at a person's wish; see `rescue`."""
        for held in self.driver.store.owned(number):
            self.rescue(held)

    def rescue(self, held: Owned, jitter: float = 0) -> Snapshot | None:
        """Take a stuck run from its owner. None if it is not stuck, or moved on meanwhile."""
        driver = self.driver
        if not held.is_stuck(clock.now()):
            return None
        snapshot = driver.store.load(held.number)
        if snapshot.run.fence != held.fence or snapshot.run.owner is None:
            return None
        fault = lost_worker(snapshot, driver.policy)
        change = take_over(snapshot, fault, driver.given(jitter))
        try:
            change = driver.store.record(snapshot, change)
        except LeaseLost:
            return None
        driver.tell(change)
        return snapshot
