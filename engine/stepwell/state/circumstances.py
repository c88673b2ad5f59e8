"""Inputs to a decision that are not part of the run: time, price, window, today's totals."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from stepwell.machine import State
from stepwell.messages import Terms
from stepwell.retry import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTerms:
    """What a run's next model call may take.

    Attributes:
        model: whose terms these are, as the run names it; None for its workflow's own.
        name: as the history names it.
        summariser: the terms of the model that writes summaries, where that is another one.
        overhead: tokens of the instructions and tools that go with every request.
        max_output: tokens of the longest reply wanted, or None for the provider's own.
        is_metered: whether its workflow has a limit of cost for a day.
    """

    model: str | None
    terms: Terms
    name: str | None = None
    summariser: Terms | None = None
    overhead: int = 0
    max_output: int | None = None
    is_metered: bool = False

    def cost(self, state: State, read: int, written: int) -> Decimal | None:
        """USD, at most, of a call in this state; None where the price is not known."""
        terms = self.summariser if state is State.SUMMARISING else None
        return (terms or self.terms).cost(read, written)


@dataclass(frozen=True, slots=True, kw_only=True)
class Today:
    """Totals of the other runs of a workflow in the present day (UTC).

    Attributes:
        before: how many began before this run.
        cost: USD, spent or reserved; None if any price is not known.
    """

    before: int
    cost: Decimal | None


_POLICY = RetryPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a decision about a run depends on beside the run itself.

    Attributes:
        now: the time.
        stopping: the driver has to stop: work in progress may end, and nothing new begins.
        driven_since: when the driver claimed the run; None if there is no driver.
        terms: what the next model call may take; None until a driver has asked.
        today: what all runs of the workflow came to today, if it has limits by the day.
        policy: how often and when a fault is tried again.
        jitter: a random number in [0, 1); with 0 there is no wait before the next try.
    """

    now: datetime
    stopping: bool = False
    driven_since: datetime | None = None
    terms: CallTerms | None = None
    today: Today | None = None
    policy: RetryPolicy = _POLICY
    jitter: float = 0.0

    @property
    def overhead(self) -> int:
        """Tokens of the instructions and tools that go with every request, if known."""
        return self.terms.overhead if self.terms else 0
