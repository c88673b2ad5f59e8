"""Begins a run, or finds the one that its key belongs to."""

from datetime import datetime

from stepwell import clock
from stepwell.errors import KeyConflict
from stepwell.rules.starting import Start, start
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store, find, inspect
from stepwell.workflow import Workflow


def submit(
    store: Store, workflow: Workflow, new: Start, until: datetime | None = None
) -> tuple[int, Snapshot | None]:
    """The run's number; and the run, if it is new and this process's to drive `until` then.

    Raises:
        KeyConflict: the key belongs to a run with another input.
    """
    try:
        begun = store.begin(start(workflow, new, clock.now()), until)
    except KeyConflict as conflict:
        with store.reading() as connection:
            number = find.run_with_key(connection, workflow.name, str(store.mask.key(new.key)))
            if number is None or inspect.input_of(connection, number) != store.mask.text(new.input):
                raise KeyConflict(
                    f"{conflict.message} It was started with another input.",
                    "Use another key, or the same input to find that run again.",
                ) from None
        return number, None
    return begun.run.number, begun if until else None
