"""Tells a caller of a run's transitions, whichever process makes them."""

from collections.abc import Callable
from dataclasses import dataclass

from stepwell.rules.change import Change
from stepwell.state.ids import call_id
from stepwell.store import Store, timeline
from stepwell.store.owner import this_process
from stepwell.views.runs import CallStep, HistoryEntry

OnTransition = Callable[[HistoryEntry], None]


@dataclass(slots=True)
class Watch:
    """One run's transitions, each told once and in order.

    Attributes:
        number: the run's.
        tell: the listener, if there is one.
        seq: of the last transition that was told.
    """

    store: Store
    number: int
    tell: OnTransition | None
    seq: int

    def recorded(self, change: Change) -> None:
        """A transition was made by this process."""
        if self.tell is None or change.before is None or change.before.number != self.number:
            return
        if change.before.seq > self.seq:
            self.catch_up()
        elif change.run.seq > self.seq:
            self.seq = change.run.seq
            self.tell(_entry(change))

    def catch_up(self) -> None:
        """Tell the transitions that were not told yet."""
        if self.tell is None:
            return
        with self.store.reading() as connection:
            entries = timeline.history(connection, self.number, after=self.seq)
        for entry in entries:
            self.seq = entry.seq
            self.tell(entry)


def _entry(change: Change) -> HistoryEntry:
    """The change as the history will show it."""
    run, usage, process = change.run, change.usage, this_process()
    return HistoryEntry(
        seq=run.seq,
        at=run.updated_at,
        trigger=change.trigger,
        source=change.before.state if change.before else None,
        dest=run.state,
        by=change.by or f"{process.host}:{process.pid}",
        fence=run.fence,
        attempt=run.attempt,
        digest=run.digest,
        model=change.model,
        calls=tuple(
            CallStep(id=call_id(run.id, call.number), tool=call.tool, status=call.status)
            for call in change.calls
        ),
        usage=usage.tokens() if usage else None,
        cost=usage.cost if usage else None,
        error=change.error.as_json() if change.error else None,
    )
