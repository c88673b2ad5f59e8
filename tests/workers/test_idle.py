"""`--until-idle` leaves no run behind that continues by itself."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from stepwell import Engine, clock

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("seconds", [0, 1], ids=["lost", "in progress elsewhere"])
def test_a_run_of_another_process_is_waited_for_and_then_its_retry(
    opened: Callable[..., Engine], seconds: int
) -> None:
    """The other process is never heard of again; the takeover backs off like any retry."""
    engine, stranger = opened(retry_base=1), opened()
    run = engine.submit("paying", "1")
    now = clock.now()
    assert stranger.store.claim(stranger.workflows, now, now + timedelta(seconds=seconds))
    engine.work(until_idle=True)
    assert engine.get(run.id).state == "done"
    assert [str(entry.trigger) for entry in engine.history(run.id)][1] == "retry"
