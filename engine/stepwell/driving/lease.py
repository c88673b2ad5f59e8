"""The leases of this process: who drives what, until when, kept alive by a heartbeat."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from stepwell import clock
from stepwell.errors import StoreError
from stepwell.store import Store

if TYPE_CHECKING:
    from stepwell.driving.ticker import Ticker


@dataclass(slots=True)
class Lease:
    """One run's lease, by both clocks: the wall's may jump, the monotonic one stops in a suspend.

    Attributes:
        cancel_requested: who asked for the run's end, as the last heartbeat saw it.
        news: set when the lease is lost or dropped, or an end is asked for; waits end early.
    """

    number: int
    fence: int
    until: datetime
    until_monotonic: float
    lost: bool = False
    cancel_requested: str | None = None
    news: threading.Event = field(default_factory=threading.Event)

    def is_held(self) -> bool:
        """Whether an effect may begin."""
        return (
            not self.lost and clock.now() < self.until and clock.monotonic() < self.until_monotonic
        )


@dataclass(slots=True)
class Leases:
    """All leases of this process, renewed together.

    Args:
        store: where they are kept.
        length: how long a silent driver keeps a run.
        every: how often they are renewed.
    """

    store: Store
    length: timedelta
    every: timedelta
    _held: dict[int, Lease] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ticker: "Ticker | None" = None
    _pid: int = field(default_factory=os.getpid)

    def until(self) -> datetime:
        """When a lease taken now ends."""
        return clock.now() + self.length

    def hold(self, number: int, fence: int, until: datetime) -> Lease:
        """Keep this lease alive from now on."""
        seconds = (until - clock.now()).total_seconds()
        lease = Lease(number, fence, until, clock.monotonic() + seconds)
        if self._pid != os.getpid():
            self._begin_anew()
        with self._lock:
            self._held[number] = lease
            self._start_ticking()
        return lease

    def drop(self, number: int, fence: int) -> None:
        """Let a run's lease run out, if it is held under this fence; who waits with it ends."""
        if self._pid != os.getpid():
            return
        with self._lock:
            held = self._held.get(number)
            if held is not None and held.fence == fence:
                del self._held[number]
                held.news.set()

    def renew(self) -> None:
        """Extend every lease; mark those that another process has taken."""
        with self._lock:
            held = dict(self._held)
        if not held:
            return
        now = clock.now()
        until, until_monotonic = now + self.length, clock.monotonic() + self.length.total_seconds()
        fences = {number: lease.fence for number, lease in held.items()}
        ours = self.store.renew(fences, now, until)
        for number, lease in held.items():
            if number not in ours:
                lease.lost = True
                lease.news.set()
                continue
            lease.until, lease.until_monotonic = until, until_monotonic
            if ours[number] is not None:
                lease.cancel_requested = ours[number]
                lease.news.set()

    def wake(self) -> None:
        """End every wait of a driver: there is something new to look at."""
        with self._lock:
            for lease in self._held.values():
                lease.news.set()

    def tick_now(self) -> None:
        """Renew now, if anything is held; see `Ticker.tick_now`."""
        with self._lock:
            if self._ticker is not None:
                self._ticker.tick_now()

    def secure(self, lease: Lease) -> bool:
        """Whether an effect may begin under this lease, renewing it first where it ran out."""
        if lease.is_held():
            return True
        if not lease.lost:
            self.renew()
        return lease.is_held()

    def close(self) -> None:
        """Stop renewing."""
        if self._pid != os.getpid():
            return
        with self._lock:
            if self._ticker is not None:
                self._ticker.stop()
                self._ticker = None

    def _begin_anew(self) -> None:
        """A fork has none of its parent's leases and threads, and may not wait for its lock."""
        self._pid, self._lock, self._held, self._ticker = os.getpid(), threading.Lock(), {}, None

    def _start_ticking(self) -> None:
        if self._ticker is not None:
            return
        from stepwell.driving.ticker import Ticker  # with APScheduler, which is slow to import

        ticker = Ticker()
        ticker.every(self.every.total_seconds(), _quietly(self.renew))
        ticker.start()
        self._ticker = ticker  # not before: an interrupt may come while it starts


def _quietly(renew: Callable[[], None]) -> Callable[[], None]:
    def beat() -> None:
        with suppress(StoreError):  # the next beat tries again; drivers check what they have
            renew()

    return beat
