"""A run in a real store, taken step by step by a driver that the test plays itself."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from ulid import ULID

from stepwell import Agent, Decision, Verdict, clock, tool
from stepwell.envelope import success
from stepwell.machine import CallStatus
from stepwell.messages import Reply
from stepwell.retry import RetryPolicy
from stepwell.rules.approval import decide_approval
from stepwell.rules.change import Change
from stepwell.rules.decide import CallEnded, Outcome, Record, Replied, conclude, decide
from stepwell.rules.starting import start
from stepwell.state.circumstances import Circumstances
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store
from tests.in_memory import a_start

POLICY = RetryPolicy()


@tool(read_only=True)
def look(q: str) -> str:
    """Read something."""
    return q


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(requires_approval=True)
def wire(amount: int) -> str:
    """Pay, when a person agrees."""
    return f"wired {amount}"


WORKFLOW = Agent("w", tools=[look, pay, wire])


class Stepping:
    """One run, begun and claimed in `store`."""

    def __init__(self, store: Store, text: str = "Hello", **options: Any) -> None:
        self.store = store
        new = a_start(str(ULID()), text, **options)
        self.number = store.begin(start(WORKFLOW, new, clock.now())).run.number
        self.snapshot = self.claim()

    def claim(self) -> Snapshot:
        now = clock.now()
        claimed = self.store.claim(["w"], now, now + timedelta(seconds=30), self.number)
        assert claimed is not None
        return claimed

    def concluded(self, outcome: Outcome) -> Change:
        """What an outcome would change."""
        return conclude(
            WORKFLOW,
            self.snapshot,
            outcome,
            Circumstances(now=clock.now(), policy=POLICY, jitter=0.5),
        )

    def replied(self, *calls: Any, text: str = "", **options: Any) -> Change:
        reply = Reply(text, calls, **options)
        return self.concluded(Replied(reply, "scripted:test", "scripted"))

    def ended(self, number: int, result: Any = "done", *notes: str) -> Change:
        return self.concluded(CallEnded(number, CallStatus.OK, success(result), notes, 7))

    def answered(self, question: int, verdict: Verdict, by: str, **more: Any) -> Change:
        answer = Decision(verdict=verdict, **more)
        return decide_approval(
            WORKFLOW, self.snapshot, question, answer, by, Circumstances(now=clock.now())
        )

    def record(self, change: Change, **options: Any) -> None:
        self.store.record(self.snapshot, change, **options)

    def settle(self) -> None:
        """Record what follows from what is recorded, until there is something to do."""
        while isinstance(
            command := decide(WORKFLOW, self.snapshot, Circumstances(now=clock.now())), Record
        ):
            self.record(command.change)

    def copy(self) -> Snapshot:
        """The run as another one would have loaded it now."""
        return replace(self.store.load(self.number))
