"""A run in memory, taken step by step: changes are applied as the store does it, without a store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from stepwell.envelope import success
from stepwell.errors import ProviderError
from stepwell.machine import CallStatus, State
from stepwell.messages import Reply
from stepwell.retry import RetryPolicy
from stepwell.rules.approval import Decision, Verdict, decide_approval
from stepwell.rules.change import Change
from stepwell.rules.decide import (
    CallEnded,
    Command,
    Faulted,
    Outcome,
    Record,
    Replied,
    conclude,
    decide,
)
from stepwell.rules.recovery import resume, take_over
from stepwell.rules.starting import Start, start
from stepwell.state.circumstances import CallTerms, Circumstances, Today
from stepwell.state.records import Approval, Call, Fault, RunLimits
from stepwell.state.snapshot import Snapshot
from stepwell.tools import tool
from stepwell.workflow import Agent, Workflow

NOW = datetime(2027, 3, 14, 12, tzinfo=UTC)
ID = "01KPXG3SB0QRSTVWXYZ0123456"
POLICY = RetryPolicy()
LOST = Fault(type="worker_lost", message="The process is gone.")


@tool(read_only=True)
def look(q: str) -> str:
    """Read something: safe to repeat."""
    return f"about {q}"


@tool(idempotent=True)
def put(key: str, value: int = 0) -> str:
    """Write something under a key: safe to repeat."""
    return f"{key}={value}"


@tool
def pay(amount: int) -> str:
    """Pay: not safe to repeat."""
    return f"paid {amount}"


@tool(requires_approval=True)
def wire(amount: int) -> str:
    """Pay, when a person agrees."""
    return f"wired {amount}"


@tool(requires_approval=lambda row: row > 100)
def delete(row: int) -> str:
    """Delete; a person is asked where the row is above 100."""
    return f"deleted {row}"


KIT = (look, put, pay, wire, delete)


def agent(**options: Any) -> Agent:
    """A workflow with the tools above."""
    return Agent("w", **{"tools": KIT} | options)


def a_start(id_: str, text: str, **options: Any) -> Start:
    """What a run is made of; limits are options like any other."""
    limits = {name: options.pop(name) for name in RunLimits._fields if name in options}
    return Start(id=id_, input=text, limits=limits, **options)


class InMemory:
    """One run of `workflow`, claimed by a driver that a test plays itself."""

    def __init__(
        self,
        workflow: Workflow,
        text: str = "Go on.",
        terms: CallTerms | None = None,
        **options: Any,
    ) -> None:
        self.workflow, self.terms = workflow, terms
        self.now = NOW
        self.today: Today | None = None
        self.stopping = False
        self.driven_since: datetime | None = None
        self.history: list[Change] = []
        self.snapshot = Snapshot(run=None)  # type: ignore[arg-type]
        self.apply(start(workflow, a_start(ID, text, **options), NOW))
        self.claim()

    @property
    def given(self) -> Circumstances:
        """What its driver knows beside the run; one that is let go of has none."""
        driven = self.driven_since is not None
        return Circumstances(
            now=self.now,
            stopping=self.stopping,
            driven_since=self.driven_since,
            terms=self.terms if driven else None,
            today=self.today,
            policy=POLICY,
        )

    @property
    def tokens(self) -> int:
        """What a request for the next reply takes."""
        return self.snapshot.shown.tokens(self.given.overhead)

    @property
    def run(self) -> Any:
        return self.snapshot.run

    @property
    def state(self) -> State:
        return self.snapshot.run.state

    @property
    def calls(self) -> list[Call]:
        """The last reply's calls, in the order asked."""
        return list(self.snapshot.batch.values())

    @property
    def statuses(self) -> list[str]:
        return [call.status.value for call in self.calls]

    @property
    def open(self) -> list[Approval]:
        """The questions that wait for a person."""
        return [a for a in self.snapshot.approvals.values() if a.status.value == "pending"]

    def error(self, number: int) -> tuple[str, str, str]:
        """Type, message and hint of the error that answers call `number`."""
        outcome = self.snapshot.batch[number].outcome
        assert outcome is not None
        assert outcome["ok"] is False
        error = outcome["error"]
        return error["type"], error["message"], error["hint"]

    def apply(self, change: Change) -> Change:
        """What `Store.record` does to a snapshot."""
        self.snapshot.run = change.run
        change.apply(self.snapshot)
        left = [e for e in self.snapshot.inbox if e.number not in change.delivered]
        self.snapshot.inbox = tuple(left)
        self.history.append(change)
        return change

    def claim(self) -> None:
        """Another driver has the run from here on."""
        until = self.now + timedelta(seconds=30)
        fence = self.run.fence + 1
        self.snapshot.run = self.run._replace(
            owner=fence, lease_until=until, claimed_at=self.now, fence=fence
        )
        self.driven_since = self.now

    def crash(self) -> Change:
        """The driver's process is gone: the run is taken over, and claimed if it is still live."""
        self._let_go()
        lost = self.apply(take_over(self.snapshot, LOST, self.given))
        if self.state is not State.FAILED:
            self.claim()
        return lost

    def _let_go(self) -> None:
        """Whoever changes the run from outside knows nothing of models."""
        self.driven_since = None

    def conclude(self, outcome: Outcome, jitter: float = 0.5) -> Change:
        return self.apply(
            conclude(self.workflow, self.snapshot, outcome, replace(self.given, jitter=jitter))
        )

    def says(self, reply: Reply) -> Change:
        """The model's next reply."""
        return self.conclude(Replied(reply, "scripted:test", "scripted"))

    def asks(self, *calls: Any) -> Change:
        """The model's next reply asks for these tools."""
        return self.says(Reply(calls=calls))

    def faults(self, *, jitter: float = 0.5, **options: Any) -> Change:
        """The next model call fails."""
        error = ProviderError("It failed.", **options)
        return self.conclude(Faulted(error, "scripted:test"), jitter)

    def ends(
        self, number: int, result: Any = None, *, error: dict[str, Any] | None = None
    ) -> Change:
        """The tool of call `number` returns `result`, or fails."""
        status = CallStatus.ERROR if error else CallStatus.OK
        return self.conclude(CallEnded(number, status, error or success(result), (), 7))

    def times_out(self, number: int) -> Change:
        """Nobody knows what became of call `number`."""
        return self.conclude(CallEnded(number, CallStatus.IN_DOUBT, {}, (), 30_000))

    def command(self) -> Command:
        return decide(self.workflow, self.snapshot, self.given)

    def settle(self) -> Command:
        """Record whatever needs no effect; the first command that is something else."""
        while isinstance(command := self.command(), Record):
            self.apply(command.change)
        return command

    def decide(self, number: int, answer: Decision, by: str = "ann") -> Change:
        return self.apply(
            decide_approval(self.workflow, self.snapshot, number, answer, by, self.given)
        )

    def approve(self, number: int, **options: Any) -> Change:
        return self.decide(number, Decision(verdict=Verdict.APPROVE, **options))

    def deny(self, number: int, reason: str | None = None) -> Change:
        return self.decide(number, Decision(verdict=Verdict.DENY, reason=reason))

    def resume(self, **raises: Any) -> Change | None:
        """A person's `resume`; the run is claimed again if it was not driven."""
        self._let_go()
        found = resume(self.snapshot, self.given, "ann", raises)  # type: ignore[arg-type]
        if found is None:
            return None
        self.apply(found)
        if self.run.owner is None:
            self.claim()
        return found
