"""How many calls of one model are under way in this process, and when the next may begin."""

import threading
from collections import Counter
from collections.abc import Mapping

from stepwell import clock


class ModelGate:
    """Keeps the runs of one process from hammering a model.

    Args:
        limits: by model, how many of its calls may be under way at once.
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = limits
        self._under_way: Counter[str] = Counter()
        self._closed_until: dict[str, float] = {}
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

    def leave(self, model: str) -> None:
        """A call that had entered has ended."""
        with self._lock:
            self._under_way[model] -= 1

    def close(self, model: str, seconds: float) -> None:
        """The provider asks for a pause: no call of this model begins in the meantime."""
        with self._lock:
            until = clock.monotonic() + seconds
            self._closed_until[model] = max(until, self._closed_until.get(model, 0.0))


# Seconds after which a full gate is asked again.
ASK_AGAIN = 0.05
