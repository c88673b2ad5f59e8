"""Any run at all: random replies, calls, failures, denials, caps and crashes, step by step.

`Journey` plays the model, the tools, the people and the fate of one run, in memory. After every
transition what must always hold is checked, and at the end that the run can still be finished.
`StoredJourney` does the same on a real database, which must always tell the same story.
"""

import copy
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from in_memory import KIT, LOST, POLICY, InMemory, agent
from test_machine import ENDED, TABLE
from ulid import ULID

from stepwell import (
    Approvals,
    Decision,
    DidNotHappen,
    Happened,
    NotKnown,
    ProviderError,
    Reply,
    ToolCall,
    Verdict,
    tool,
)
from stepwell.approval import decide_approval, digest
from stepwell.decide import (
    AskModel,
    CallEnded,
    Faulted,
    Reconcile,
    Reconciled,
    Record,
    Replied,
    RunCalls,
    conclude,
)
from stepwell.envelope import failure, success
from stepwell.errors import ApprovalClosed, InvalidDecision, LeaseLost
from stepwell.intervention import cancel, interrupt, resume, take_over
from stepwell.machine import CallStatus
from stepwell.messages import StopReason, Usage
from stepwell.snapshot import ApprovePolicy
from stepwell.store import Store
from stepwell.transcript import problems

pytestmark = pytest.mark.timeout(600)  # a failure is made small before it is shown
settings.register_profile("journey", deadline=None, suppress_health_check=list(HealthCheck))
PURE = settings(settings.get_profile("journey"), max_examples=150, stateful_step_count=40)
STORED = settings(settings.get_profile("journey"), max_examples=30, stateful_step_count=30)

ODD_TEXT = st.sampled_from(["", " ", "hi", "\udcff\0", "e\u0301"])
IDS = st.sampled_from(["", "", "k", "call_1", "call_2", "call_3", "call_7"])
ARGUMENTS = {
    "look": [{"q": "a"}, '{"q": "b"}'],
    "put": [{"key": "k"}, {"key": "k", "value": 3}],
    "pay": [{"amount": 1}, '{"amount": 2}'],
    "wire": [{"amount": 1}, {"amount": 900}],
    "delete": [{"row": 1}, {"row": 500}],
    "book": [{"amount": 1}, {"amount": 2}],
}
VALID = st.sampled_from([(name, a) for name, given in ARGUMENTS.items() for a in given])
INVALID = st.sampled_from(
    [
        ("pay", {"amount": "1"}),
        ("wire", "{"),
        ("look", None),
        ("nobody", {}),
        ("", "[1]"),
        ("pay", "NaN"),
    ]
)
CALLS = st.builds(lambda pair, id_: ToolCall(*pair, id_), VALID | VALID | VALID | INVALID, IDS)
USAGE = st.builds(
    Usage,
    st.integers(0, 999),
    st.integers(0, 99),
    st.integers(0, 99),
    st.sampled_from([None, Decimal(0), Decimal("0.000123")]),
)
STOPS = st.sampled_from([None] * 8 + list(StopReason))
REPLIES = st.builds(
    Reply, ODD_TEXT, st.lists(CALLS, max_size=6) | st.lists(CALLS, min_size=1, max_size=3),
    st.none() | ODD_TEXT, STOPS, USAGE, st.none() | st.just({"type": "thinking", "data": "X"}),
)  # fmt: skip
FAULTS = st.builds(
    lambda retryable, after: ProviderError("No.", kind="x", retryable=retryable, retry_after=after),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([None, 0, 0.0004, 9, 11, 7200]),
)
RESULTS = st.sampled_from([None, "fine", {"a": [1]}, "x" * 30_000, "\u0000" * 10])
JITTER = st.floats(0, 1, exclude_max=True)
DECISIONS = st.builds(
    Decision,
    verdict=st.sampled_from(list(Verdict)),
    edit=st.sampled_from([None, None, None, {"amount": 7}, {"row": 3}, {"amount": "x"}]),
    reason=ODD_TEXT,
    all_of_tool=st.sampled_from([False, False, True]),
    happened=st.sampled_from([False, False, True]),
    result=st.sampled_from([None, "it did \udcff"]),
)
POLICIES = st.sampled_from([ApprovePolicy.PARK] * 3 + [ApprovePolicy.ALL, ApprovePolicy.DENY])
FINDINGS = st.sampled_from([Happened("it did"), DidNotHappen(), NotKnown("who knows")])


@tool(reconcile=lambda _context: NotKnown())
def book(amount: int) -> str:
    """Pay; what became of it can be found out."""
    return f"booked {amount}"


