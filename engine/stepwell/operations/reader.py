"""Reads the runs of one database; nothing here changes any."""

from stepwell import clock
from stepwell.errors import InvalidInput
from stepwell.machine import State
from stepwell.operations.words import checked
from stepwell.store import Store, damage, find, inspect, past, timeline
from stepwell.views.diff import diff
from stepwell.views.runs import ApprovalView, HistoryEntry, Run, RunDetail, RunDiff


class Reader:
    """Shows the runs of one database.

    Attributes:
        store: where they are.
    """

    store: Store

    def get(self, run: str, *, at: int | None = None) -> RunDetail:
        """One run with everything in it, as it is or as it was after transition `at`.

        `run` is an id, the beginning of one, or "last".

        Raises:
            UnknownRun, UnknownTransition: there is no such run, or not that far.
        """
        number = self._number(run)
        if at is None:
            return self._detail(number)
        with self.store.reading() as connection:
            return past.detail(connection, number, at, clock.now())

    def diff(
        self, left: str, right: str, *, left_at: int | None = None, right_at: int | None = None
    ) -> RunDiff:
        """What differs between two runs, or between one and itself at another time.

        Args:
            left: a run's id, the beginning of one, or "last".
            right: another's, or the same.
            left_at: after which transition of it; by default, as it is now.
            right_at: likewise.

        Raises:
            UnknownRun, UnknownTransition: there is no such run, or not that far.
        """
        return diff(self.get(left, at=left_at), self.get(right, at=right_at))

    def runs(
        self, *, state: State | str | None = None, workflow: str | None = None, limit: int = 50
    ) -> list[Run]:
        """Runs, the newest first.

        Raises:
            InvalidInput: `state` is not a state, or `workflow` is not text.
        """
        wanted = None if state is None else _state(state)
        checked("workflow", workflow)
        with self.store.reading() as connection:
            return inspect.runs(
                connection,
                clock.now(),
                state=wanted,
                workflow=workflow,
                limit=limit,
            )

    def history(self, run: str) -> list[HistoryEntry]:
        """Every transition of one run, in order."""
        number = self._number(run)
        with self.store.reading() as connection:
            return timeline.history(connection, number)

    def approvals(self, run: str | None = None) -> list[ApprovalView]:
        """The questions that wait for a person, the oldest first: one run's, or all."""
        number = None if run is None else self._number(run)
        with self.store.reading() as connection:
            return inspect.approvals(connection, number, pending=True)

    def _number(self, run: str) -> int:
        with self.store.reading() as connection:
            return find.run_number(connection, run)

    def _detail(self, number: int) -> RunDetail:
        with self.store.reading() as connection, damage.named(connection, number):
            return inspect.detail(connection, number, clock.now())


def _state(text: str) -> State:
    try:
        return State(text)
    except ValueError:
        raise InvalidInput(f"state cannot be {text!r}.", f"Choices: {', '.join(State)}.") from None
