"""Requests to a run from people who do not drive it: messages, higher limits, its end."""

from collections.abc import Mapping
from contextlib import suppress

from stepwell import clock
from stepwell.driving.worker import Worker
from stepwell.errors import LeaseLost, NotSent
from stepwell.machine import LIVE, State
from stepwell.plain_json import clean
from stepwell.rules.allowances import LimitOptions, amounts
from stepwell.rules.change import Change
from stepwell.rules.recovery import cancel as cancelled
from stepwell.rules.recovery import resume as resumed
from stepwell.state.circumstances import Circumstances
from stepwell.state.inbox import InboxKind
from stepwell.state.snapshot import Snapshot
from stepwell.store import TRIES, Store, inbox
from stepwell.views.runs import InboxView
from stepwell.workflow import Workflow


def send(
    store: Store, workflows: Mapping[str, Workflow], number: int, text: str, by: str | None
) -> InboxView:
    """Put a message into a run's inbox, and give it as it lies there.

    Args:
        store: where the run is.
        workflows: by name; a run of another is believed to be able to take a message.
        number: the run's.
        text: the message for its model.
        by: who says it.

    Raises:
        NotSent: the message is empty, or the run cannot take one.
    """
    with store.reading() as connection:
        to = inbox.addressee(connection, number)
    if not text.strip():
        raise NotSent("The message is empty.", "Give a text to send.")
    known = workflows.get(to.workflow)
    if known is not None and not known.takes_messages:
        raise NotSent(
            f"Run {to.id} is of the pipeline {to.workflow!r}, whose plan sees no messages.",
            "Start a new run with another input.",
        )
    if to.state == State.CANCELLED:
        raise NotSent(
            f"Run {to.id} was cancelled; that is final. Nothing was sent.",
            "Start a new run, or fork this one.",
        )
    sent = store.send(number, InboxKind.MESSAGE, clean(by), text=str(clean(text)))
    with store.reading() as connection:
        return inbox.sent(connection, number)[sent - 1]


def record_resume(
    store: Store, number: int, by: str | None, raises: LimitOptions, model: str | None
) -> None:
    """Record a person's `resume`; the higher limits of a live run are sent to its driver.

    Args:
        store: where the run is.
        number: the run's.
        by: who wants it.
        raises: by limit, how much to raise it.
        model: to continue with.

    Raises:
        RunNotResumable, InvalidInput: nothing was changed.
    """
    lives = False

    def change(snapshot: Snapshot) -> Change | None:
        nonlocal lives
        lives = snapshot.run.state in LIVE
        return resumed(snapshot, Circumstances(now=clock.now()), by, raises, model)

    store.revise(number, change)
    wanted = {name: amount for name, amount in amounts(raises).items() if amount}
    if lives and wanted:
        store.send(number, InboxKind.TOP_UP, clean(by), amounts=wanted)


def cancel(worker: Worker, number: int, by: str | None) -> None:
    """End a run: immediately if no process drives it, else at its driver's next record.

    Raises:
        RunNotResumable: it has ended otherwise.
    """
    driver = worker.driver
    for _ in range(TRIES):
        worker.free(number)
        if driver.store.request_cancel(number, by or "somebody"):
            return
        with suppress(LeaseLost):  # another process has just claimed it
            ended = driver.store.revise(number, lambda s: cancelled(s, by, driver.given()), tries=1)
            if ended is not None:
                driver.tell(ended)
            return
