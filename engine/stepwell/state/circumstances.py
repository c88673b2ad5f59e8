"""Inputs to a decision that are not part of the run: time, price, window, today's totals."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from stepwell.machine import State
from stepwell.messages import Terms
from stepwell.retry import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTerms:
    """Limits and prices for a run's next model call.

    Attributes:
        model: the model's name in the run; None for the workflow's own model.
        name: the model's name in the history.
        summariser: the terms of the model that writes summaries, if it is a different model.
        overhead: tokens of the instructions and tools in every request.
        max_output: maximum tokens of a reply; None for the provider's default.
        is_metered: whether the workflow limits its cost per day.
    """

    model: str | None
    terms: Terms
    name: str | None = None
    summariser: Terms | None = None
    overhead: int = 0
    max_output: int | None = None
    is_metered: bool = False

    def cost(self, state: State, read: int, written: int) -> Decimal | None:
        """Maximum cost in USD of a call in this state; None if the price is unknown."""
        terms = self.summariser if state is State.SUMMARISING else None
        return (terms or self.terms).cost(read, written)


@dataclass(frozen=True, slots=True, kw_only=True)
class Today:
    """Totals of the other runs of a workflow in the present day (UTC).

    Attributes:
        before: how many runs began before this one.
        cost: USD, spent or reserved; None if any price is unknown.
    """

    before: int
    cost: Decimal | None


_POLICY = RetryPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Inputs to a decision that are not part of the run.

    Attributes:
        now: the current time.
        stopping: the driver is stopping: work in progress may finish, but no new work starts.
        driven_since: when the driver claimed the run; None if there is no driver.
        terms: limits and prices for the next model call; None until a driver looks them up.
        today: totals of the workflow's other runs today, if it has daily limits.
        policy: when to retry after a fault, and how many times.
        jitter: a random number in [0, 1); with 0, the retry is immediate.
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
        """Tokens of the instructions and tools in every request; 0 if unknown."""
        return self.terms.overhead if self.terms else 0
