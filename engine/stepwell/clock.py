"""The only clock. Tests move it; nothing else in the package asks for the time."""

import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def now() -> datetime:
    """The current time, timezone-aware UTC, cut to the millisecond that the database keeps."""
    return EPOCH + time.time_ns() // 1_000_000 * MILLISECOND


def monotonic() -> float:
    """Seconds on a clock that never goes back; only differences mean anything."""
    return time.monotonic()
