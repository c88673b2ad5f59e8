"""Pure: when a failed attempt is retried, and when to give up."""

from dataclasses import dataclass
from datetime import timedelta

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How a fault is retried.

    Attributes:
        attempts: the total number of tries, including crashes of the worker.
        base, ceiling: the first and the longest wait of the backoff.
        retry_after_ceiling: the longest wait that a provider may ask for.
        keep_lease: for a longer wait the run is released, so that any worker can continue it.
    """

    attempts: int = 5
    base: timedelta = timedelta(seconds=1)
    ceiling: timedelta = timedelta(minutes=5)
    retry_after_ceiling: timedelta = timedelta(hours=24)
    keep_lease: timedelta = timedelta(seconds=10)

    def exhausted(self, attempt: int) -> bool:
        """Whether `attempt` (1 is the first) was the last one."""
        return attempt >= self.attempts

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
