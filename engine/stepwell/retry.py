"""Pure: when a failed attempt is retried, and when to give up."""

from dataclasses import dataclass
from datetime import datetime, timedelta

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How a fault is retried.

    Attributes:
        attempts: how often one step may fail, crashes of the worker included.
        outage: how long a provider may refuse one step's calls. Such a call had no effect and cost
            nothing, so it counts by time only.
        base, ceiling: the first and the longest wait of the backoff.
        retry_after_ceiling: the longest wait that a provider may ask for.
        keep_lease: for a longer wait the run is released, so that any worker can continue it.
    """

    attempts: int = 5
    outage: timedelta = timedelta(hours=6)
    base: timedelta = timedelta(seconds=1)
    ceiling: timedelta = timedelta(minutes=5)
    retry_after_ceiling: timedelta = timedelta(hours=24)
    keep_lease: timedelta = timedelta(seconds=10)

    def exhausted(self, failures: int) -> bool:
        """Whether a step that failed so often is given up."""
        return failures >= self.attempts

    def outlasted(self, since: datetime, now: datetime) -> bool:
        """Whether a provider that has refused every call since then is given up."""
        return now - since >= self.outage

    def wait(self, attempt: int, jitter: float, retry_after: float | None = None) -> timedelta:
        """How long to wait after `attempt` failed.

        Args:
            attempt: 1 is the first.
            jitter: a random number in [0, 1): full jitter spreads the herd, see
                https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
            retry_after: seconds that the provider asked for; the wait is never shorter.

        Returns:
            whole milliseconds, rounded up, as the database stores them.
        """
        doubled = self.base * (1 << min(attempt - 1, 30))
        wait = min(doubled, self.ceiling) * jitter
        if retry_after is not None and retry_after > 0:
            asked = min(retry_after, self.retry_after_ceiling.total_seconds())
            wait = max(wait, timedelta(seconds=asked))
        return -(-wait // _MILLISECOND) * _MILLISECOND