class Journey(RuleBasedStateMachine):
    """One run and all that may happen to it."""

    @initialize(
        parallel=st.integers(1, 4),
        max_turns=st.integers(0, 8),
        max_tool_calls=st.integers(0, 12),
        approve=POLICIES,
        always=st.sampled_from([[], [], ["look", "book"]]),
    )
    def begin(self, parallel, always, **options):
        approvals = Approvals(always=always, expire_after=timedelta(hours=1))
        self.run = InMemory(
            agent(tools=[*KIT, book], parallel=parallel, approvals=approvals), **options
        )
        self.begun: set[int] = set()  # calls that this driver has handed to their tools
        self.asked: set[int] = set()  # calls whose tool is finding out what became of them
        self.starts: Counter[int] = Counter()
        self.again: Counter[int] = Counter()  # how often somebody said: run it again
        self.model_calls = 0
        self.decided = None, None
        self.checked = 1
        self.stale = None

    # -- what the rules are made of

    @property
    def snapshot(self):
        return self.run.snapshot

    @property
    def row(self):
        return self.run.snapshot.run

    def apply(self, change, *, driven=True):
        self.run.apply(change)

    def conclude(self, outcome, jitter=0.5):
        run = self.run
        self.apply(conclude(run.workflow, run.snapshot, outcome, run.now, POLICY, jitter))

    def hand_out(self, calls):
        """What the performer does with a command: calls that it has not begun are begun."""
        for call in calls:
            if call.number in self.begun:
                continue
            self.begun.add(call.number)
            self.starts[call.number] += 1
            self.check_permission(call)

    def check_permission(self, call):
        tool = self.run.workflow.toolbox[call.tool]
        tool.parameters.validate(call.effective)
        needs = (
            tool.needs_approval(call.effective) or call.tool in self.run.workflow.approvals.always
        )
        given = [
            a for a in self.snapshot.approvals.values()
            if a.call == call.number and a.status == "approved"
        ]  # fmt: skip
        if given:
            assert given[-1].digest == digest(call.tool, call.effective)
        elif needs:
            covered = call.tool in self.snapshot.blanket or self.row.approve == "all"
            assert covered or tool.safe_to_repeat, "it ran although nobody agreed"
            assert covered or self.starts[call.number] > 1 or call.restarted_seq, "nobody agreed"

    def is_due(self):
        parked = self.row.state == "awaiting_approval"
        waits = self.row.not_before is not None and self.row.not_before > self.run.now
        idle = self.row.owner is None and self.row.state not in ENDED
        return idle and not waits and not (parked and self.row.not_before is None)

    def is_driven(self):
        return self.row.owner is not None

    def command(self):
        """What is to be done next; decided once for each state and time."""
        if self.decided[0] != (self.row, self.run.now):
            self.decided = (self.row, self.run.now), self.run.command()
        return self.decided[1]

    def wants(self, kind):
        return self.is_driven() and isinstance(self.command(), kind)

    # -- the driver

    @precondition(lambda self: self.is_due())
    @rule()
    def claim(self):
        self.begun.clear()
        self.asked.clear()
        self.run.claim()

    @precondition(lambda self: self.wants(Record))
    @rule()
    def record(self):
        self.apply(self.command().change)

    @precondition(lambda self: self.wants(AskModel))
    @rule(reply=REPLIES)
    def reply(self, reply):
        self.model_calls += 1
        self.conclude(Replied(reply, "scripted:test", "scripted"))

    @precondition(lambda self: self.wants(AskModel))
    @rule(error=FAULTS, jitter=JITTER)
    def fault(self, error, jitter):
        self.model_calls += 1
        self.conclude(Faulted(error, None), jitter)

    @precondition(lambda self: self.wants(RunCalls))
    @rule(data=st.data(), result=RESULTS, notes=st.sampled_from([(), (), ("a note",)]))
    def a_call_ends(self, data, result, notes):
        calls = self.command().calls
        self.hand_out(calls)
        call = data.draw(st.sampled_from(calls))
        safe = self.run.workflow.toolbox[call.tool].safe_to_repeat
        kinds = ["ok", "ok", "error"] if safe else ["ok", "ok", "error", "in_doubt"]
        status = CallStatus(data.draw(st.sampled_from(kinds)))
        outcome = success(result) if status is CallStatus.OK else failure("boom", "It failed.")
        self.begun.discard(call.number)
        self.conclude(CallEnded(call.number, status, outcome, notes, 5))

    @precondition(lambda self: self.wants(Reconcile) or (self.asked and self.wants(RunCalls)))
    @rule(data=st.data(), finding=FINDINGS)
    def a_tool_finds_out(self, data, finding):
        command = self.command()
        if isinstance(command, Reconcile):
            self.asked |= {call.number for call in command.calls}
        number = data.draw(st.sampled_from(sorted(self.asked)))
        self.asked.remove(number)
        self.again[number] += isinstance(finding, DidNotHappen)
        self.conclude(Reconciled(number, finding))

    # -- fate

    @rule(seconds=st.sampled_from([0.001, 1, 15, 600, 3600, 7200]))
    def time_passes(self, seconds):
        self.run.now += timedelta(seconds=seconds)

    @precondition(lambda self: self.is_driven())
    @rule(jitter=st.none() | JITTER, inside=st.booleans(), stop=st.sampled_from([0, 0, 0, 1]))
    def the_driver_is_lost(self, jitter, inside, stop):
        command = self.command()
        if inside and isinstance(command, RunCalls):
            self.hand_out(command.calls)
        if inside and isinstance(command, AskModel):
            self.model_calls += 1
        self.remember(command)
        run = self.run
        event("interrupted" if stop else f"lost in {self.row.state}")
        if stop:
            self.apply(interrupt(run.snapshot, "SIGTERM", run.now))
        else:
            self.apply(take_over(run.snapshot, LOST, run.now, POLICY, jitter))

    def remember(self, command):
        """What the lost driver would still like to record, should it wake up."""
        before = copy.deepcopy(self.snapshot)
        if isinstance(command, Record):
            self.stale = before, command.change
        elif isinstance(command, RunCalls):
            outcome = CallEnded(command.calls[0].number, CallStatus.OK, success("late"), (), 5)
            self.stale = (
                before,
                conclude(self.run.workflow, before, outcome, self.run.now, POLICY, 0),
            )

    # -- people

    @precondition(lambda self: self.run.open)
    @rule(data=st.data(), decision=DECISIONS)
    def a_person_decides(self, data, decision):
        run = self.run
        question = data.draw(st.sampled_from(run.open))
        try:
            change = decide_approval(
                run.workflow, run.snapshot, question.number, decision, "ann", run.now
            )
        except (ApprovalClosed, InvalidDecision):
            return
        if question.kind == "in_doubt" and decision.verdict == "approve" and not decision.happened:
            self.again[question.call] += 1
        self.apply(change, driven=False)

    @precondition(lambda self: self.row.state in {"capped", "failed"})
    @rule(turns=st.integers(0, 3), tool_calls=st.integers(0, 3))
    def a_person_resumes(self, turns, tool_calls):
        change = resume(self.snapshot, self.run.now, "ann", turns, tool_calls)
        if change is not None:
            self.apply(change, driven=False)

    @precondition(lambda self: self.row.state not in ENDED and self.row.seq > 6)
    @rule()
    def a_person_cancels(self):
        if self.is_driven():
            self.request_cancel()
        else:
            self.apply(cancel(self.snapshot, "bob", self.run.now), driven=False)

    def request_cancel(self):
        self.snapshot.run = replace(self.row, cancel_requested="bob")

    # -- what always holds

    @invariant()
    def every_transition_is_in_the_table(self):
        for change in self.run.history[self.checked :]:
            before, after = change.before, change.run
            assert TABLE[change.trigger][before.state] == after.state
            assert after.seq == before.seq + 1
            assert after.fence >= before.fence
            assert after.updated_at >= before.updated_at
        self.checked = len(self.run.history)

    @invariant()
    def the_transcript_is_legal(self):
        complete = self.row.state in {"awaiting_model", "summarising"} | ENDED
        assert problems(self.snapshot.transcript, complete=complete) == []

    @invariant()
    def an_end_leaves_nothing_open(self):
        if self.row.state in ENDED:
            assert all(call.status.final for call in self.snapshot.batch.values())
            assert self.run.open == []
            assert self.row.finished_at is not None
        assert (self.row.finished_at is not None) == (self.row.state in ENDED)
        if self.row.state in ENDED:
            assert (self.row.owner, self.row.lease_until, self.row.reserved_turns) == (
                None,
                None,
                0,
            )

    @invariant()
    def a_parked_run_waits_for_somebody(self):
        if self.row.state == "awaiting_approval":
            deadlines = [a.expires_at for a in self.run.open if a.expires_at]
            assert self.run.open
            assert self.row.not_before == min(deadlines, default=None)
            assert not any(call.status == "running" for call in self.snapshot.batch.values())
        else:
            assert self.run.open == []

    @invariant()
    def no_effect_is_repeated_unless_it_is_safe_or_a_person_said_so(self):
        for call in self.snapshot.batch.values():
            safe = self.run.workflow.toolbox.get(call.tool)
            if safe is None or not safe.safe_to_repeat:
                assert self.starts[call.number] <= 1 + self.again[call.number]

    @invariant()
    def what_is_said_not_to_have_run_has_not(self):
        for call in self.snapshot.batch.values():
            kind = ((call.outcome or {}).get("error") or {}).get("type")
            if call.status in {"denied", "waiting"} or (
                call.status == "not_run" and kind != "did_not_happen"
            ):
                assert self.starts[call.number] <= self.again[call.number]

    @invariant()
    def limits_hold(self):
        row = self.row
        assert row.used.turns + row.reserved_turns <= row.max_turns
        assert self.model_calls <= row.used.turns + row.reserved_turns
        assert row.used.tool_calls <= row.max_tool_calls
        assert len(self.starts) <= row.used.tool_calls

    def teardown(self):
        """However it came about, the run can be brought to an end with what is recorded."""
        for _ in range(200):
            if self.row.state in ENDED:
                return
            self.one_good_step()
            self.every_transition_is_in_the_table()
            self.the_transcript_is_legal()
        pytest.fail(f"the run does not end: {self.row}")

    def one_good_step(self):
        if self.run.open and not self.is_driven():
            number = self.run.open[0].number
            decision = Decision(verdict=Verdict.DENY)
            run = self.run
            if self.is_due():  # too late for a person: a driver lets it expire
                self.claim()
                return
            change = decide_approval(run.workflow, run.snapshot, number, decision, "ann", run.now)
            self.apply(change, driven=False)
        elif not self.is_driven():
            self.run.now = max(self.run.now, self.row.not_before or self.run.now)
            self.claim()
        elif isinstance(command := self.command(), Record):
            self.apply(command.change)
        elif isinstance(command, AskModel):
            self.conclude(Replied(Reply("done"), "scripted:test", "scripted"))
        elif isinstance(command, RunCalls):
            outcome = CallEnded(command.calls[0].number, CallStatus.OK, success(None), (), 5)
            self.conclude(outcome)
        elif isinstance(command, Reconcile):
            self.conclude(Reconciled(command.calls[0].number, NotKnown()))
        else:
            self.run.now = command.until


