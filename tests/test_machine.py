"""The state machine: every trigger in every state, against DESIGN.md's table typed once more."""

import re
from pathlib import Path

import pytest

from stepwell.errors import IllegalTransition
from stepwell.machine import BEGINNINGS, LIVE, CallStatus, State, Trigger, destination, mermaid

LIVE_STATES = {"awaiting_model", "summarising", "dispatching", "awaiting_approval"}
ENDED = {"done", "capped", "failed", "cancelled"}

# trigger: {source: destination}; anything that is not here must be refused.
TABLE: dict[str, dict[str | None, str]] = {
    "start": {None: "awaiting_model"},
    "fork": {},  # begins a run in one of several states: see below
    "request_tools": {"awaiting_model": "dispatching"},
    "answer": {"awaiting_model": "done"},
    "continue_turn": {"awaiting_model": "awaiting_model"},
    "overflow": {"awaiting_model": "summarising"},
    "summarised": {"summarising": "awaiting_model"},
    "summary_skipped": {"summarising": "awaiting_model"},
    "start_calls": {"dispatching": "dispatching"},
    "call_finished": {"dispatching": "dispatching"},
    "results_ready": {"dispatching": "awaiting_model"},
    "ask": {"dispatching": "awaiting_approval"},
    "decision": {"awaiting_approval": "awaiting_approval"},
    "decided": {"awaiting_approval": "dispatching"},
    "deliver": {"awaiting_model": "awaiting_model"},
    "reserve": {"awaiting_model": "awaiting_model", "summarising": "summarising"},
    "retry": {
        "awaiting_model": "awaiting_model",
        "summarising": "summarising",
        "dispatching": "dispatching",
    },
    "cap": dict.fromkeys(LIVE_STATES, "capped"),
    "fail": dict.fromkeys(LIVE_STATES, "failed"),
    "cancel": dict.fromkeys(LIVE_STATES, "cancelled"),
    "top_up": {"capped": "awaiting_model"},
    "resume": {"failed": "awaiting_model"},
    "follow_up": {"done": "awaiting_model"},
}


def test_the_words_are_those_of_the_design() -> None:
    assert {state.value for state in State} == LIVE_STATES | ENDED
    assert {state.value for state in LIVE} == LIVE_STATES
    assert {trigger.value for trigger in Trigger} == set(TABLE)


@pytest.mark.parametrize("source", [None, *sorted(LIVE_STATES | ENDED)])
@pytest.mark.parametrize("trigger", TABLE)
def test_the_full_matrix(trigger: str, source: str | None) -> None:
    state = None if source is None else State(source)
    expected = TABLE[trigger].get(source)
    if expected is None:
        with pytest.raises(IllegalTransition, match=f"{trigger} leads out of {source}"):
            destination(state, Trigger(trigger))
    else:
        assert destination(state, Trigger(trigger)) == State(expected)


def test_a_run_begins_by_a_start_or_as_a_fork_of_another() -> None:
    live = {"awaiting_model", "dispatching", "awaiting_approval"}
    found = {trigger.value: {state.value for state in goals} for trigger, goals in BEGINNINGS}
    assert found == {"start": {"awaiting_model"}, "fork": live}


def test_five_statuses_of_a_call_are_final() -> None:
    final = {status.value for status in CallStatus if status.final}
    assert final == {"ok", "error", "denied", "not_run", "unknown"}
    assert {status.value for status in CallStatus} - final == {"waiting", "running", "in_doubt"}


def drawn(diagram: str) -> set[tuple[str, str, str]]:
    """(source, trigger, destination) of every arrow between two states."""
    arrows = re.findall(r"^ *([\w\[*\]]+) --> (\w+): (.+)$", diagram, re.MULTILINE)
    return {(a, name, b) for a, b, names in arrows for name in names.split(", ")}


def test_the_diagram_draws_exactly_the_table() -> None:
    rows = {(a or "[*]", name, b) for name, row in TABLE.items() for a, b in row.items()}
    rows |= {("[*]", "fork", b) for b in LIVE_STATES - {"summarising"}}
    diagram = mermaid()
    assert diagram.startswith("stateDiagram-v2\n")
    assert drawn(diagram) == rows
    assert set(re.findall(r"(\w+) --> \[\*\]", diagram)) == ENDED


def test_the_diagram_in_the_manual_is_fresh() -> None:
    manual = (Path(__file__).parents[1] / "docs" / "states.md").read_text(encoding="utf-8")
    pattern = r"<!-- states:begin -->\s*```mermaid\n(.*?)\n```\s*<!-- states:end -->"
    [diagram] = re.findall(pattern, manual, re.DOTALL)
    assert diagram == mermaid()
