"""Pure: how often a model asked for the same calls and got the same results."""

from collections.abc import Sequence
from typing import NamedTuple

from stepwell.envelope import Envelope
from stepwell.state.records import Call

Batch = tuple[Call, ...]
# A model may go round in a circle of so many replies: A, B, C, A, B, C.
LONGEST = 3


class Repeats(NamedTuple):
    """The batches of the last replies, as far back as a circle may reach.

    Attributes:
        recent: the last batches, the oldest first.
        streaks: for circles of 1, 2, … replies: how many batches in a row are each the same as the
            one so many replies before.
    """

    recent: tuple[Batch, ...] = ()
    streaks: tuple[int, ...] = (0,) * LONGEST

    def after(self, batch: Sequence[Call]) -> "Repeats":
        """With one more batch."""
        streaks = tuple(
            streak + 1
            if length <= len(self.recent) and _are_the_same(self.recent[-length], batch)
            else 0
            for length, streak in enumerate(self.streaks, 1)
        )
        return Repeats((*self.recent, tuple(batch))[-LONGEST:], streaks)

    @property
    def times(self) -> int:
        """How often the last batch, or the circle that it closes, has been there in a row."""
        return max(1 + streak // length for length, streak in enumerate(self.streaks, 1))

    @property
    def circle(self) -> tuple[Batch, ...]:
        """The batches that repeat, each once; the last one alone if none does."""
        rounds = [1 + streak // length for length, streak in enumerate(self.streaks, 1)]
        return self.recent[-(rounds.index(max(rounds)) + 1) :]


def _are_the_same(one: Batch, other: Sequence[Call]) -> bool:
    return len(one) == len(other) and all(map(_is_the_same, one, other))


def _is_the_same(one: Call, other: Call) -> bool:
    asked = one.tool == other.tool and one.arguments == other.arguments
    return asked and one.status is other.status and _came_to(one) == _came_to(other)


def _came_to(call: Call) -> Envelope:
    """A call's outcome, without our own hint."""
    return {k: v for k, v in (call.outcome or {}).items() if k != "repeated"}
