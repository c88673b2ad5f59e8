"""Claims and leases: who may drive which run, and since when nobody does."""

import itertools
import os
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from stepwell import Agent, Engine, ProviderError, ScriptedModel, Verdict, clock
from stepwell.messages import Reply
from stepwell.rules.decide import Faulted
from stepwell.rules.recovery import interrupt
from stepwell.state.circumstances import Circumstances
from stepwell.state.inbox import InboxKind
from stepwell.state.records import RunRow
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store
from stepwell.store.claim import CLOCK_SLACK, Owned
from stepwell.store.owner import CLOCK_TOLERANCE, Owner, is_gone, this_process
from stepwell.store.types import milliseconds
from tests.narrowing import present
from tests.processes import crowd, ending, python
from tests.store.conftest import LEASE
from tests.store.stepping import Stepping
from tests.waiting import eventually

HOUR = timedelta(hours=1)


# -- claims


def test_the_oldest_is_claimed_first_and_only_once(
    begin: Callable[..., RunRow], claim: Callable[..., Snapshot | None]
) -> None:
    runs = [begin() for _ in range(5)]
    claimed = [present(claim()).run for _ in runs]
    assert [run.id for run in claimed] == [run.id for run in runs]
    assert claim() is None
    assert {(run.fence, run.seq, run.owner) for run in claimed} == {(1, 1, 1)}


def test_only_known_workflows_are_claimed(
    begin: Callable[..., RunRow], claim: Callable[..., Snapshot | None]
) -> None:
    begin("new in the next version")
    mine = begin("w")
    assert claim("other") is None
    assert present(claim("other", "w")).run.id == mine.id
    assert claim("other", "w") is None


def test_a_run_that_is_asked_for_is_claimed_only_if_it_is_due(
    begin: Callable[..., RunRow], claim: Callable[..., Snapshot | None]
) -> None:
    begin()
    second = begin()
    assert present(claim(number=second.number)).run.id == second.id
    assert claim(number=second.number) is None
    assert claim(number=99) is None
    assert claim("other", number=1) is None


def test_a_run_that_is_known_is_read_again_only_if_it_has_moved_on(
    store: Store, claim: Callable[..., Snapshot | None]
) -> None:
    run = Stepping(store)
    behind = run.copy()
    run.record(run.replied(("look", {"q": "a"})))
    known = run.copy()
    store.release(run.number, run.snapshot.run.fence)
    fresh = claim(number=run.number, known=behind)
    assert fresh is not behind
    assert present(fresh).run == known.run._replace(
        fence=2,
        lease_until=present(fresh).run.lease_until,
        claimed_at=present(fresh).run.claimed_at,
    )
    store.send(run.number, InboxKind.MESSAGE, "ann", text="Also look there.")
    store.release(run.number, 2)
    assert claim(number=run.number, known=fresh) is fresh
    assert present(fresh).run.fence == 3
    assert fresh == store.load(run.number)
    assert [entry.text for entry in fresh.inbox] == ["Also look there."]


def test_a_retry_is_not_claimed_before_its_time(
    store: Store, claim: Callable[..., Snapshot | None]
) -> None:
    run = Stepping(store)
    busy = ProviderError("Busy.", retryable=True, retry_after=3600)
    run.record(run.concluded(Faulted(busy, "scripted:test")))
    later = run.snapshot.run.not_before
    assert later
    assert later - clock.now() > HOUR * 0.9
    assert claim() is None
    assert claim(now=later - timedelta(milliseconds=1)) is None
    assert present(claim(now=later)).run.number == run.number


def test_what_has_ended_is_not_claimed(store: Store, claim: Callable[..., Snapshot | None]) -> None:
    run = Stepping(store)
    run.record(run.replied(text="Done."))
    assert run.snapshot.run.state == "done"
    assert claim() is None


