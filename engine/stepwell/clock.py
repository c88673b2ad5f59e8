"""The only source of time in the package. Tests move it."""

import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def now() -> datetime:
    """The current time, timezone-aware UTC, truncated to milliseconds."""
    return EPOCH + time.time_ns() // 1_000_000 * MILLISECOND


def monotonic() -> float:
    """Seconds on a clock that never goes back. Only differences are meaningful."""
    return time.monotonic()
