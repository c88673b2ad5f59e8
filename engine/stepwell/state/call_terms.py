"""What stands beside a run when its next model call is decided on: the model's terms, the day."""

from dataclasses import dataclass
from decimal import Decimal

from stepwell.machine import State
from stepwell.messages import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a run's next model call may take.

    Attributes:
        model: whose terms these are, as the run names it; None for its workflow's own.
        name: as the history names it.
        summariser: the terms of the model that writes summaries, where that is another one.
        overhead: tokens of what goes with every request beside the transcript.
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
    """What the other runs of a workflow came to in the present day (UTC).

    Attributes:
        before: how many were begun, before this run.
        cost: USD, spent or reserved; None if any price is not known.
    """

    before: int
    cost: Decimal | None
