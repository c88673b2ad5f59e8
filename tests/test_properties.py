"""Any run at all: random replies, calls, failures, denials, caps and crashes, step by step.

`Journey` plays the model, the tools, the people and the fate of one run, in memory. After every
step what must always hold is checked, and at the end that the run can still be finished.
`StoredJourney` does the same on a real database, which must always tell the same story.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn
from ulid import ULID

from stepwell import (
    Approvals,
    Decision,
    DidNotHappen,
    Happened,
    NotKnown,
    ProviderError,
    Reply,
    Summarising,
    ToolCall,
    Verdict,
    tool,
)
from stepwell.envelope import failure, success
from stepwell.errors import ApprovalClosed, InvalidDecision, LeaseLost
from stepwell.machine import CallStatus
from stepwell.messages import StopReason, Usage
from stepwell.rules.approval import decide_approval, digest
from stepwell.rules.change import Change
from stepwell.rules.decide import (
    AskModel,
    CallEnded,
    Faulted,
    Reconcile,
    Reconciled,
    Record,
    Replied,
    RunCalls,
    Wait,
    conclude,
)
from stepwell.rules.delivery import wake
from stepwell.rules.recovery import cancel, interrupt, resume, take_over
from stepwell.state.inbox import InboxEntry, InboxKind
from stepwell.state.records import ApprovePolicy, Call, RunRow
from stepwell.state.snapshot import Snapshot
from stepwell.state.transcript import problems
from stepwell.store import Store
from stepwell.tools.context import Finding
from stepwell.workflow import Agent
from tests.in_memory import KIT, LOST, InMemory, agent
from tests.narrowing import present
from tests.test_machine import ENDED, TABLE

pytestmark = pytest.mark.timeout(600)  # a failure is made small before it is shown
Draw = Callable[[st.SearchStrategy[Any]], Any]
Step = Callable[[], None]
LOOSE = settings(deadline=None, suppress_health_check=list(HealthCheck))


def often(common: Any, *rare: Any, weight: int = 6) -> Any:
    """One of them, mostly the first."""
    return st.sampled_from([common] * weight + list(rare)).flatmap(
        lambda choice: choice if isinstance(choice, st.SearchStrategy) else st.just(choice)
    )


ODD_TEXT = st.sampled_from(["", " ", "hi", "\udcff\0", "e\u0301"])
IDS = st.sampled_from(["", "", "k", "call_1", "call_2", "call_3", "call_7"])
ARGUMENTS: dict[str, list[Any]] = {
    "look": [{"q": "a"}, '{"q": "b"}'],
    "put": [{"key": "k"}, {"key": "k", "value": 3}],
    "pay": [{"amount": 1}, '{"amount": 2}'],
    "wire": [{"amount": 1}, {"amount": 900}],
    "delete": [{"row": 1}, {"row": 500}],
    "book": [{"amount": 1}, {"amount": 2}],
}
VALID = st.sampled_from([(name, a) for name, given in ARGUMENTS.items() for a in given])
INVALID = st.sampled_from(
    [("pay", {"amount": "1"}), ("wire", "{"), ("look", None), ("nobody", {}), ("", "[1]"), ("pay", "NaN")]
)  # fmt: skip
CALLS = st.builds(lambda pair, id_: ToolCall(pair[0], pair[1], id_), often(VALID, INVALID), IDS)
PRICES = st.sampled_from([None, Decimal(0), Decimal("0.000123")])
USAGE = st.builds(Usage, st.integers(0, 999), st.integers(0, 99), st.integers(0, 99), PRICES)
RAW = st.none() | st.just({"type": "thinking", "data": "X"})
REPLIES = often(
    st.builds(Reply, ODD_TEXT, st.lists(CALLS, min_size=1, max_size=6), st.none() | ODD_TEXT,
              often(None, *StopReason, weight=20), USAGE, RAW),
    st.builds(Reply, ODD_TEXT, stop=often(None, *StopReason, weight=3), usage=USAGE, raw=RAW),
    weight=8,
)  # fmt: skip
SUMMARIES = often(
    Reply("Found: what was looked for, at \udcff 17, after the 2nd look.", usage=Usage(90, 0, 9)),
    REPLIES,
)
FAULTS = st.builds(
    lambda retryable, after: ProviderError("No.", kind="x", retryable=retryable, retry_after=after),
    often(st.just(True), False),
    st.sampled_from([None, 0, 0.0004, 9, 11, 7200]),
)
RESULTS = st.sampled_from([None, "fine", {"a": [1]}, "x" * 30_000, "\u0000" * 10])
FINDINGS: st.SearchStrategy[Finding] = st.sampled_from(
    [Happened("it did"), DidNotHappen(), NotKnown("who knows")]
)
JITTER = st.floats(0, 1, exclude_max=True)
DECISIONS = st.builds(
    Decision,
    verdict=st.sampled_from(list(Verdict)),
    edit=often(st.none(), {"amount": 7}, {"row": 3}, {"amount": "x"}),
    reason=ODD_TEXT,
    all_of_tool=often(st.just(False), True),
    happened=often(st.just(False), True, weight=3),
    result=st.sampled_from([None, "it did \udcff"]),
)


@tool(reconcile=lambda _context: NotKnown())
def book(amount: int) -> str:
    """Pay; what became of it can be found out."""
    return f"booked {amount}"


@st.composite
def worlds(draw: DrawFn) -> tuple[Agent, dict[str, Any]]:
    """How a run may be started."""
    always = draw(st.sampled_from([[], [], ["look", "book"]]))
    approvals = Approvals(always=always, expire_after=timedelta(hours=1))
    parallel = draw(st.integers(1, 4))
    long: dict[str, Any] = draw(
        st.sampled_from([{"window": 10**6}, {"window": 2_000}, {"at": 100}])
    )
    summarising = Summarising(keep_turns=draw(st.integers(1, 3)), **long)
    workflow = agent(
        tools=[*KIT, book], parallel=parallel, approvals=approvals, summarising=summarising
    )
    options = {
        "max_turns": draw(often(st.integers(5, 30), st.integers(0, 4), weight=2)),
        "max_tool_calls": draw(often(st.integers(10, 60), st.integers(0, 9), weight=2)),
        "approve": draw(often(st.just(ApprovePolicy.PARK), *ApprovePolicy)),
    }
    return workflow, options


class Journey:
    """One run and all that may happen to it."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        workflow, options = draw(worlds())
        self.run = InMemory(workflow, **options)
        self.begun: set[int] = set()  # calls that this driver has handed to their tools
        self.asked: set[int] = set()  # calls whose tool is finding out what became of them
        self.starts: Counter[int] = Counter()
        self.again: Counter[int] = Counter()  # how often somebody said: run it again
        self.sent = 0
        self.mailed: list[InboxEntry] = []  # what was sent, and the driver has not heard of
        self.model_calls = 0
        self.checked = 1
        self.stale: tuple[Snapshot, Change] | None = None

    @property
    def snapshot(self) -> Snapshot:
        return self.run.snapshot

    @property
    def row(self) -> RunRow:
        return self.run.snapshot.run

    def apply(self, change: Change, *, driven: bool = True) -> None:
        event(change.trigger)
        self.run.apply(change)
        self.hear()

    def conclude(self, outcome: Any, jitter: float = 0.5) -> None:
        run = self.run
        self.apply(conclude(run.workflow, run.snapshot, outcome, replace(run.given, jitter=jitter)))

    # -- what can happen

    def is_driven(self) -> bool:
        return self.row.owner is not None

    def is_due(self) -> bool:
        parked = self.row.state == "awaiting_approval"
        waits = self.row.not_before is not None and self.row.not_before > self.run.now
        idle = not self.is_driven() and self.row.state not in ENDED
        return idle and not waits and not (parked and self.row.not_before is None)

    def possible(self) -> list[Any]:
        """What may happen next, the likelier the more often it is in the list."""
        live = self.row.state not in ENDED
        actions = [self.time_passes]
        if self.is_due():
            actions += [self.claim] * 4
        if self.is_driven():
            actions += [self.drive] * 20 + [self.lose_the_driver] * 2
        if self.run.open:
            actions += [self.a_person_decides] * 6
        if self.row.state in {"capped", "failed"}:
            actions += [self.a_person_resumes] * 3
        actions += [self.somebody_sends_something]
        if self.sleeps():
            actions += [self.wake] * 6
        if live and self.row.seq > 15:
            actions += [self.a_person_cancels]
        return actions

    def step(self) -> None:
        self.draw(st.sampled_from(self.possible()))()
        self.check()

    # -- the driver

    def claim(self) -> None:
        self.begun.clear()
        self.asked.clear()
        self.hear()
        self.run.claim()

    def drive(self) -> None:
        match self.run.command():
            case Record(change):
                self.apply(change)
            case AskModel(is_aside=is_aside):
                self.model_calls += 1
                if self.draw(often(st.just(False), True)):
                    self.conclude(Faulted(self.draw(FAULTS), None), self.draw(JITTER))
                elif is_aside:
                    self.conclude(Replied(self.draw(SUMMARIES), "scripted:cheap", "scripted"))
                else:
                    self.conclude(Replied(self.draw(REPLIES), "scripted:test", "scripted"))
            case RunCalls(calls):
                self.hand_out(calls)
                if self.asked and self.draw(st.booleans()):
                    self.a_tool_finds_out()
                else:
                    self.a_call_ends(self.draw(st.sampled_from(calls)))
            case Reconcile(calls):
                self.asked |= {call.number for call in calls}
                self.a_tool_finds_out()
            case Wait(until):
                self.run.now = present(until)

    def hand_out(self, calls: tuple[Any, ...]) -> None:
        """What the performer does with a command: calls that it has not begun are begun."""
        for call in calls:
            if call.number not in self.begun:
                self.begun.add(call.number)
                self.starts[call.number] += 1
                self.check_permission(call)

    def a_call_ends(self, call: Call) -> None:
        safe = self.run.workflow.toolbox[call.tool].safe_to_repeat
        kinds = ["ok", "ok", "error"] if safe else ["ok", "ok", "error", "in_doubt"]
        status = CallStatus(self.draw(st.sampled_from(kinds)))
        good = status is CallStatus.OK
        outcome = success(self.draw(RESULTS)) if good else failure("boom", "It failed.")
        notes = self.draw(often(st.just(()), ("a note",), weight=2))
        self.begun.discard(call.number)
        self.conclude(CallEnded(call.number, status, outcome, notes, 5))

    def a_tool_finds_out(self) -> None:
        number = self.draw(st.sampled_from(sorted(self.asked)))
        finding = self.draw(FINDINGS)
        self.asked.remove(number)
        self.again[number] += isinstance(finding, DidNotHappen)
        self.conclude(Reconciled(number, finding))

    # -- fate

    def time_passes(self) -> None:
        seconds = self.draw(st.sampled_from([0.001, 1, 15, 600, 3600, 7200]))
        self.run.now += timedelta(seconds=seconds)

    def lose_the_driver(self) -> None:
        command, run = self.run.command(), self.run
        if self.draw(st.booleans()):  # in the middle of an effect, or before it
            if isinstance(command, RunCalls):
                self.hand_out(command.calls)
            self.model_calls += isinstance(command, AskModel)
        if self.draw(often(st.just(False), True, weight=3)):
            self.apply(interrupt(run.snapshot, "SIGTERM", run.given))
        else:
            self.remember(command)
            jitter = self.draw(st.just(0.0) | JITTER)
            self.apply(take_over(run.snapshot, LOST, replace(run.given, jitter=jitter)))

    def remember(self, command: Any) -> None:
        """What the lost driver would still like to record, should it wake up."""
        before, run = copy.deepcopy(self.snapshot), self.run
        if isinstance(command, Record):
            self.stale = before, command.change
        elif isinstance(command, RunCalls):
            outcome = CallEnded(command.calls[0].number, CallStatus.OK, success("late"), (), 5)
            self.stale = (
                before,
                conclude(run.workflow, before, outcome, replace(run.given, jitter=0)),
            )

    # -- people

    def a_person_decides(self) -> None:
        run, decision = self.run, self.draw(DECISIONS)
        question = self.draw(st.sampled_from(run.open))
        try:
            change = decide_approval(
                run.workflow, run.snapshot, question.number, decision, "ann", run.given
            )
        except (ApprovalClosed, InvalidDecision):
            return
        again = question.kind == "in_doubt" and decision.verdict == "approve"
        self.again[question.call] += again and not decision.happened
        self.apply(change, driven=False)

    def a_person_resumes(self) -> None:
        turns, tool_calls = self.draw(st.integers(0, 5)), self.draw(st.integers(0, 5))
        change = resume(
            self.snapshot, self.run.given, "ann", {"max_turns": turns, "max_tool_calls": tool_calls}
        )
        if change is not None:
            self.apply(change, driven=False)

    def somebody_sends_something(self) -> None:
        if self.row.state == "cancelled" or self.row.cancel_requested is not None:
            return
        kind = self.draw(st.sampled_from(InboxKind))
        names = ["max_turns", "max_tool_calls"]
        amounts = {name: self.draw(st.integers(0, 3)) for name in names}
        self.sent += 1
        is_message = kind is InboxKind.MESSAGE
        self.put(
            InboxEntry(
                number=self.sent,
                kind=kind,
                text=self.draw(st.sampled_from(["hi", "e\u0301"])) if is_message else None,
                amounts={} if is_message else amounts,
                by=self.draw(st.sampled_from([None, "ann", "bob"])),
            )
        )

    def put(self, entry: InboxEntry) -> None:
        """The driver hears of it with its next record, or when the run is claimed."""
        self.mailed.append(entry)

    def hear(self) -> None:
        self.snapshot.inbox += tuple(self.mailed)
        self.mailed.clear()

    def sleeps(self) -> bool:
        ended = self.row.state in {"done", "capped"} and not self.is_driven()
        return ended and bool(self.mailed or self.snapshot.inbox)

    def wake(self) -> None:
        self.hear()
        change = wake(self.run.workflow, self.snapshot, self.run.given)
        if change is not None:
            self.apply(change, driven=False)

    def a_person_cancels(self) -> None:
        if self.is_driven():
            self.request_cancel()
        else:
            self.apply(present(cancel(self.snapshot, "bob", self.run.given)), driven=False)

    def request_cancel(self) -> None:
        self.snapshot.run = self.row._replace(cancel_requested="bob")

    # -- what always holds

    def check(self) -> None:
        self.every_transition_is_in_the_table()
        self.the_transcript_is_legal()
        self.an_end_leaves_nothing_open()
        self.a_parked_run_waits_for_somebody()
        self.effects_are_as_the_ledger_says()
        self.limits_hold()
        self.what_was_sent_is_taken_once_and_in_order()

    def every_transition_is_in_the_table(self) -> None:
        for change in self.run.history[self.checked :]:
            before, after = change.before, change.run
            assert TABLE[change.trigger][present(before).state] == after.state
            assert after.seq == present(before).seq + 1
            assert after.fence >= present(before).fence
            assert after.updated_at >= present(before).updated_at
        self.checked = len(self.run.history)

    def the_transcript_is_legal(self) -> None:
        complete = self.row.state in {"awaiting_model", "summarising"} | ENDED
        assert problems(self.snapshot.transcript, complete=complete) == []

    def an_end_leaves_nothing_open(self) -> None:
        row, ended = self.row, self.row.state in ENDED
        assert (row.finished_at is not None) == ended
        if ended:
            assert all(call.status.final for call in self.snapshot.batch.values())
            assert (self.run.open, row.owner, row.lease_until) == ([], None, None)

    def a_parked_run_waits_for_somebody(self) -> None:
        if self.row.state != "awaiting_approval":
            assert self.run.open == []
            return
        deadlines = [a.expires_at for a in self.run.open if a.expires_at]
        assert self.run.open
        assert self.row.not_before == min(deadlines, default=None)
        assert not any(call.status == "running" for call in self.snapshot.batch.values())

    def check_permission(self, call: Call) -> None:
        """A call begins only with valid arguments, and where it needs a person, with these."""
        workflow = self.run.workflow
        a_tool = workflow.toolbox[call.tool]
        a_tool.parameters.validate(call.effective)
        needed = a_tool.needs_approval(call.effective) or call.tool in workflow.approvals.always
        said = [a for a in self.snapshot.approvals.values() if a.call == call.number]
        given = [a for a in said if a.status == "approved"]
        assert all(a.digest == digest(call.tool, call.effective) for a in given[-1:])
        covered = call.tool in self.snapshot.blanket or self.row.approve == "all"
        assert given or covered or not needed

    def effects_are_as_the_ledger_says(self) -> None:
        for call in self.snapshot.batch.values():
            a_tool = self.run.workflow.toolbox.get(call.tool)
            starts, again = self.starts[call.number], self.again[call.number]
            if a_tool is None or not a_tool.safe_to_repeat:
                assert starts <= 1 + again
            kind = ((call.outcome or {}).get("error") or {}).get("type")
            if kind != "did_not_happen" and call.status in {"denied", "waiting", "not_run"}:
                assert starts <= again

    def limits_hold(self) -> None:
        row, calls = self.row, self.snapshot.batch.values()
        running = [c for c in calls if c.status == "running" and c.fence == row.fence]
        assert len(running) <= self.run.workflow.parallel
        assert row.used.turns + row.reserved_turns <= row.limits.max_turns
        assert self.model_calls <= row.used.turns + row.reserved_turns
        assert len(self.starts) <= row.used.tool_calls <= row.limits.max_tool_calls

    def what_was_sent_is_taken_once_and_in_order(self) -> None:
        taken = [number for change in self.run.history for number in change.delivered]
        waiting = [entry.number for entry in (*self.snapshot.inbox, *self.mailed)]
        assert sorted(taken + waiting) == list(range(1, self.sent + 1))
        for change in self.run.history:
            assert list(change.delivered) == sorted(change.delivered)
            assert bool(change.delivered) or change.trigger not in {"deliver", "follow_up"}

    def finish(self) -> None:
        """However it came about, the run can be brought to an end with what is recorded."""
        event(f"at last {self.row.state}")
        for _ in range(200):
            if self.row.state in ENDED:
                return
            self.one_good_step()
            self.check()
        pytest.fail(f"the run does not end: {self.row}")

    def one_good_step(self) -> None:
        run = self.run
        if self.is_due():
            self.claim()
        elif self.run.open and not self.is_driven():
            number, no = run.open[0].number, Decision(verdict=Verdict.DENY)
            self.apply(
                decide_approval(run.workflow, run.snapshot, number, no, "ann", run.given),
                driven=False,
            )
        elif not self.is_driven():
            run.now = present(self.row.not_before)
        else:
            self.one_good_effect()

    def one_good_effect(self) -> None:
        match self.run.command():
            case Record(change):
                self.apply(change)
            case AskModel():
                self.model_calls += 1
                self.conclude(Replied(Reply("done"), "scripted:test", "scripted"))
            case RunCalls(calls):
                self.hand_out(calls)
                self.conclude(CallEnded(calls[0].number, CallStatus.OK, success(None), (), 5))
            case Reconcile(calls):
                self.conclude(Reconciled(calls[0].number, NotKnown()))
            case Wait(until):
                self.run.now = present(until)


