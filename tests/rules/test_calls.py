"""The life of a batch of calls, from the request to its results (A01, A03, B01, B14, C08, E04, E08)."""

import json
from typing import Any

import pytest

from stepwell import Reply, ToolCall, tool
from stepwell.envelope import failure
from stepwell.machine import CallStatus
from stepwell.messages import AssistantMessage, ToolMessage
from stepwell.rules.decide import RunCalls, Wait
from stepwell.state.records import Call
from stepwell.state.transcript import problems
from tests.in_memory import InMemory, agent
from tests.narrowing import expect, present

PAY, WIRE = ("pay", {"amount": 1}), ("wire", {"amount": 1})


def shown(run: InMemory) -> list[tuple[str, dict[Any, Any]]]:
    """What the model reads as results: id, JSON."""
    return [
        (m.call, json.loads(m.text)) for m in run.snapshot.transcript if isinstance(m, ToolMessage)
    ]


# -- the request


def test_the_first_parallel_calls_start_with_the_request_itself() -> None:
    run = InMemory(agent(parallel=2))
    asked = run.asks(PAY, WIRE, PAY, PAY)
    assert (asked.trigger, run.state) == ("request_tools", "dispatching")
    assert run.statuses == ["running", "waiting", "running", "waiting"]
    assert [(c.started_seq, c.fence) for c in run.calls] == [(2, 1), (None, None)] * 2
    assert [c.number for c in run.calls] == [1, 2, 3, 4]
    assert run.run.used.tool_calls == 4


def test_numbers_go_on_over_batches() -> None:
    run = InMemory(agent())
    run.asks(PAY, PAY)
    run.ends(1)
    run.ends(2)
    run.asks(PAY)
    assert [(c.number, c.requested_seq) for c in run.calls] == [(3, 5)]


@tool(read_only=True)
def now() -> str:
    """Tell the time."""
    return "noon"


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize("arguments", ["", " ", None, "null", "{}", {}])
def test_b01_no_arguments_at_all(arguments: Any) -> None:
    run = InMemory(agent(tools=[now, add]))
    run.asks(("now", arguments), ("add", arguments))
    assert run.statuses == ["running", "error"]
    assert run.calls[0].arguments == {}
    kind, message, _ = run.error(2)
    assert kind == "invalid_arguments"
    assert "'a' is missing" in message
    assert "'b' is missing" in message


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{"amount": 5}', {"amount": 5}),
        ('"{\\"amount\\": 5}"', {"amount": 5}),  # B02
        ({"amount": "5"}, {"amount": "5"}),  # B03: refused, not converted
        ('{"amount": 5', '{"amount": 5'),
        ('{"amount": 1, "amount": 2}', '{"amount": 1, "amount": 2}'),  # B13
        ('{"amount": NaN}', '{"amount": NaN}'),
        ([5], "[5]"),
    ],
)
def test_arguments_are_kept_parsed_or_else_as_they_came(arguments: Any, kept: Any) -> None:
    run = InMemory(agent())
    run.asks(("pay", arguments))
    assert run.calls[0].arguments == kept
    valid = kept == {"amount": 5}
    assert run.statuses == ["running" if valid else "error"]
    assert valid or run.error(1)[0] == "invalid_arguments"


def test_an_invalid_call_is_answered_at_once_and_nobody_is_asked_about_it() -> None:
    run = InMemory(agent())
    run.asks(("wire", {"amount": "all"}), ("wire", "{"), ("wier", {"amount": 1}))
    assert run.statuses == ["error", "error", "error"]
    run.settle()
    assert run.state == "awaiting_model"
    assert len(shown(run)) == 3


@pytest.mark.parametrize("name", ["get_wether", 'add" />', "", "Pay", "functions.pay", "pay\0"])
def test_e08_a_tool_that_does_not_exist(name: str) -> None:
    run = InMemory(agent())
    run.asks((name, "{not json"), PAY)
    kind, message, hint = run.error(1)
    assert kind == "unknown_tool"
    assert message.startswith("There is no tool ")
    assert "Available: delete, look, pay, put, wire." in hint
    assert run.statuses == ["error", "running"]


