"""What stands beside a run when its next model call is decided on: the model's terms, the day."""

from dataclasses import dataclass
from decimal import Decimal

from stepwell.messages import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a run's next model call may take.

    Attributes:
        model: whose terms these are.
        overhead: tokens of what goes with every request beside the transcript.
        max_output: tokens of the longest reply wanted, or None for the provider's own.
        summariser: the terms of the model that writes summaries, where that is another one.
    """

    model: str | None
    terms: Terms
    overhead: int = 0
    max_output: int | None = None
    summariser: Terms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Today:
    """What the other runs of a workflow came to in the present day (UTC).

    Attributes:
        before: how many were begun, before this run.
        cost: USD, spent or reserved; None if any price is not known.
    """

    before: int
    cost: Decimal | None