class StoredJourney(Journey):
    """The same on a real database: after every step it alone would give this snapshot."""

    def __init__(self, draw: Draw, store: Store) -> None:
        super().__init__(draw)
        self.store = store
        [first] = self.run.history
        self.run.snapshot.run = store.begin(
            replace(first, run=first.run._replace(id=str(ULID())))
        ).run
        self.claim()

    def apply(self, change: Change, *, driven: bool = True) -> None:
        self.run.history.append(self.store.record(self.snapshot, change, driven=driven))
        self.mailed.clear()  # every record tells what was sent

    def request_cancel(self) -> None:
        assert self.store.request_cancel(self.row.number, "bob")
        super().request_cancel()

    def put(self, entry: InboxEntry) -> None:
        number = self.store.send(
            self.row.number, entry.kind, entry.by, text=entry.text, amounts=entry.amounts
        )
        assert number == entry.number
        super().put(entry)

    def try_to_claim(self, known: Snapshot | None = None) -> Snapshot | None:
        until = self.run.now + timedelta(seconds=30)
        return self.store.claim(["w"], self.run.now, until, self.row.number, known=known)

    def claim(self) -> None:
        self.begun.clear()
        self.asked.clear()
        before, fence = self.row, self.row.fence + 1
        known = self.run.snapshot if fence % 2 else None  # every other time
        claimed = self.try_to_claim(known)
        assert claimed is not None
        owner, until, at = claimed.run.owner, claimed.run.lease_until, claimed.run.claimed_at
        assert claimed.run == before._replace(
            fence=fence, owner=owner, lease_until=until, claimed_at=at
        )
        self.run.snapshot = claimed
        self.mailed.clear()

    def possible(self) -> list[Any]:
        late: list[Step] = [self.a_late_writer_changes_nothing] * 3 if self.stale else []
        return [*super().possible(), *late]

    def a_late_writer_changes_nothing(self) -> None:
        snapshot, change = present(self.stale)
        self.stale = None
        with pytest.raises(LeaseLost):
            self.store.record(snapshot, change)

    def check(self) -> None:
        super().check()
        heard = self.snapshot.inbox + tuple(self.mailed)
        assert told(self.store.load(self.row.number)) == told(replace(self.snapshot, inbox=heard))
        if not self.is_due():
            assert self.try_to_claim() is None


