"""How many calls of one model are in progress in this process, and when the next may begin."""

import threading
from collections import Counter
from collections.abc import Mapping

from stepwell import clock
from stepwell.errors import OUTAGES, ProviderError
from stepwell.retry import RetryPolicy


class ModelGate:
    """Keeps the runs of one process from hammering a model.

    Args:
        limits: by model, how many of its calls may be in progress at once.
        policy: how long a pause is. None is longer than a run keeps its lease: then the run asks
            again, and is put back if it is refused.
    """

    def __init__(self, limits: Mapping[str, int], policy: RetryPolicy) -> None:
        self._limits, self._policy = limits, policy
        self._under_way: Counter[str] = Counter()
        self._closed_until: dict[str, float] = {}
        self._refusals: Counter[str] = Counter()
        self._lock = threading.Lock()

    def enter(self, model: str) -> float:
        """Begin a call. Returns 0, or how many seconds to wait before asking again."""
        with self._lock:
            wait = self._closed_until.get(model, 0.0) - clock.monotonic()
            if wait > 0:
                return wait
            if self._under_way[model] >= self._limits.get(model, self._under_way[model] + 1):
                return ASK_AGAIN
            self._under_way[model] += 1
            return 0.0

    def leave(self, model: str, error: ProviderError | None = None) -> None:
        """A call that had entered has ended, with this error.

        After a refusal no call of this model begins for as long as the provider asked, or for a
        pause that doubles with every refusal in a row.
        """
        with self._lock:
            self._under_way[model] -= 1
            if error is None or error.kind not in OUTAGES:
                self._refusals[model] = 0
                return
            now = clock.monotonic()
            if now >= self._closed_until.get(model, 0.0):  # else it began before that pause
                self._refusals[model] += 1
            wait = self._policy.wait(max(1, self._refusals[model]), 1, error.retry_after)
            until = now + min(wait, self._policy.keep_lease).total_seconds()
            self._closed_until[model] = max(until, self._closed_until.get(model, 0.0))


# Seconds after which a full gate is asked again.
ASK_AGAIN = 0.05
