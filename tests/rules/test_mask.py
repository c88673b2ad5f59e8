"""Secrets: never stored, never logged; and what becomes of a call whose arguments held one."""

import logging
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from freezegun import freeze_time

from stepwell import (
    Decision,
    Engine,
    ProviderError,
    Reply,
    Schedule,
    ScriptedModel,
    ToolContext,
    Verdict,
    clock,
    tool,
)
from stepwell.driving.steps import LATE_CHARACTERS, keep_late
from stepwell.effects.dispatch import MAX_MESSAGE
from stepwell.errors import ConfigurationError
from stepwell.messages import Usage
from stepwell.providers.registry import secrets
from stepwell.rules.change import Change
from stepwell.rules.mask import MASKED, Mask, masking
from stepwell.rules.starting import Start, start
from stepwell.settings import Settings, load
from stepwell.store import schedules
from stepwell.tools.decorator import Tool
from stepwell.workflow import Agent
from tests.engines import lose, opened, requests
from tests.narrowing import present

CARD = "4111111111111111"
KEY = "sk-a-key-of-a-provider"
PATTERNS = [r"\b\d{16}\b"]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def settings(**more: Any) -> Settings:
    return Settings(retry_base=0, synchronous="off", mask=PATTERNS, **more)


class Shop:
    """Tools that are told secrets, and say them."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @tool
    def charge(self, card: str, context: ToolContext) -> dict[str, str]:
        """Charge a card."""
        self.told.append(card)
        context.notes.add(f"charged {card}")
        return {"card": card, "key": KEY}

    @tool(read_only=True)
    def check(self, card: str) -> str:
        """Look a card up."""
        self.told.append(card)
        raise ValueError(f"{card} is not known")

    @tool(read_only=True)
    def long(self) -> str:
        """Say a lot."""
        return f"{CARD} " * 3000

    @tool(requires_approval=True)
    def refund(self, card: str) -> str:
        """Give money back."""
        self.told.append(card)
        return f"to {card}"

    @property
    def tools(self) -> list[Tool]:
        return [self.charge, self.check, self.long, self.refund]


def bytes_of(file: Path) -> bytes:
    return b"".join(each.read_bytes() for each in file.parent.iterdir())


def test_nothing_secret_reaches_the_file_while_tools_get_it_whole(file: Path) -> None:
    shop = Shop()
    calls = [("charge", {"card": CARD}), ("check", {"card": CARD}), ("long", {})]
    reply = Reply(
        f"I charge {CARD}.", calls, reasoning=f"It is {CARD}, with {KEY}.", raw={"said": [CARD]}
    )
    replies = [reply, Reply(f"Charged {CARD} with {KEY}.", usage=Usage(1, 0, 1))]
    with opened(file, *replies, tools=shop.tools, settings=settings()) as engine:
        run = engine.run("w", f"Charge {CARD} please.", user="ann")
        [_, shown] = requests(engine)
        assert CARD.encode() not in bytes_of(file)  # not in the log either
        assert KEY.encode() not in bytes_of(file)
    assert shop.told == [CARD, CARD]
    assert CARD in shown[1].text  # the process that heard it still knows
    assert run.input == f"Charge {MASKED} please."
    assert run.answer == f"Charged {MASKED} with {MASKED}."
    assert run.calls[0].arguments == {"card": MASKED}
    assert run.calls[0].outcome == {"ok": True, "result": {"card": MASKED, "key": MASKED}}
    assert MASKED in present(run.calls[1].outcome)["error"]["message"]
    assert present(run.calls[2].full_result).startswith(f"{MASKED} {MASKED} ")
    assert CARD.encode() not in bytes_of(file)


def test_a_call_that_waited_is_not_run_without_its_secret(file: Path) -> None:
    shop = Shop()
    replies = [Reply(calls=[("refund", {"card": CARD})]), Reply("Done.")]
    with opened(file, *replies, tools=shop.tools, settings=settings()) as engine:
        parked = engine.run("w", "Go.")
        [question] = engine.approvals()
        assert question.arguments == {"card": MASKED}
        engine.approve(question.id)
        run = engine.resume(parked.id)
        assert (run.state, run.calls[0].status) == ("done", "error")
        assert present(run.calls[0].outcome)["error"]["type"] == "masked_arguments"
        assert "not stored" in present(run.calls[0].outcome)["error"]["message"]
        # what a person puts in its place is whole, unless it is a secret again
        other = engine.run("w", "Go.")
        engine.approve(other.id, edit={"card": "the usual one"})
        assert engine.resume(other.id).calls[0].status == "ok"
        third = engine.run("w", "Go.")
        engine.approve(third.id, edit={"card": CARD})
        assert (
            present(engine.resume(third.id).calls[0].outcome)["error"]["type"] == "masked_arguments"
        )
    assert shop.told == ["the usual one"]
    assert CARD.encode() not in bytes_of(file)


def test_a_lost_call_is_not_run_again_without_its_secret(file: Path) -> None:
    shop = Shop()
    calls = [("check", {"card": CARD}), ("charge", {"card": CARD})]
    with (
        freeze_time(clock.now(), ignore=["psutil"]) as frozen,
        opened(file, Reply("x"), Reply("Done."), tools=shop.tools, settings=settings()) as engine,
    ):
        engine.submit("w", "Go.")
        lose(engine, frozen, Reply(calls=calls))
        run = engine.resume("last")
        assert [(c.tool, c.status) for c in run.calls] == [
            ("check", "error"),
            ("charge", "in_doubt"),
        ]
        engine.decide(run.id, Decision(verdict=Verdict.APPROVE))
        run = engine.resume("last")
    assert present(run.calls[1].outcome)["error"]["type"] == "masked_arguments"
    assert (run.state, shop.told) == ("done", [])


def test_what_people_say_is_masked_too(file: Path) -> None:
    replies = [Reply(calls=[("refund", {"card": "x"})]), Reply("Done.")]
    with opened(file, *replies, tools=Shop().tools, settings=settings()) as engine:
        parked = engine.run("w", "Go.")
        engine.deny(parked.id, reason=f"never to {CARD}")
        engine.resume(parked.id)
        fork = engine.fork(parked.id, 3, message=f"Use {CARD}.")
        assert fork.messages[-2].text == f"Use {MASKED}."
        again = [engine.run("w", f"{CARD}", key="k").id for _ in range(2)]
        assert again[0] == again[1]  # the same input is the same, masked or not
    assert CARD.encode() not in bytes_of(file)


def test_no_log_line_holds_a_key(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("stepwell")
    with opened(file, Reply("x"), settings=settings()):
        log.warning("with %s", KEY)
        try:
            int(KEY)
        except ValueError:
            log.exception("It failed for %s.", CARD)
    assert KEY not in caplog.text
    assert CARD not in caplog.text
    assert f"ValueError: invalid literal for int() with base 10: '{MASKED}'" in caplog.text
    log.warning("later %s", KEY)
    assert "later sk-" in caplog.text  # nobody's engine, nobody's mask


def test_the_line_of_a_run_that_ends_holds_no_key(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_request: object) -> Reply:
        raise ProviderError(f"The key {KEY} is not valid.", kind="authentication")

    caplog.set_level(logging.INFO, "stepwell.runs")
    with opened(file, fail, settings=settings()) as engine:
        run = engine.run("w", "Go.", user=f"ann {CARD}")
    assert [r.name for r in caplog.records if MASKED in r.getMessage()] == ["stepwell.runs"]
    assert KEY not in caplog.text
    assert CARD not in caplog.text
    assert run.user == f"ann {MASKED}"


def test_numbers_are_masked_and_others_are_left() -> None:
    mask = masking(PATTERNS, [])
    value = {"n": int(CARD), "f": float(CARD), "l": [5500005555555559], "ok": [True, 1, 0.5, None]}
    hidden = {"n": MASKED, "f": MASKED, "l": [MASKED], "ok": [True, 1, 0.5, None]}
    assert mask.value(value) == hidden


class Straddling:
    """Tools whose long texts are cut in the middle of a secret."""

    @tool(max_result=100)
    def result(self) -> str:
        """Return a long text."""
        return "a" * 80 + f" {KEY} {CARD} " + "b" * 50

    @tool(max_result=90)
    def card(self) -> str:
        """Return a long text."""
        return "a" * 80 + f" {CARD} " + "b" * 50

    @tool
    def error(self) -> str:
        """Raise a long error."""
        raise RuntimeError("e" * (MAX_MESSAGE - 15) + KEY)


def test_a_secret_across_a_cut_is_masked_before_the_cut(file: Path) -> None:
    tools = Straddling()
    calls: list[Any] = [("result", {}), ("card", {}), ("error", {})]
    with opened(
        file,
        Reply(calls=calls),
        Reply("Done."),
        tools=[tools.result, tools.card, tools.error],
        settings=settings(),
    ) as engine:
        run = engine.run("w", "Go.")
        late = {"ok": True, "result": "a" * (LATE_CHARACTERS - 10) + f" {CARD} {KEY}"}
        keep_late(engine.store, 1, 1, late)
    stored = bytes_of(file)
    assert KEY[:8].encode() not in stored
    assert CARD[:8].encode() not in stored
    result, card, error = run.calls
    assert result.outcome
    assert card.outcome
    assert error.outcome
    assert result.outcome["result"].startswith("a" * 80 + f" {MASKED} {MASKED}"[:20])
    assert result.full_result == "a" * 80 + f" {MASKED} {MASKED} " + "b" * 50
    assert card.outcome["result"].startswith("a" * 80 + f" {MASKED}")
    assert f"{MASKED}… [" in error.outcome["error"]["message"]


def test_a_made_up_name_of_a_tool_is_masked(file: Path) -> None:
    replies = [Reply(calls=[(f"say_{KEY}", {})]), Reply("Done.")]
    with opened(file, *replies, tools=Shop().tools, settings=settings()) as engine:
        run = engine.run("w", "Go.")
    assert [call.tool for call in run.calls] == [f"say_{MASKED}"]
    assert run.state == "done"
    assert KEY.encode() not in bytes_of(file)


def test_a_run_is_found_by_its_masked_key(file: Path) -> None:
    with opened(file, Reply("x"), Reply("y"), settings=settings()) as engine:
        first = engine.run("w", "Go.", key=f"order {CARD}")
        again = engine.run("w", "Go.", key=f"order {CARD}")
        other = engine.run("w", "Go.", key="order 5500005555555559")
    assert first.id == again.id != other.id
    assert first.key is not None
    assert first.key.startswith(f"order {MASKED}#")
    assert CARD.encode() not in bytes_of(file)


def test_who_acts_and_what_is_scheduled_is_masked(file: Path) -> None:
    replies = [Reply(calls=[("refund", {"card": "x"})]), Reply("Done.")]
    with opened(file, *replies, tools=Shop().tools, settings=settings()) as engine:
        parked = engine.run("w", "Go.")
        engine.approve(parked.id, by=f"ann {CARD}")
        engine.send(parked.id, "Hello.", by=f"bob {CARD}")
        engine.store.request_cancel(1, f"eve {CARD}")
        engine.cancel(parked.id, by=f"cy {CARD}")
        engine.schedules.add(Schedule("s", "w", f"Charge {CARD}", every="1h", user=CARD))
        engine.schedules.edit("s", input=f"Charge {CARD} twice")
        paused = engine.schedules.pause("s", by=CARD, reason=f"because of {KEY}")
        engine.schedules.trigger("s", by=CARD)
    assert (paused.input, paused.paused_by) == (f"Charge {MASKED} twice", MASKED)
    assert paused.reason == f"because of {MASKED}"
    assert CARD.encode() not in bytes_of(file)
    assert KEY.encode() not in bytes_of(file)


def test_a_declared_schedule_with_a_secret_does_not_change_at_every_start(file: Path) -> None:
    declared = Schedule("s", "w", f"Charge {CARD}", every="1h")
    workflow = Agent("w", model=ScriptedModel([Reply("x")]))
    module = ModuleType("declaring")
    module.workflow, module.schedule = workflow, declared  # type: ignore[attr-defined]
    revisions = []
    for _ in range(2):
        with Engine(file, workflows=module, settings=settings()) as engine:
            engine.schedules.register()
            with engine.store.reading() as connection:
                row = schedules.row(connection, "s")
        assert row is not None
        revisions.append(row.revision)
    assert revisions[0] == revisions[1]


def test_without_anything_to_mask_nothing_is_touched() -> None:
    change: Change = start(Agent("w"), Start(id="1", input=CARD), clock.now())
    assert Mask().change(change) is change
    assert masking([], ["", "short"]).patterns == []


def test_the_longer_of_two_keys_is_masked_whole() -> None:
    mask = masking([], ["sk-12345", "sk-12345-and-more"])
    assert mask.text("a sk-12345-and-more b sk-12345 c") == f"a {MASKED} b {MASKED} c"
    assert mask.value({"sk-12345": [1, None, True, "x sk-12345"]}) == {
        MASKED: [1, None, True, f"x {MASKED}"]
    }


@pytest.mark.parametrize(
    ("value", "said"),
    [('["("]', "not a regular expression"), ('["x*"]', "would mask everything"), ("(", "mask")],
)
def test_a_pattern_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPWELL_MASK", value)
    with pytest.raises(ConfigurationError, match=said):
        load()


def test_keys_of_dotenv_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.stepwell]\nmask = ['a+']\n")
    (tmp_path / ".env").write_text("ANTHROPIC_API_KEY=sk-of-dotenv\n")
    monkeypatch.chdir(tmp_path)
    assert secrets(load().root) == {KEY, "sk-of-dotenv"}
    assert load().mask == ["a+"]


def test_what_came_too_late_is_masked(file: Path) -> None:
    replies = [Reply(calls=[("check", {"card": "x"})]), Reply("Done.")]
    with opened(file, *replies, tools=Shop().tools, settings=settings()) as engine:
        run = engine.run("w", "Go.")
        engine.store.keep_late(engine._number(run.id), 1, {"ok": True, "result": [CARD]})
        late = engine.get(run.id).calls[0].late_outcome
    assert late == {"ok": True, "result": [MASKED]}
