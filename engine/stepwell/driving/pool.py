"""Drives many runs at once, each on a thread of its own, until it is idle or told to stop."""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stepwell import clock
from stepwell.driving.ticker import Ticker
from stepwell.driving.worker import Worker
from stepwell.errors import DatabaseMoved, LeaseLost, StepwellError, StoreError, system_limit
from stepwell.state.snapshot import Snapshot
from stepwell.store.changes import Changes

log = logging.getLogger("stepwell")

# Seconds between glances at an idle database, and between looks for runs whose time has come.
GLANCE = 0.05
LOOK = 0.5
# Seconds between looks for schedules that are due.
TICK = 1.0
# A clock that goes back by more was set back.
SET_BACK = timedelta(seconds=2)


@dataclass(slots=True)
class Pool:
    """A worker's threads. They stop when the driver's `stopping` is set.

    Args:
        worker: what claims and drives.
        concurrency: how many runs are driven at once.
        limits: by workflow, how many of its runs may be driven at once, by all processes.
        sweep_every: seconds between looks for stuck runs.
        grace: seconds that effects in progress have, once it has to stop.
        fire: deals with the due times of schedules, if that is this worker's task, and says
            whether it started a run.
    """

    worker: Worker
    concurrency: int
    limits: Mapping[str, int]
    sweep_every: float
    grace: float
    fire: Callable[[], bool] | None = None
    # By number and fence: a run may come back while the driver that has lost it is still in a tool.
    _driven: dict[tuple[int, int], Snapshot] = field(default_factory=dict)
    _ended: threading.Condition = field(default_factory=threading.Condition)
    _broken: StoreError | None = None
    _unreadable: set[int] = field(default_factory=set)
    _seen: datetime = field(default_factory=clock.now)

    def run(self, *, until_idle: bool) -> None:
        """Drive due runs, the oldest first, without end or until idle.

        Idle means that no run is due, in progress in any process, or waiting for a retry.

        Raises:
            StoreError: the database cannot be used; runs in progress were given back.
        """
        stopping = self.worker.driver.stopping
        changes = Changes(self.worker.driver.store.file)
        ticker = Ticker()
        ticker.every(self.sweep_every, self._sweep)
        if self.fire is not None:
            ticker.every(TICK, self._fire)
        ticker.start()
        try:
            self._sweep()
            self._fire()
            while not stopping.is_set():
                was_idle = not self._driven  # before the look: what ends meanwhile may be due again
                started = self._start_due()
                if until_idle and was_idle and not started and self._is_idle():
                    break
                self._wait(changes)
                self._mind_the_clock(ticker)
        finally:
            stopping.set()
            ticker.stop()
            changes.close()
            self._drain()
        if self._broken is not None:
            raise self._broken

    def _is_idle(self) -> bool:
        """Whether nothing is left to wait for, after stuck runs were taken over."""
        if self._fire() or self._is_coming():
            return False
        self._sweep()
        return not self._is_coming() and not self._start_due()

    def _is_coming(self) -> bool:
        try:
            return self.worker.is_coming()
        except StoreError as error:
            log.warning("Could not look for runs in progress, trying again: %s", error)
            return True

    def _mind_the_clock(self, ticker: Ticker) -> None:
        """Where the clock was set back, jobs would wait until it is as late again as it was."""
        before, self._seen = self._seen, clock.now()
        if before - self._seen > SET_BACK:
            ticker.tick_now()
            self.worker.driver.leases.tick_now()

    def _fire(self) -> bool:
        """Whether a schedule started a run."""
        try:
            return self.fire is not None and self.fire()
        except StoreError as error:
            if not self.worker.driver.stopping.is_set():  # else the next worker will
                log.warning("Schedules were not looked at, the next tick will: %s", error)
            return False

    def _sweep(self) -> None:
        try:
            self.worker.sweep()
            if not self._driven:
                self.worker.driver.store.shorten_log()
        except DatabaseMoved as moved:
            self._broken = moved
            self.worker.driver.stopping.set()
        except StoreError as error:
            log.warning("Stuck runs were not looked for, the next sweep will: %s", error)

    def _start_due(self) -> bool:
        """Fill the free places with due runs. False if there was none."""
        started = False
        self._wake()
        while len(self._driven) < self.concurrency and not self.worker.driver.stopping.is_set():
            try:
                snapshot = self.worker.next_due(self.limits)
            except DatabaseMoved as moved:
                self._broken = moved
                self.worker.driver.stopping.set()
                return False
            except StoreError as error:
                log.warning("No run was claimed: %s", error)
                return True
            except Exception:  # one run that cannot be read must not hold up the others
                log.exception("A run that was claimed cannot be read; see `stepwell db check`.")
                return True
            if snapshot is None:
                return started
            started = True
            number, fence = snapshot.run.number, snapshot.run.fence
            self._driven[number, fence] = snapshot
            name, arguments = f"stepwell-run-{number}", (snapshot, (number, fence))
            thread = threading.Thread(target=self._drive, args=arguments, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # tried again when others have ended
                log.warning("Run %s was given back: %s", snapshot.run.id, system_limit(error))
                self._give_back(number, fence)
                return False
        return started

    def _give_back(self, number: int, fence: int) -> None:
        """Release a claimed run that is not driven yet."""
        del self._driven[number, fence]
        with suppress(StoreError):  # then its lease runs out
            self.worker.driver.store.release(number, fence)

    def _wake(self) -> None:
        """Make runs due again that have ended and were sent a message since."""
        try:
            for number in self.worker.sleeping():
                if number not in self._unreadable:
                    self._wake_one(number)
        except (StoreError, LeaseLost) as error:
            log.warning("Some messages were not delivered: %s", error)

    def _wake_one(self, number: int) -> None:
        try:
            self.worker.wake(number)
        except (StoreError, LeaseLost):
            raise
        except Exception:  # one run that cannot be read must not hold up the others
            self._unreadable.add(number)
            log.exception("Run number %s cannot be read; see `stepwell db check`.", number)

    def _drive(self, snapshot: Snapshot, place: tuple[int, int]) -> None:
        try:
            self.worker.drive(snapshot)
        except StepwellError as error:
            log.error("Run %s: %s", snapshot.run.id, error)  # noqa: TRY400 - no traceback for it
        finally:
            with self._ended:
                del self._driven[place]
                self._ended.notify_all()

    def _wait(self, changes: Changes) -> None:
        """Until a place is free, something was committed, or it is time to look again."""
        until = clock.monotonic() + LOOK
        while not self.worker.driver.stopping.is_set() and clock.monotonic() < until:
            is_full = len(self._driven) >= self.concurrency
            with self._ended:
                if self._ended.wait(GLANCE):
                    return
            if not is_full and changes.any():
                return

    def _drain(self) -> None:
        """Let effects in progress end, then give the rest back."""
        self.worker.driver.leases.wake()
        until = clock.monotonic() + self.grace
        with self._ended:
            while self._driven and clock.monotonic() < until:
                self._ended.wait(GLANCE)
            left = list(self._driven.values())
        for snapshot in left:
            self.worker.driver.hand_back(snapshot, "it had no time left")
