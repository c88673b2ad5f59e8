"""The state machine as data, and the one shared Machine that enforces it."""

from enum import StrEnum
from functools import cache

from transitions import Machine

from stepwell.errors import IllegalTransition


class State(StrEnum):
    """A run's state. One exists only if a worker must treat it differently."""

    AWAITING_MODEL = "awaiting_model"
    SUMMARISING = "summarising"
    DISPATCHING = "dispatching"
    AWAITING_APPROVAL = "awaiting_approval"
    DONE = "done"
    CAPPED = "capped"
    FAILED = "failed"
    CANCELLED = "cancelled"


LIVE = (State.AWAITING_MODEL, State.SUMMARISING, State.DISPATCHING, State.AWAITING_APPROVAL)


class Trigger(StrEnum):
    """Why a run changed."""

    START = "start"
    FORK = "fork"
    REQUEST_TOOLS = "request_tools"
    ANSWER = "answer"
    CONTINUE_TURN = "continue_turn"
    OVERFLOW = "overflow"
    SUMMARISED = "summarised"
    SUMMARY_SKIPPED = "summary_skipped"
    START_CALLS = "start_calls"
    CALL_FINISHED = "call_finished"
    RESULTS_READY = "results_ready"
    ASK = "ask"
    DECISION = "decision"
    DECIDED = "decided"
    DELIVER = "deliver"
    RESERVE = "reserve"
    RETRY = "retry"
    CAP = "cap"
    FAIL = "fail"
    CANCEL = "cancel"
    TOP_UP = "top_up"
    RESUME = "resume"
    FOLLOW_UP = "follow_up"


class CallStatus(StrEnum):
    """How far one tool call has come. The last five are final."""

    WAITING = "waiting"
    RUNNING = "running"
    IN_DOUBT = "in_doubt"
    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    NOT_RUN = "not_run"
    UNKNOWN = "unknown"

    @property
    def final(self) -> bool:
        """Whether the model can be shown a result."""
        return self not in {CallStatus.WAITING, CallStatus.RUNNING, CallStatus.IN_DOUBT}


class Recovery(StrEnum):
    """How a call whose outcome was lost is recovered, by its tool's declaration; careful first."""

    ASK = "ask"
    RECONCILE = "reconcile"
    REPEAT = "repeat"


def more_careful(*declared: Recovery | None) -> Recovery:
    """The more careful of two declarations; without any, a person is asked."""
    known = {one for one in declared if one is not None}
    return next((one for one in Recovery if one in known), Recovery.ASK)


# (trigger, sources, destination); None as destination means: the state stays.
TRANSITIONS: tuple[tuple[Trigger, tuple[State, ...], State | None], ...] = (
    (Trigger.REQUEST_TOOLS, (State.AWAITING_MODEL,), State.DISPATCHING),
    (Trigger.ANSWER, (State.AWAITING_MODEL,), State.DONE),
    (Trigger.CONTINUE_TURN, (State.AWAITING_MODEL,), State.AWAITING_MODEL),
    (Trigger.OVERFLOW, (State.AWAITING_MODEL,), State.SUMMARISING),
    (Trigger.SUMMARISED, (State.SUMMARISING,), State.AWAITING_MODEL),
    (Trigger.SUMMARY_SKIPPED, (State.SUMMARISING,), State.AWAITING_MODEL),
    (Trigger.START_CALLS, (State.DISPATCHING,), State.DISPATCHING),
    (Trigger.CALL_FINISHED, (State.DISPATCHING,), State.DISPATCHING),
    (Trigger.RESULTS_READY, (State.DISPATCHING,), State.AWAITING_MODEL),
    (Trigger.ASK, (State.DISPATCHING,), State.AWAITING_APPROVAL),
    (Trigger.DECISION, (State.AWAITING_APPROVAL,), State.AWAITING_APPROVAL),
    (Trigger.DECIDED, (State.AWAITING_APPROVAL,), State.DISPATCHING),
    (Trigger.DELIVER, (State.AWAITING_MODEL,), State.AWAITING_MODEL),
    (Trigger.RESERVE, (State.AWAITING_MODEL, State.SUMMARISING), None),
    (Trigger.RETRY, (State.AWAITING_MODEL, State.SUMMARISING, State.DISPATCHING), None),
    (Trigger.CAP, LIVE, State.CAPPED),
    (Trigger.FAIL, LIVE, State.FAILED),
    (Trigger.CANCEL, LIVE, State.CANCELLED),
    (Trigger.TOP_UP, (State.CAPPED,), State.AWAITING_MODEL),
    (Trigger.RESUME, (State.FAILED,), State.AWAITING_MODEL),
    (Trigger.FOLLOW_UP, (State.DONE,), State.AWAITING_MODEL),
)

INITIAL = State.AWAITING_MODEL
# How a run begins. A fork continues from a point of another run, without any call in progress.
BEGINNINGS: tuple[tuple[Trigger, tuple[State, ...]], ...] = (
    (Trigger.START, (INITIAL,)),
    (Trigger.FORK, (State.AWAITING_MODEL, State.DISPATCHING, State.AWAITING_APPROVAL)),
)

# Only these leave the count of attempts as it was: none moves a run forward by itself.
KEEPS_ATTEMPT = frozenset(
    {
        Trigger.RETRY,
        Trigger.START_CALLS,
        Trigger.OVERFLOW,
        Trigger.SUMMARISED,
        Trigger.SUMMARY_SKIPPED,
        Trigger.DELIVER,
        Trigger.RESERVE,
        Trigger.FAIL,
        Trigger.CAP,
        Trigger.CANCEL,
    }
)

_MACHINE = Machine(
    model=None,
    states=State,
    transitions=[
        [trigger.value, source, destination or source]
        for trigger, sources, destination in TRANSITIONS
        for source in sources
    ],
    initial=INITIAL,
    auto_transitions=False,
    send_event=True,
)


@cache  # the table never changes, and the Machine's answer costs 15 µs
def destination(source: State | None, trigger: Trigger) -> State:
    """The state that `trigger` leads to.

    Raises:
        IllegalTransition: the table has no such row.
    """
    if source is None and trigger is Trigger.START:
        return INITIAL
    # Asked, not triggered: the Machine would log every step of a trigger.
    found = _MACHINE.get_transitions(trigger.value, source) if source in list(State) else ()
    if not found:
        raise IllegalTransition(f"No transition {trigger} leads out of {source}.")
    return State[str(found[0].dest)]


def mermaid() -> str:
    """The state machine as a Mermaid diagram, drawn from the same data."""
    labels: dict[tuple[str, State], list[str]] = {}
    for trigger, goals in BEGINNINGS:
        for state in goals:
            labels.setdefault(("[*]", state), []).append(trigger.value)
    for trigger, sources, goal in TRANSITIONS:
        for source in sources:
            labels.setdefault((source, goal or source), []).append(trigger.value)
    rows = [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in labels.items()]
    rows += [f"    {state} --> [*]" for state in State if state not in LIVE]
    return "\n".join(["stateDiagram-v2", *rows])
