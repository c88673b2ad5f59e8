"""Several workers on one database, in any order, with a clock that is moved.

However claims, heartbeats, steps, expiries, takeovers and people's wishes follow one another: a run
has one owner, whoever has lost it can record nothing, nothing is lost, and an end is an end.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from freezegun import freeze_time
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stepwell import Agent, Engine, Reply, ScriptedModel, clock
from stepwell.envelope import success
from stepwell.errors import LeaseLost, ProviderError, RunNotResumable
from stepwell.machine import LIVE, CallStatus, State
from stepwell.retry import RetryPolicy
from stepwell.rules.decide import (
    AskModel,
    CallEnded,
    Command,
    Faulted,
    Finish,
    Outcome,
    Record,
    Replied,
    RunCalls,
    Wait,
    conclude,
    decide,
)
from stepwell.rules.recovery import interrupt, resume
from stepwell.settings import Settings
from stepwell.state.circumstances import Circumstances
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store
from stepwell.workflow import Limits
from tests.in_memory import look, pay, wire

NOW = datetime(2027, 3, 14, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
POLICY = RetryPolicy(attempts=4)
QUICK = Settings(synchronous="off", attempts=4)
WORKFLOW = Agent(
    "w",
    tools=[look, pay, wire],
    model=ScriptedModel([Reply("Done.")]),
    limits=Limits(max_turns=3),
    parallel=2,
)
WORKERS, RUNS = 2, 6
BEGIN_ONLY = 6  # a choice: the effect is begun, and nothing is heard of it yet
ENDED = {state.value for state in State if state not in LIVE}
AFTER_AN_END = {"top_up", "resume", "follow_up"}
CALLS: dict[str, dict[str, Any]] = {"look": {"q": "a"}, "pay": {"amount": 1}, "wire": {"amount": 2}}

workers = st.integers(0, WORKERS - 1)
places = st.integers(0, RUNS - 1)
drivers = st.integers(0, 20)
choices = st.lists(st.integers(0, BEGIN_ONLY), min_size=2, max_size=5)
seldom = st.integers(0, 9).map(lambda number: number == 7)
Key = tuple[int, int, int]  # a worker, a run's number, the claim


class Ownership(RuleBasedStateMachine):
    """What each worker believes to drive, beside who owns what."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(dir=self.template.parent))
        file = shutil.copy(self.template, self.folder)
        self.frozen = freeze_time(NOW)
        self.time = self.frozen.start()
        self.engines = [Engine(file, workflows=[WORKFLOW], settings=QUICK) for _ in range(WORKERS)]
        self.believed: dict[Key, Snapshot] = {}
        self.fences: dict[int, int] = {}  # of runs that are owned: only its holder may record
        self.numbers: list[int] = []
        self.claims = 0
        self.begun: dict[tuple[int, int], set[Any]] = {}  # by run and call: who has begun it
        self.allowed: Counter[tuple[int, int]] = Counter()  # how often a person said: again

    def teardown(self) -> None:
        try:
            self._nothing_is_lost()
        finally:
            for engine in self.engines:
                engine.close()
            self.frozen.stop()
            shutil.rmtree(self.folder)

    # -- what is true

    def _owners(self) -> dict[int, int]:
        return {held.number: held.fence for held in self.engines[0].store.owned()}

    def _is_owner(self, key: Key) -> bool:
        return self.fences.get(key[1]) == self.believed[key].run.fence

    def _drop(self, key: Key) -> None:
        del self.believed[key]

    # -- what workers do

    @initialize()
    def begin(self) -> None:
        self.submit()

    @precondition(lambda self: len(self.numbers) < RUNS)
    @rule()
    def submit(self) -> None:
        run = self.engines[0].submit("w", "Go.")
        with self.engines[0].store.reading() as reader:
            query = "SELECT number FROM run WHERE id = ?"
            self.numbers.append(reader.exec_driver_sql(query, (run.id,)).scalar_one())

    @rule(worker=workers)
    def claim(self, worker: int) -> None:
        snapshot = self.engines[worker].store.claim(["w"], clock.now(), clock.now() + LEASE)
        if snapshot is None:
            return
        number = snapshot.run.number
        assert number not in self.fences
        self.claims += 1
        self.believed[worker, number, self.claims] = snapshot
        self.fences[number] = snapshot.run.fence

    @rule(worker=workers, other=workers)
    def lose_and_claim_again(self, worker: int, other: int) -> None:
        """All leases run out, and what was taken over is claimed while its old drivers live on."""
        self.sweep(worker, 31)
        for _ in range(3):
            self.claim(other)

    @rule(worker=workers, ahead=st.sampled_from([-20, 0, 30]), oldest=st.booleans())
    def heartbeat(self, worker: int, ahead: int, *, oldest: bool) -> None:
        """Extends what is still its own, be it over already; and nothing else."""
        keys = sorted(key for key in self.believed if key[0] == worker)
        mine = {key[1]: key for key in (reversed(keys) if oldest else keys)}
        leases = {number: self.believed[key].run.fence for number, key in mine.items()}
        until = clock.now() + LEASE + timedelta(seconds=ahead)
        ours = self.engines[worker].store.renew(leases, clock.now(), until)
        assert set(ours) == {number for number, key in mine.items() if self._is_owner(key)}

    @precondition(lambda self: self.believed)
    @rule(place=drivers, choices=choices)
    def go_some_steps(self, place: int, choices: list[int]) -> None:
        """A worker that believes to drive this run, whether it still does or not."""
        key = self._driver(place)
        for choice in choices:
            if key in self.believed:
                self._step(key, choice)

    def _step(self, key: Key, choice: int) -> None:
        snapshot = self.believed[key]
        command = decide(WORKFLOW, snapshot, Circumstances(now=clock.now()))
        if isinstance(command, Finish | Wait):
            self._release(key)
            return
        if isinstance(command, Record):
            made = command.change
        else:
            if isinstance(command, RunCalls) and self._is_owner(key):
                self._begin(key, command)
            if choice == BEGIN_ONLY:
                return
            outcome = _outcome(command, choice)
            made = conclude(
                WORKFLOW,
                snapshot,
                outcome,
                Circumstances(now=clock.now(), policy=POLICY, jitter=0.5),
            )
        self._record(key, made)

    def _driver(self, place: int) -> Key:
        return sorted(self.believed)[place % len(self.believed)]

    def _begin(self, key: Key, command: RunCalls) -> None:
        """What may not be repeated is begun by one driver, and by another one if a person says so."""
        for call in command.calls:
            begun = self.begun.setdefault((key[1], call.number), set())
            begun.add((key, call.restarted_seq))
            is_safe = WORKFLOW.toolbox[call.tool].safe_to_repeat
            assert is_safe or len(begun) <= 1 + self.allowed[key[1], call.number]

    @precondition(lambda self: self.believed)
    @rule(place=drivers)
    def stop(self, place: int) -> None:
        """A worker that has to end gives its run back in the middle of whatever it did."""
        key = self._driver(place)
        self._record(key, interrupt(self.believed[key], "SIGTERM", Circumstances(now=clock.now())))

    @precondition(lambda self: self.believed)
    @rule(place=drivers)
    def stop_between_steps(self, place: int) -> None:
        key = self._driver(place)
        if self.believed[key].is_between_steps():
            self._release(key)

    def _record(self, key: Key, made: Any) -> None:
        worker, number, _ = key
        snapshot, is_owner = self.believed[key], self._is_owner(key)
        try:
            self.engines[worker].store.record(snapshot, made)
        except LeaseLost:
            assert not is_owner
            self._drop(key)
            return
        assert is_owner
        if snapshot.run.owner is None:
            self._drop(key)
            del self.fences[number]

    def _release(self, key: Key) -> None:
        worker, number, _ = key
        before, store = self._owners(), self.engines[worker].store
        released = store.release(number, self.believed[key].run.fence)
        if self._is_owner(key):
            asked = store.load(number).run.cancel_requested
            assert released is (asked is None)
            if asked:  # its driver has to end it first
                self.believed[key].run = self.believed[key].run._replace(cancel_requested=asked)
                return
            del self.fences[number]
        else:
            assert self._owners() == before
        self._drop(key)

    @rule(worker=workers, late=st.sampled_from([0, 31]))
    def sweep(self, worker: int, late: int) -> None:
        """Takes from its owner what is over, and only that."""
        self.time.tick(timedelta(seconds=late))
        engine, now = self.engines[worker], clock.now()
        stuck = {held.number for held in engine.store.owned() if held.is_stuck(now)}
        engine._worker().sweep()
        for number in stuck:
            del self.fences[number]
        self.time.tick(timedelta(seconds=late))  # what was taken may be claimed again

    @rule(seconds=st.sampled_from([0.5, 12, 29, 31, -3, -3600]))
    def move_the_clock(self, seconds: float) -> None:
        self.time.tick(timedelta(seconds=seconds))

    # -- what people want

    @rule(place=places, wanted=seldom)
    def cancel(self, place: int, *, wanted: bool) -> None:
        if not wanted:
            return
        engine, number = self.engines[0], self.numbers[place % len(self.numbers)]
        held = next(iter(engine.store.owned(number)), None)
        is_stuck = held is not None and held.is_stuck(clock.now())
        ended = engine.store.load(number).run.state not in LIVE
        with pytest.raises(RunNotResumable) if self._has_another_end(number) else _nothing():
            engine.cancel(self._id(number))
        if is_stuck:
            del self.fences[number]
        if held is None or is_stuck:
            assert ended or engine.store.load(number).run.state not in LIVE

    def _has_another_end(self, number: int) -> bool:
        """Taking a stuck run over may have been its last attempt."""
        store = self.engines[0].store
        run = store.load(number).run
        held = next(iter(store.owned(number)), None)
        over = (
            held is not None and held.is_stuck(clock.now()) and POLICY.exhausted(run.failures + 1)
        )
        parked = run.state is State.AWAITING_APPROVAL
        return run.state in {State.DONE, State.FAILED, State.CAPPED} or (over and not parked)

    @rule(yes=st.booleans(), place=places)
    def answer(self, *, yes: bool, place: int) -> None:
        engine, number = self.engines[0], self.numbers[place % len(self.numbers)]
        questions = engine.approvals(self._id(number))
        if not questions:
            return
        (engine.approve if yes else engine.deny)(questions[0].id, by="ann")
        if yes and questions[0].kind == "in_doubt":
            self.allowed[number, int(questions[0].call.rpartition("-")[2])] += 1

    @rule(place=places, more=st.integers(0, 2))
    def go_on(self, place: int, more: int) -> None:
        """A person's `resume`: a raise, or another beginning."""
        store, number = self.engines[0].store, self.numbers[place % len(self.numbers)]
        state = store.load(number).run.state
        if state is State.CAPPED or state is State.FAILED:
            store.revise(
                number,
                lambda s: resume(s, Circumstances(now=clock.now()), "ann", {"max_turns": more}),
            )
            assert (store.load(number).run.state in LIVE) == (state is State.FAILED or more > 0)

    def _id(self, number: int) -> str:
        return self.engines[0].store.load(number).run.id

    # -- what always holds

    @invariant()
    def every_run_has_the_owner_that_it_should_have(self) -> None:
        assert self._owners() == self.fences

    @invariant()
    def the_history_is_whole_and_an_end_is_an_end(self) -> None:
        with self.engines[0].store.reading() as reader:
            query = 'SELECT run, seq, "trigger", source, fence FROM "transition" ORDER BY run, seq'
            rows = reader.exec_driver_sql(query).all()
        last: dict[int, tuple[int, int]] = {}
        for run, seq, trigger, source, fence in rows:
            before, older = last.get(run, (0, 0))
            assert seq == before + 1
            assert fence >= older
            assert source not in ENDED or trigger in AFTER_AN_END
            last[run] = seq, fence

    def _nothing_is_lost(self) -> None:
        """Whatever was going on: one worker brings every run to an end, or to a question."""
        self.believed.clear()
        engine = self.engines[1]
        for _ in range(60):
            self.time.tick(timedelta(hours=1))
            engine._worker().sweep()
            while (
                snapshot := engine.store.claim(["w"], clock.now(), clock.now() + LEASE)
            ) is not None:
                self._drive(engine.store, snapshot)
            states = {run.state for run in engine.runs()}
            if not states & {"awaiting_model", "dispatching", "summarising"}:
                break
        for run in engine.runs():
            assert run.owner is None
            assert run.state in ENDED or engine.approvals(run.id)

    def _drive(self, store: Store, snapshot: Snapshot) -> None:
        while snapshot.run.owner is not None:
            command = decide(WORKFLOW, snapshot, Circumstances(now=clock.now()))
            if isinstance(command, Record):
                made = command.change
            elif isinstance(command, Finish | Wait):
                store.release(snapshot.run.number, snapshot.run.fence)
                return
            else:
                outcome = _outcome(command, 0)
                made = conclude(
                    WORKFLOW,
                    snapshot,
                    outcome,
                    Circumstances(now=clock.now(), policy=POLICY, jitter=0.5),
                )
            store.record(snapshot, made)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _outcome(command: Command, choice: int) -> Outcome:
    if isinstance(command, AskModel):
        if choice == 5:
            return Faulted(ProviderError("Busy.", retryable=True, retry_after=20), "scripted:test")
        names = [(), ("look", "pay"), ("wire",), ("pay", "wire", "look"), ("pay",)][choice]
        reply = Reply("Done.", calls=[(name, CALLS[name]) for name in names])
        return Replied(reply, "scripted:test", "scripted")
    call = command.calls[choice % len(command.calls)]  # type: ignore[union-attr]
    if choice == 4 and call.tool == "pay":
        return CallEnded(call.number, CallStatus.IN_DOUBT, {}, (), 30_000)
    return CallEnded(call.number, CallStatus.OK, success("well"), (), 7)


def test_two_workers_never_both_change_a_run_and_no_run_is_lost(tmp_path: Path) -> None:
    template = tmp_path / "template.db"
    Store(template, "off").close()
    machine = type("Machine", (Ownership,), {"template": template})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=50,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