@pytest.mark.parametrize(("name", "guess"), [("Pay", "pay"), ("wier", "wire")])
def test_e08_the_nearest_name_is_named(name: str, guess: str) -> None:
    run = InMemory(agent())
    run.asks((name, {}))
    assert f"Did you mean {guess}?" in run.error(1)[2]


# -- ids (E04)


@pytest.mark.parametrize(
    "batches",
    [
        [["", ""]],
        [["k", "k"]],
        [["k"], ["k"], ["k"]],
        [["call_2", ""]],
        [["call_2"], ["call_2"], ["call_2"]],
        [["", "call_1"], ["call_1", "call_3", ""]],
        [["call_3", "call_3", "call_3"], ["call_4", "", "call_5"]],
    ],
)
def test_e04_missing_or_repeated_ids_are_made_up_so_that_every_result_finds_its_call(
    batches: list[list[str]],
) -> None:
    run = InMemory(agent(parallel=9))
    for ids in batches:
        run.asks(*(ToolCall("pay", {"amount": n}, id_) for n, id_ in enumerate(ids)))
        for call in run.calls:
            run.ends(call.number, call.arguments["amount"])
    assert problems(run.snapshot.transcript) == []
    amounts = [amount for ids in batches for amount in range(len(ids))]
    assert [outcome["result"] for _, outcome in shown(run)] == amounts


def test_the_provider_s_own_id_is_kept() -> None:
    run = InMemory(agent())
    run.asks(ToolCall("pay", {"amount": 1}, "toolu_01"))
    run.ends(1)
    assert shown(run)[0][0] == "toolu_01"


# -- outcomes


def test_a_finished_call_gives_its_slot_to_the_next_in_the_same_transition() -> None:
    run = InMemory(agent(parallel=1))
    run.asks(PAY, PAY, PAY)
    done = run.ends(1)
    assert (done.trigger, [c.number for c in done.calls]) == ("call_finished", [1, 2])
    assert run.statuses == ["ok", "running", "waiting"]


def test_no_more_than_parallel_run_at_once() -> None:
    run = InMemory(agent(parallel=2))
    run.asks(*[PAY] * 5)
    run.ends(2)
    assert run.statuses == ["running", "ok", "running", "waiting", "waiting"]


def test_a_neighbour_that_needs_a_person_does_not_hold_up_the_others() -> None:
    run = InMemory(agent(parallel=1))
    run.asks(WIRE, PAY, PAY)
    run.ends(2)
    run.ends(3)
    assert expect(Wait, run.settle()).until == run.open[0].expires_at
    assert run.statuses == ["waiting", "ok", "ok"]


def test_a03_one_failure_never_hurts_its_neighbours_and_results_come_in_the_order_asked() -> None:
    run = InMemory(agent())
    run.asks(
        *(ToolCall("look", {"q": q}, id_) for q, id_ in [("a", "p1"), ("boom", "p2"), ("b", "p3")])
    )
    run.ends(3, "B")
    run.ends(2, error=failure("PermissionError", "403"))
    assert shown(run) == []
    last = run.ends(1, "A")
    assert last.trigger == "results_ready"
    assert shown(run) == [
        ("p1", {"ok": True, "result": "A"}),
        ("p2", failure("PermissionError", "403")),
        ("p3", {"ok": True, "result": "B"}),
    ]
    assert [m.error for m in run.snapshot.transcript if isinstance(m, ToolMessage)] == [
        False,
        True,
        False,
    ]


def test_an_outcome_says_how_long_it_took_and_which_transition_it_came_with() -> None:
    run = InMemory(agent())
    run.asks(PAY)
    run.ends(1)
    assert (run.calls[0].finished_seq, run.calls[0].ms) == (3, 7)


