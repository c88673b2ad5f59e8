"""Tells a caller of a run's transitions, whichever process makes them."""

from collections.abc import Callable
from dataclasses import dataclass

from stepwell.change import Change
from stepwell.store import Store, inspect
from stepwell.views import HistoryEntry

OnTransition = Callable[[HistoryEntry], None]


@dataclass(slots=True)
class Watch:
    """One run's transitions, each told once and in order.

    Attributes:
        number: the run's.
        tell: what is told; None for nobody.
        seq: of the last transition that was told.
    """

    store: Store
    number: int
    tell: OnTransition | None
    seq: int

    def recorded(self, change: Change) -> None:
        """A transition was made by this process."""
        if self.tell is not None and change.before and change.before.number == self.number:
            self.catch_up()

    def catch_up(self) -> None:
        """Tell what was not told yet."""
        if self.tell is None:
            return
        with self.store.reading() as connection:
            entries = inspect.history(connection, self.number, after=self.seq)
        for entry in entries:
            self.seq = entry.seq
            self.tell(entry)