def told(snapshot: Snapshot) -> dict[str, Any]:
    """All of a snapshot but the uncut results, which nothing depends on."""
    batch = {n: call._replace(full_result=None) for n, call in snapshot.batch.items()}
    return {
        "run": snapshot.run,
        "shown": snapshot.shown,
        "batch": list(batch.items()),
        "approvals": list(snapshot.approvals.items()),
        "blanket": snapshot.blanket,
        "notes": snapshot.notes,
        "inbox": snapshot.inbox,
        "ids": snapshot.ids,
        "counts": (snapshot.messages, snapshot.calls, snapshot.questions, snapshot.replies),
        "closed": snapshot._closed,
    }


@settings(LOOSE, max_examples=150)
@given(st.data(), st.integers(1, 60))
def test_any_run(data: DataObject, steps: int) -> None:
    journey = Journey(data.draw)
    for _ in range(steps):
        journey.step()
    journey.finish()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store(tmp_path_factory.mktemp("journeys") / "runs.db", synchronous="off")
    yield opened
    opened.close()


@settings(LOOSE, max_examples=25)
@given(st.data(), st.integers(10, 50))
def test_any_run_on_a_real_database(store: Store, data: DataObject, steps: int) -> None:
    journey = StoredJourney(data.draw, store)
    for _ in range(steps):
        journey.step()
    journey.finish()
