"""The only clock. Tests move it; nothing else in the package asks for the time."""

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The current time, timezone-aware UTC, cut to the millisecond that the database keeps."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def monotonic() -> float:
    """Seconds on a clock that never goes back; only differences mean anything."""
    return time.monotonic()