def test_a_parked_run_is_claimed_only_when_a_question_has_expired(
    store: Store, claim: Callable[..., Snapshot | None]
) -> None:
    run = Stepping(store)
    run.record(run.replied(("wire", {"amount": 1})))
    run.settle()
    expires = run.snapshot.approvals[1].expires_at
    assert expires
    assert claim() is None
    assert claim(now=expires - timedelta(milliseconds=1)) is None
    assert present(claim(now=expires)).run.state == "awaiting_approval"


def test_a_call_in_doubt_parks_for_ever(
    store: Store, claim: Callable[..., Snapshot | None]
) -> None:
    """Its question does not expire."""
    run = Stepping(store)
    run.record(run.replied(("pay", {"amount": 1})))
    run.record(interrupt(run.snapshot, "test", Circumstances(now=clock.now())))
    run.snapshot = run.claim()
    run.settle()
    assert run.snapshot.run.state == "awaiting_approval"
    assert claim(now=clock.now() + 10_000 * HOUR) is None


def test_an_approved_run_is_claimed_at_once(
    store: Store, claim: Callable[..., Snapshot | None]
) -> None:
    run = Stepping(store)
    run.record(run.replied(("wire", {"amount": 1})))
    run.settle()
    run.record(run.answered(1, Verdict.APPROVE, "ann"), driven=False)
    assert present(claim()).run.state == "dispatching"


@pytest.mark.parametrize("processes", [2, 4])
def test_no_run_is_ever_claimed_twice(
    store: Store, begin: Callable[..., RunRow], processes: int
) -> None:
    """C02."""
    numbers = [str(begin().number) for _ in range(300)]
    claimed = crowd(processes, "claim", store.file)
    assert sorted(itertools.chain(*claimed), key=int) == numbers
    owners = {one.owner.pid for one in store.owned()}
    assert len(owners) == sum(bool(each) for each in claimed)


# -- leases


def test_a_lease_is_extended_for_those_who_still_have_it(
    store: Store, begin: Callable[..., RunRow], claim: Callable[..., Snapshot | None]
) -> None:
    for _ in range(3):
        begin()
    fences = {run.number: run.fence for run in (present(claim()).run for _ in range(3))}
    fences[2] += 1  # as if it had been lost and claimed by another one since
    later = clock.now() + HOUR
    store.request_cancel(3, "ann")
    assert store.renew(fences | {99: 1}, clock.now(), later) == {1: None, 3: "ann"}
    ends = {one.number: one.lease_until for one in store.owned()}
    assert ends[1] == ends[3] == milliseconds(later)
    assert ends[2] < milliseconds(later)


def test_another_process_cannot_extend_a_lease(
    store: Store, begin: Callable[..., RunRow], claim: Callable[..., Snapshot | None]
) -> None:
    """C04: not even with the right fence."""
    begin()
    fence = present(claim()).run.fence
    with closing(Store(store.file)) as other:
        assert other.renew({1: fence}, clock.now(), clock.now() + HOUR) == {}


def test_an_expired_lease_may_be_renewed_while_nobody_took_it(
    store: Store, begin: Callable[..., RunRow], claim: Callable[..., Snapshot | None]
) -> None:
    """Expiry only permits a takeover."""
    begin()
    run = present(claim(until=clock.now() - HOUR)).run
    assert store.renew({run.number: run.fence}, clock.now(), clock.now() + LEASE) == {1: None}


def stuck(owner: Owner, left: timedelta = LEASE, *, seen: timedelta = timedelta(0)) -> bool:
    now = clock.now()
    return Owned(1, 1, milliseconds(now + left), milliseconds(now + seen), owner).is_stuck(now)


def test_a_living_owner_is_stuck_only_when_its_lease_is_over() -> None:
    me = this_process()
    assert not stuck(me)
    assert not stuck(me, timedelta(milliseconds=50))
    assert stuck(me, timedelta(0))
    assert stuck(me, -HOUR)


