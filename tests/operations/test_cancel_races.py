"""A cancel that was accepted always ends its run, whatever the run was in the middle of."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time

from stepwell import Engine, Limits, ProviderError, Reply, tool
from stepwell.errors import NotSent, RunNotResumable
from stepwell.machine import CallStatus
from stepwell.messages import Request, StopReason, Usage
from tests.engines import Till, lose, opened
from tests.narrowing import present

PAY, WIRE = ("pay", {"amount": 900}), ("wire", {"amount": 1})
Make = Callable[..., Engine]


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def make(tmp_path: Path, till: Till) -> Iterator[Make]:
    """Opens engines on one file; they are closed when the test ends."""
    engines = []

    def _make(*replies: Any, **options: Any) -> Engine:
        engine = opened(tmp_path / "runs.db", *replies, **{"tools": till.tools} | options)
        engines.append(engine)
        return engine

    yield _make
    for engine in engines:
        engine.close()


def during(happens: Callable[[], object], then: Reply | Exception) -> Callable[[Request], Reply]:
    """A model call during which something happens."""

    def play(_request: Request) -> Reply:
        happens()
        if isinstance(then, Exception):
            raise then
        return then

    return play


def triggers(engine: Engine) -> list[str]:
    return [str(entry.trigger) for entry in engine.history("last")]


def test_a_cancel_while_the_model_answers_wins_over_a_message(make: Make, till: Till) -> None:
    """The message would have made the run continue, and the tool pay."""
    person = make(Reply("-"))

    def send_and_cancel() -> None:
        person.send("last", "Pay Ada 9 euros.", by="ann")
        person.cancel("last", by="bob")

    engine = make(
        during(
            send_and_cancel, Reply("Nothing to do.", usage=Usage(input_tokens=10, output_tokens=5))
        ),
        Reply(calls=[PAY]),
        Reply("Paid."),
    )
    run = engine.run("w", "Look at ticket 17.")
    assert (run.state, run.answer, till.effects) == ("cancelled", None, [])
    assert triggers(engine) == ["start", "cancel"]
    cancelled = engine.history(run.id)[-1]
    assert (cancelled.by, present(cancelled.error)["type"]) == ("bob", "cancelled")
    assert (run.used.turns, run.used.input_tokens, run.used.output_tokens) == (1, 10, 5)
    assert [message.text for message in run.messages][-1] == "Nothing to do."  # it was paid for
    assert [sent.delivered_seq for sent in run.inbox] == [None]
    with pytest.raises(NotSent):
        engine.send(run.id, "Go on.")
    engine.work(until_idle=True)
    assert (engine.get(run.id).state, till.effects) == ("cancelled", [])


ENDS: dict[str, tuple[Reply | Exception, dict[str, Any]]] = {
    "answers": (Reply("Done."), {}),
    "fails": (ProviderError("No such key.", kind="authentication"), {}),
    "is capped": (Reply("Cut", stop=StopReason.LENGTH), {"limits": Limits(max_turns=1)}),
    "asks for a call": (Reply(calls=[PAY]), {}),
    "asks a person": (Reply(calls=[WIRE]), {}),
}


@pytest.mark.parametrize(("then", "options"), ENDS.values(), ids=ENDS)
def test_a_cancel_wins_over_whatever_the_model_call_leads_to(
    make: Make, till: Till, then: Reply | Exception, options: dict[str, Any]
) -> None:
    person = make(Reply("-"))
    engine = make(during(lambda: person.cancel("last", by="bob"), then), Reply("?"), **options)
    run = engine.run("w", "Go.")
    assert (run.state, till.effects, engine.approvals()) == ("cancelled", [], [])
    assert triggers(engine).count("cancel") == 1
    assert all(call.status == CallStatus.NOT_RUN for call in run.calls)


def test_a_cancel_while_a_tool_runs_keeps_its_outcome(make: Make, tmp_path: Path) -> None:
    person = make(Reply("-"))

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        person.cancel("last", by="bob")
        with (tmp_path / "paid").open("a") as paid:
            print(amount, file=paid)
        return f"paid {amount}"

    limits = Limits(max_tool_calls=1)  # the second call caps the run once the first has ended
    engine = make(Reply(calls=[PAY, PAY]), Reply("Paid."), tools=[pay], limits=limits)
    run = engine.run("w", "Go.")
    assert (run.state, (tmp_path / "paid").read_text()) == ("cancelled", "900\n")
    assert [str(call.status) for call in run.calls] == ["ok", "not_run"]
    assert triggers(engine)[-1] == "cancel"
    assert "cap" not in triggers(engine)


def test_a_cancel_that_the_lost_driver_never_saw_ends_the_run(make: Make) -> None:
    with freeze_time("2027-03-14") as frozen:
        engine = make(Reply("Done."))
        run = engine.submit("w", "Go.")
        lose(engine, frozen)
        frozen.tick(-1)
        engine.cancel(run.id, by="bob")
        assert engine.get(run.id).state == "awaiting_model"
        frozen.tick(1)
        engine.work(until_idle=True)
        assert engine.get(run.id).state == "cancelled"
        assert triggers(engine) == ["start", "cancel"]


def test_a_cancel_that_its_driver_had_no_time_to_obey_ends_the_run(make: Make) -> None:
    person = make(Reply("-"))

    def cancel_and_leave() -> None:
        person.cancel("last", by="bob")
        raise KeyboardInterrupt

    engine = make(lambda _request: cancel_and_leave())
    with pytest.raises(KeyboardInterrupt):
        engine.run("w", "Go.")
    assert triggers(engine) == ["start", "cancel"]


def test_a_cancel_beside_an_end_is_accepted_and_wins_or_is_refused(make: Make) -> None:
    """Both at once, many times: an answer after an accepted cancel is never recorded."""
    engine, person = make(Reply("Done.")), make(Reply("-"))
    told = {"accepted": 0, "late": 0}
    for _ in range(60):
        run = engine.submit("w", "Go.")
        driver = threading.Thread(target=engine.work, kwargs={"until_idle": True})
        driver.start()
        try:
            person.cancel(run.id, by="bob")
        except RunNotResumable:
            told["late"] += 1
            driver.join()
            assert engine.get(run.id).state == "done"
        else:
            told["accepted"] += 1
            driver.join()
            assert engine.get(run.id).state == "cancelled"
    assert sum(told.values()) == 60