@pytest.mark.parametrize(
    "text",
    ["[execution interrupted - user stop]", '{"ok":false,"error":{"type":"max_tool_calls"}}'],
)
def test_a15_what_a_result_says_never_decides_what_became_of_the_call(text: str) -> None:
    run = InMemory(agent())
    run.asks(PAY)
    run.ends(1, text)
    assert (run.state, run.statuses) == ("awaiting_model", ["ok"])
    assert shown(run) == [("call_1", {"ok": True, "result": text})]


def test_a15_a_tool_s_own_error_type_does_not_cap_the_run() -> None:
    run = InMemory(agent())
    run.asks(PAY)
    run.ends(1, error=failure("max_tool_calls", "The tool's own."))
    assert run.state == "awaiting_model"


def test_b14_a_big_result_is_cut_with_a_note_and_kept_whole_beside_it() -> None:
    run = InMemory(agent())
    run.asks(PAY)
    run.ends(1, "x" * 6_000_000)
    [call] = run.calls
    assert present(call.outcome)["truncated"] == {"shown": 20_000, "total": 6_000_000}
    assert present(call.outcome)["result"].endswith("[5,980,000 of 6,000,000 characters left out]")
    assert call.full_result == "x" * 6_000_000
    assert len(shown(run)[0][1]["result"]) < 20_100


def test_b14_a_batch_is_bounded_as_a_whole() -> None:
    @tool(max_result=500_000)
    def big() -> str:
        """Return a lot."""
        return ""

    run = InMemory(agent(tools=[big], parallel=20))
    run.asks(*[("big", {})] * 20)
    for number in range(1, 21):
        run.ends(number, "y" * 200_000)
    sizes = [len(json.dumps(outcome)) for _, outcome in shown(run)]
    # the first takes all 100,000, each later one the least there is: 500 and a note
    assert sizes[0] < 100_300
    assert max(sizes[1:]) < 700
    assert run.calls[19].full_result == "y" * 200_000


def test_a_small_result_is_not_cut() -> None:
    run = InMemory(agent())
    run.asks(PAY)
    run.ends(1, "x" * 20_000)
    assert (run.calls[0].full_result, "truncated" in present(run.calls[0].outcome)) == (None, False)


# -- limits


def test_calls_beyond_the_limit_are_not_run_and_the_run_is_capped_when_the_others_have_ended() -> (
    None
):
    run = InMemory(agent(), max_tool_calls=2)
    run.asks(PAY, PAY, PAY)
    assert run.statuses == ["running", "running", "not_run"]
    assert run.run.used.tool_calls == 2
    run.ends(2)
    last = run.ends(1)
    assert (last.trigger, run.state) == ("cap", "capped")
    assert "2 tool calls (max_tool_calls)" in run.run.answer
    assert run.error(3)[0] == "max_tool_calls"
    assert problems(run.snapshot.transcript) == []


def test_a_limit_that_was_reached_before_caps_without_running_anything() -> None:
    run = InMemory(agent(), max_tool_calls=0)
    run.asks(PAY)
    assert (run.statuses, run.run.used.tool_calls) == (["not_run"], 0)
    run.settle()
    assert run.state == "capped"


def test_topped_up_it_goes_on_and_the_next_batch_is_measured_by_the_new_limit() -> None:
    run = InMemory(agent(), max_tool_calls=1)
    run.asks(PAY, PAY)
    run.ends(1)
    run.resume(max_tool_calls=1)
    run.claim()
    run.asks(PAY)
    assert run.statuses == ["running"]
    run.ends(3)
    run.says(Reply("done"))
    assert (run.state, run.run.used.tool_calls) == ("done", 2)


def test_an_invalid_call_counts_too() -> None:
    run = InMemory(agent(), max_tool_calls=1)
    run.asks(("nothing", {}))
    run.settle()
    run.asks(PAY)
    run.settle()
    assert run.state == "capped"


