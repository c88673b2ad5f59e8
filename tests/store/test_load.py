"""Loading: what is read once is what the driver held, at every transition of a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import ProviderError, Verdict, clock
from stepwell.messages import StopReason
from stepwell.rules.approval import expire
from stepwell.rules.change import Change
from stepwell.rules.decide import Faulted
from stepwell.rules.recovery import cancel, interrupt, resume
from stepwell.state.circumstances import Circumstances
from stepwell.state.snapshot import Snapshot
from stepwell.state.transcript import problems
from stepwell.store import Store
from tests.narrowing import present
from tests.store.stepping import Stepping
from tests.tracing import tracing


class Checked(Stepping):
    """After every record, another one who loads the run holds the very same."""

    def record(self, change: Change, **options: Any) -> None:
        super().record(change, **options)
        loaded = self.copy()
        assert loaded == self.snapshot
        closed = self.snapshot.run.state == "awaiting_model"
        assert problems(loaded.transcript, complete=closed) == []


def parallel_calls(run: Checked) -> None:
    run.record(run.replied(*[("look", {"q": str(n)}) for n in range(7)], text="Seven."))
    for number in (3, 1, 2, 5, 4, 7, 6):
        run.record(run.ended(number, "x", f"note of {number}"))


def approvals(run: Checked) -> None:
    run.record(run.replied(("wire", {"amount": 1}), ("look", {"q": "a"}), ("wire", {"amount": 2})))
    run.record(run.ended(2))
    run.settle()
    run.record(run.answered(2, Verdict.DENY, "ann", reason="too much"), driven=False)
    run.record(run.answered(1, Verdict.APPROVE, "ann", edit={"amount": 3}), driven=False)
    run.snapshot = run.claim()
    run.settle()
    run.record(run.ended(1))
    run.record(run.replied(("wire", {"amount": 9})))
    run.settle()
    run.record(run.answered(3, Verdict.APPROVE, "ann", all_of_tool=True), driven=False)
    run.snapshot = run.claim()
    run.settle()
    run.record(run.ended(4))
    run.record(run.replied(("wire", {"amount": 9})))
    assert run.snapshot.batch[5].status == "running"


def expiry(run: Checked) -> None:
    run.record(run.replied(("wire", {"amount": 1})))
    run.settle()
    expires = run.snapshot.approvals[1].expires_at
    assert expires
    expired = expire(run.snapshot, Circumstances(now=expires))
    assert expired
    run.record(expired, driven=False)


def faults(run: Checked) -> None:
    for _ in range(5):
        error = ProviderError("Busy.", kind="overloaded", retryable=True)
        run.record(run.concluded(Faulted(error, "scripted:test")))
        late = ProviderError("Late.", kind="timeout", retryable=True)
        run.record(run.concluded(Faulted(late, "scripted:test")))
    assert run.snapshot.run.state == "failed"
    again = resume(run.snapshot, Circumstances(now=clock.now()), "ann", {"max_turns": 5})
    assert again
    run.record(again, driven=False)


def an_interruption(run: Checked) -> None:
    run.record(run.replied(("pay", {"amount": 1}), ("look", {"q": "a"})))
    run.record(interrupt(run.snapshot, "SIGTERM", Circumstances(now=clock.now())))
    run.snapshot = run.claim()
    run.settle()
    assert [call.status for call in run.snapshot.batch.values()] == ["running", "running"]


def cancelling(run: Checked) -> None:
    run.record(run.replied(("wire", {"amount": 1}), ("look", {"q": "a"})))
    run.record(present(cancel(run.snapshot, "ann", Circumstances(now=clock.now()))), driven=False)
    assert [call.status for call in run.snapshot.batch.values()] == ["not_run", "unknown"]


def odd_replies(run: Checked) -> None:
    run.record(run.replied(text=" "))
    run.record(run.replied(("nothing", {}), ("look", "{broken"), ("look", {"q": 5})))
    run.settle()
    run.record(run.replied(text="Half", stop=StopReason.LENGTH))
    run.record(run.replied(text="Done.", raw={"items": [1]}))
    assert run.snapshot.run.state == "done"


STORIES = [parallel_calls, approvals, expiry, faults, an_interruption, cancelling, odd_replies]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_what_is_loaded_is_what_the_driver_held(
    store: Store, story: Callable[[Checked], None]
) -> None:
    story(Checked(store))


def test_it_is_read_in_one_transaction_and_a_fixed_number_of_statements(file: Path) -> None:
    with tracing() as statements:
        store = Store(file)
        counts = []
        for rounds in (1, 20):
            run = Stepping(store)
            for number in range(1, rounds + 1):
                run.record(run.replied(("look", {"q": f"{number}"})))
                run.record(run.ended(number))
            statements.clear()
            loaded: Snapshot = run.copy()
            counts.append((statements.count("BEGIN"), len(statements)))
            assert len(loaded.transcript) == 1 + 2 * rounds
        store.close()
    assert counts[0] == counts[1] == (1, 9)


def test_full_results_are_not_loaded(store: Store) -> None:
    """They may be megabytes, and no next step depends on them."""
    run = Stepping(store)
    run.record(run.replied(("look", {"q": "x"})))
    run.record(run.ended(1, "y" * 50_000))
    assert run.snapshot.batch[1].full_result == "y" * 50_000
    assert run.copy().batch[1].full_result is None