Journey.TestCase.settings = PURE
TestJourney = Journey.TestCase


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory):
    opened = Store(tmp_path_factory.mktemp("journeys") / "runs.db", synchronous="off")
    StoredJourney.store = opened
    yield opened
    opened.close()


class StoredJourney(Journey):
    """The same on a real database: after every transition it alone would give this snapshot."""

    store: Store

    @initialize(
        parallel=st.integers(1, 4),
        max_turns=st.integers(1, 8),
        max_tool_calls=st.integers(1, 12),
        approve=POLICIES,
        always=st.sampled_from([[], [], ["look", "book"]]),
    )
    def begin(self, parallel, always, **options):
        super().begin(parallel, always, **options)
        [first] = self.run.history
        begun = self.store.begin(replace(first, run=replace(first.run, id=str(ULID()))))
        self.run.snapshot.run = begun
        self.claim()

    def apply(self, change, *, driven=True):
        self.store.record(self.snapshot, change, driven=driven)
        self.run.history.append(change)

    def request_cancel(self):
        assert self.store.request_cancel(self.row.number, "bob")
        super().request_cancel()

    @precondition(lambda self: self.is_due())
    @rule()
    def claim(self):
        self.begun.clear()
        self.asked.clear()
        until = self.run.now + timedelta(seconds=30)
        claimed = self.store.claim(["w"], self.run.now, until, self.row.number)
        assert claimed is not None
        assert claimed.run == replace(
            self.row, owner=claimed.run.owner, lease_until=until, fence=self.row.fence + 1
        )
        self.run.snapshot = claimed

    @precondition(lambda self: not self.is_due() and not self.is_driven())
    @rule()
    def nobody_else_may_claim_it(self):
        until = self.run.now + timedelta(seconds=30)
        assert self.store.claim(["w"], self.run.now, until, self.row.number) is None

    @precondition(lambda self: self.stale is not None)
    @rule()
    def a_late_writer_changes_nothing(self):
        snapshot, change = self.stale
        self.stale = None
        with pytest.raises(LeaseLost):
            self.store.record(snapshot, change)

    @invariant()
    def the_database_tells_the_same_story(self):
        assert told(self.store.load(self.row.number)) == told(self.snapshot)


def told(snapshot):
    """All of a snapshot but the uncut results, which nothing depends on."""
    batch = {n: replace(call, full_result=None) for n, call in snapshot.batch.items()}
    return {
        "run": snapshot.run,
        "transcript": snapshot.transcript,
        "batch": list(batch.items()),
        "approvals": list(snapshot.approvals.items()),
        "blanket": snapshot.blanket,
        "notes": snapshot.notes,
        "ids": snapshot.ids,
        "counts": (snapshot.messages, snapshot.calls, snapshot.questions, snapshot.replies),
        "closed": snapshot._closed,
    }


StoredJourney.TestCase.settings = STORED
TestStoredJourney = StoredJourney.TestCase
