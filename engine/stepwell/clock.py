"""The only clock. Tests move it; nothing else in the package asks for the time."""

import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def now() -> datetime:
    """The current time, timezone-aware UTC, cut to the millisecond that the database keeps."""
    return _EPOCH + time.time_ns() // 1_000_000 * _MILLISECOND


def monotonic() -> float:
    """Seconds on a clock that never goes back; only differences mean anything."""
    return time.monotonic()