def test_a_question_is_answered_before_the_limit_caps_the_run() -> None:
    run = InMemory(agent(), max_tool_calls=1)
    run.asks(WIRE, WIRE)
    run.settle()
    assert (run.state, run.statuses) == ("awaiting_approval", ["waiting", "not_run"])
    run.deny(1)
    run.settle()
    assert run.state == "capped"


# -- a lost process (A01, C01, C21)


def test_a01_after_a_crash_the_recorded_result_is_used_and_only_safe_calls_repeat() -> None:
    run = InMemory(agent())
    run.asks(("look", {"q": "a"}), PAY, ("put", {"key": "k"}), ("look", {"q": "b"}))
    run.ends(4, "recorded")
    run.crash()
    run.settle()
    assert run.statuses == ["running", "running", "running", "ok"]
    command = run.command()
    assert isinstance(command, RunCalls)
    assert [c.number for c in command.calls] == [1, 3]  # pay, call 2, is nobody's any more
    run.ends(1, "again")
    run.ends(3, "again")
    run.settle()
    assert run.statuses == ["ok", "in_doubt", "ok", "ok"]
    assert [(a.call, a.kind) for a in run.open] == [(2, "in_doubt")]


def test_a_safe_call_repeats_with_the_same_number_and_so_the_same_key() -> None:
    run = InMemory(agent())
    run.asks(("put", {"key": "k"}))
    first = run.calls[0]
    run.crash()
    run.settle()
    again = run.calls[0]
    assert (again.number, again.status, again.requested_seq) == (1, "running", first.requested_seq)
    assert (first.fence, again.fence) == (1, 3)


def without(run: InMemory, *names: str) -> None:
    """The same run under a newer version of the code."""
    run.workflow = agent(tools=[t for t in run.workflow.tools if t.name not in names])


def test_c21_a_waiting_call_of_a_removed_tool_is_answered_never_dropped() -> None:
    run = InMemory(agent(parallel=1))
    run.asks(PAY, ("look", {"q": "a"}))
    run.crash()
    without(run, "look")
    run.settle()
    assert run.error(2)[0] == "unknown_tool"
    assert "look" in run.error(2)[1]


def test_c21_a_started_call_of_a_removed_tool_is_in_doubt() -> None:
    run = InMemory(agent())
    run.asks(("look", {"q": "a"}))
    run.crash()
    without(run, "look")
    run.settle()
    assert run.statuses == ["in_doubt"]


def test_c21_results_are_found_by_call_whatever_order_they_came_in() -> None:
    run = InMemory(agent())
    run.asks(*(ToolCall("look", {"q": q}, q) for q in ("a", "b", "c")))
    run.ends(3, "C")
    run.ends(1, "A")
    run.crash()
    run.settle()
    run.ends(2, "B")
    assert [(id_, o["result"]) for id_, o in shown(run)] == [("a", "A"), ("b", "B"), ("c", "C")]


# -- what the model is shown of its own calls


def test_the_transcript_shows_each_call_as_the_model_asked_for_it() -> None:
    run = InMemory(agent())
    run.says(Reply("Wait.", calls=[ToolCall("pay", '{"amount": 1}', "x")], reasoning="Hm."))
    message = run.snapshot.transcript[-1]
    assert message == AssistantMessage("Wait.", "Hm.", (ToolCall("pay", {"amount": 1}, "x"),))


def test_the_effective_arguments_are_the_edited_ones() -> None:
    call = Call(
        number=1,
        provider_id="x",
        tool="pay",
        arguments={"amount": 1},
        status=CallStatus.WAITING,
        requested_seq=2,
    )
    assert call.effective == {"amount": 1}
    edited = Call(
        number=1,
        provider_id="x",
        tool="pay",
        arguments={"amount": 1},
        edited={},
        status=CallStatus.WAITING,
        requested_seq=2,
    )
    assert edited.effective == {}