def test_a_lease_is_as_long_as_its_owner_wants_it(
    store: Store, begin: Callable[..., RunRow]
) -> None:
    """A reader whose own setting is shorter takes nothing away."""
    begin()
    now = clock.now()
    with closing(Store(store.file)) as other:
        assert other.claim(["w"], now, now + 100 * HOUR)
    [one] = store.owned()
    assert not one.is_stuck(now + 99 * HOUR)
    assert one.is_stuck(now + 100 * HOUR)


def test_a_lease_from_a_clock_that_was_set_back_is_over(
    store: Store, begin: Callable[..., RunRow], claim: Callable[..., Snapshot | None]
) -> None:
    """C19: it would last an hour longer than any lease does."""
    assert stuck(this_process(), HOUR + LEASE, seen=HOUR)
    assert not stuck(this_process(), seen=timedelta(milliseconds=CLOCK_SLACK))
    begin()
    future = clock.now() + HOUR
    fence = present(claim(now=future)).run.fence
    assert store.owned()[0].is_stuck(clock.now())
    store.renew({1: fence}, clock.now(), clock.now() + LEASE)
    assert not store.owned()[0].is_stuck(clock.now())


# -- owners


def started(pid: int) -> Owner:
    """The process as it would describe itself."""
    me, process = this_process(), psutil.Process(pid)
    begun = round((process.create_time() - psutil.boot_time()) * 100)
    return replace(me, pid=pid, started=begun)


def test_this_process_is_there() -> None:
    me = this_process()
    assert (me.pid, me.host) == (os.getpid(), socket.gethostname())
    assert not is_gone(me)
    assert is_gone(replace(me, pid=2**22 + 1))


def test_a_killed_owner_is_gone_at_once_even_as_a_zombie() -> None:
    child = python("-c", "input()")
    with ending(child):
        owner = started(child.pid)
        assert not is_gone(owner)
        assert not stuck(owner)
        child.kill()
        eventually(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
        assert is_gone(owner)
        child.wait()
        assert is_gone(owner)
        assert stuck(owner)


def test_a_later_process_with_the_same_id_is_another_one() -> None:
    me = this_process()
    assert is_gone(replace(me, started=me.started - 10 * CLOCK_TOLERANCE))
    assert not is_gone(replace(me, started=me.started + CLOCK_TOLERANCE // 2))


@pytest.mark.parametrize("elsewhere", [{"boot": "other"}, {"namespace": "other"}], ids=str)
def test_of_a_process_elsewhere_only_the_lease_tells(elsewhere: dict[str, Any]) -> None:
    there = replace(this_process(), pid=2**22 + 1, **elsewhere)
    assert not is_gone(there)
    assert not stuck(there)
    assert stuck(there, -LEASE)


def test_a_process_is_one_worker_however_much_it_drives(
    store: Store, begin: Callable[..., RunRow], claim: Callable[..., Snapshot | None]
) -> None:
    for _ in range(3):
        begin()
    assert {present(claim()).run.owner for _ in range(3)} == {1}
    with closing(Store(store.file)) as other:
        assert other.worker() == 2
    assert {one.owner for one in store.owned()} == {this_process()}


def test_a_run_whose_owner_is_gone_is_shown_as_stuck_and_resumed_at_once(
    store: Store, begin: Callable[..., RunRow], tmp_path: Path
) -> None:
    begin()
    with ending(python(Path(__file__).parent / "crowd.py", "claim", store.file)) as other:
        assert other.stdin
        assert other.stdout
        other.stdin.write("\n")
        other.stdin.flush()
        eventually(store.owned)
    workflow = Agent("w", model=ScriptedModel([Reply("Done.")]))
    with Engine(store.file, workflows=[workflow]) as engine:
        [shown] = engine.runs()
        assert (shown.stuck, shown.owner) == (True, f"{socket.gethostname()}:{other.pid}")
        assert engine.resume("last").state == "done"
        story = [(e.trigger, e.fence, e.attempt) for e in engine.history("last")]
    assert story == [("start", 0, 1), ("retry", 2, 2), ("answer", 3, 1)]
