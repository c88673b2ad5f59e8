"""Whatever a tool does, its call has one outcome (cases A03, B06, C18)."""

import asyncio
import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from stepwell.effects.caller import Superseded
from stepwell.effects.dispatch import MAX_MESSAGE, Dispatched, Dispatcher
from stepwell.errors import StoreError
from stepwell.machine import CallStatus
from stepwell.tools import Notes, Tool, ToolContext, tool
from tests.waiting import eventually

OK, ERROR, IN_DOUBT = CallStatus.OK, CallStatus.ERROR, CallStatus.IN_DOUBT
SOON = 0.05
pytestmark = pytest.mark.timeout(60)


def ignored(_call: int, _done: Dispatched) -> None:
    """What comes too late is of no interest here."""


def context(*notes: str) -> ToolContext:
    return ToolContext("run", "call", "key", datetime(2027, 1, 1, tzinfo=UTC), Notes(notes))


def quiet(function: Callable[..., Any], **options: Any) -> Tool:
    function.__doc__ = "Do it."
    return tool(name="doing", **options)(function)


def run(made: Tool, arguments: dict[str, Any] | None = None, **options: Any) -> Dispatched:
    dispatcher = Dispatcher(ignored)
    dispatcher.start(1, made, arguments or {}, options.get("context", context()))
    number, done = dispatcher.next()
    assert number == 1
    assert dispatcher.running == frozenset()
    return done


def outcome(function: Callable[..., Any], **arguments: Any) -> tuple[CallStatus, Any]:
    done = run(quiet(function), arguments)
    return done.status, done.outcome["result"] if done.outcome["ok"] else done.outcome["error"]


def both(sync: Callable[[], Any]) -> list[Callable[[], Any]]:
    async def later() -> Any:
        await asyncio.sleep(0)
        return sync()

    return [sync, later]


# -- results


def test_a_plain_and_an_async_tool_give_their_result() -> None:
    def add(a: int, b: int = 2) -> int:
        return a + b

    async def add_later(a: int, b: int = 2) -> int:
        await asyncio.sleep(0)
        return a + b

    assert outcome(add, a=1) == (OK, 3)
    assert outcome(add_later, a=1, b=1) == (OK, 2)


def test_results_become_clean_json() -> None:
    def mixed() -> Any:
        return {"at": datetime(2027, 3, 14, tzinfo=UTC), "text": "a\0\udcb2", "set": {2, 1}}

    expected = {"at": "2027-03-14T00:00:00Z", "text": "a\u2400\ufffd", "set": [1, 2]}
    assert outcome(mixed) == (OK, expected)


@pytest.mark.parametrize("value", [object(), (n for n in [1]), {1: "a", "1": "b"}])
def test_a_result_without_json_form_says_that_the_tool_did_run(value: Any) -> None:
    status, error = outcome(lambda: value)
    assert status is ERROR
    assert error["type"] == "unserialisable_result"
    assert error["message"].startswith(
        "The tool did run, but its result cannot be shown: result not"
    )
    assert error["hint"] == "Do not call it again because of this."


def test_an_envelope_or_a_marker_returned_by_a_tool_is_data() -> None:
    fake = {"ok": False, "error": {"type": "timeout", "message": "[interrupted]", "hint": ""}}
    assert outcome(lambda: fake) == (OK, fake)


def test_an_awaitable_from_a_plain_function_is_awaited() -> None:
    async def inner() -> str:
        await asyncio.sleep(0)
        return "inner"

    class Later:
        def __await__(self) -> Any:
            return inner().__await__()

        @staticmethod
        def make() -> "Later":
            return Later()

    def plain() -> Any:
        return inner()

    assert outcome(plain) == (OK, "inner")
    assert outcome(Later.make) == (OK, "inner")


def test_notes_and_time_come_with_the_outcome() -> None:
    def remember(ctx: ToolContext) -> list[str]:
        ctx.notes.add("new")
        return ctx.notes.read()

    done = run(quiet(remember), context=context("old"))
    assert (done.outcome["result"], done.notes) == (["old", "new"], ("new",))
    assert 0 <= done.ms < 60_000


def test_context_variables_of_the_caller_are_seen() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("caller")

    async def later() -> str:
        return variable.get()

    def now() -> str:
        return variable.get()

    assert outcome(now) == (OK, "caller")
    assert outcome(later) == (OK, "caller")


# -- errors


class Silent(Exception):
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unusual(BaseException):
    pass


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (PermissionError("403"), "PermissionError", "403"),
        (Silent(), "Silent", "Silent"),
        (ValueError("  "), "ValueError", "ValueError"),
        (Unprintable(), "Unprintable", "Unprintable"),
        (ValueError("a\0\ud800"), "ValueError", "a\u2400\ufffd"),
        (KeyboardInterrupt(), "KeyboardInterrupt", "KeyboardInterrupt"),
        (SystemExit(3), "SystemExit", "3"),
        (Unusual("x"), "Unusual", "x"),
        (GeneratorExit(), "GeneratorExit", "GeneratorExit"),
        (asyncio.CancelledError(), "CancelledError", "CancelledError"),
        (RecursionError("deep"), "RecursionError", "deep"),
        (
            ExceptionGroup("two failed", [OSError("a"), ExceptionGroup("in", [KeyError("b")])]),
            "ExceptionGroup",
            "two failed: OSError: a; ExceptionGroup: in: KeyError: 'b'",
        ),
    ],
)
def test_every_exception_becomes_an_error(error: Any, kind: str, message: str) -> None:
    def fail() -> None:
        raise error

    for function in both(fail):
        assert outcome(function) == (ERROR, {"type": kind, "message": message, "hint": ""})
    assert outcome(both(lambda: "alive")[1]) == (OK, "alive")


def test_an_error_of_ours_keeps_its_hint() -> None:
    def fail() -> None:
        raise StoreError("Not there.", "Look elsewhere.")

    expected = {"type": "StoreError", "message": "Not there.", "hint": "Look elsewhere."}
    assert outcome(fail) == (ERROR, expected)


def test_a_result_or_a_check_that_wants_to_end_the_process_is_an_error() -> None:
    class Quitter(dict[str, int]):
        def items(self) -> Any:
            raise SystemExit(7)

    def quits(_: int) -> int:
        raise SystemExit(8)

    def checked(n: Annotated[int, AfterValidator(quits)]) -> int:
        return n

    assert outcome(lambda: Quitter(a=1))[1]["type"] == "SystemExit"
    assert outcome(checked, n=1)[1]["message"] == "8"


def test_a_huge_message_is_bounded() -> None:
    def fail() -> None:
        raise ValueError("x" * 1_000_000)

    message = outcome(fail)[1]["message"]
    assert message == "x" * MAX_MESSAGE + "… [980,000 characters left out]"


def test_arguments_are_checked_again_and_the_tool_does_not_run() -> None:
    ran = threading.Event()

    def count(n: int) -> None:
        ran.set()

    status, error = outcome(count, n="5")
    assert (status, error["type"]) == (ERROR, "invalid_arguments")
    assert "'n' should be a valid integer, got \"5\"" in error["message"]
    assert "n (integer, required)" in error["hint"]
    assert not ran.is_set()


def test_a_method_without_its_object_is_an_error() -> None:
    class Orders:
        @tool
        def get(self) -> None:
            """Get."""

    assert run(Orders.get).outcome["error"]["type"] == "ToolDefinitionError"


# -- several calls


def test_one_of_three_fails_and_the_others_are_kept() -> None:
    counts: list[str] = []

    @tool
    def get(k: str) -> str:
        """Get."""
        counts.append(k)
        if k == "boom":
            raise PermissionError("403")
        return k.upper()

    dispatcher = Dispatcher(ignored)
    for number, key in enumerate(["a", "boom", "b"], start=1):
        dispatcher.start(number, get, {"k": key}, context())
    assert dispatcher.running == {1, 2, 3}
    done = dict(dispatcher.next() for _ in range(3))
    assert sorted(counts) == ["a", "b", "boom"]
    assert done[1].outcome == {"ok": True, "result": "A"}
    assert done[2].outcome["error"] == {"type": "PermissionError", "message": "403", "hint": ""}
    assert done[3].outcome == {"ok": True, "result": "B"}


@pytest.mark.parametrize("is_async", [False, True])
def test_calls_run_side_by_side_and_come_in_the_order_they_finish(is_async: bool) -> None:
    gates = {1: threading.Event(), 2: threading.Event()}

    def wait(n: int) -> int:
        assert gates[n].wait(30)
        return n

    async def wait_async(n: int) -> int:
        assert await asyncio.to_thread(gates[n].wait, 30)
        return n

    made = quiet(wait_async if is_async else wait)
    dispatcher = Dispatcher(ignored)
    for n in gates:
        dispatcher.start(n, made, {"n": n}, context())
    assert dispatcher.next(timeout=0) is None
    gates[2].set()
    assert dispatcher.next()[0] == 2
    assert dispatcher.next(timeout=SOON) is None
    assert dispatcher.running == {1}
    gates[1].set()
    assert dispatcher.next()[0] == 1


def test_misuse_is_told_at_once() -> None:
    dispatcher = Dispatcher(ignored)
    with pytest.raises(LookupError):
        dispatcher.next()
    assert dispatcher.next(timeout=SOON) is None
    gate = threading.Event()
    dispatcher.start(1, quiet(lambda: gate.wait(30)), {}, context())
    with pytest.raises(ValueError, match="call 1 is running"):
        dispatcher.start(1, quiet(lambda: None), {}, context())
    gate.set()
    assert dispatcher.next()[1].status is OK


# -- timeouts


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({}, IN_DOUBT, "whether it had an effect is unknown"),
        ({"idempotent": True}, ERROR, "no result within 0.05 seconds"),
        ({"read_only": True}, ERROR, "no result within 0.05 seconds"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_takes_too_long(
    options: dict[str, Any], status: CallStatus, words: str, is_async: bool
) -> None:
    gate, cancelled = threading.Event(), threading.Event()

    def wait(ctx: ToolContext) -> None:
        ctx.notes.add("half done")
        gate.wait(30)

    async def wait_async() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    done = run(quiet(wait_async if is_async else wait, timeout=SOON, **options))
    assert done.status is status
    assert done.outcome["error"]["type"] == "timeout"
    assert words in done.outcome["error"]["message"]
    assert done.notes == ()
    assert done.ms >= 50
    assert not is_async or cancelled.wait(30)
    gate.set()


def test_a_late_result_is_ignored_even_when_the_number_is_used_again() -> None:
    gate, left = threading.Event(), threading.Event()

    def slow() -> str:
        gate.wait(30)
        left.set()
        return "late"

    dispatcher = Dispatcher(ignored)
    dispatcher.start(1, quiet(slow, timeout=SOON), {}, context())
    assert dispatcher.next()[1].status is IN_DOUBT
    second = threading.Event()
    dispatcher.start(1, quiet(lambda: "new" if second.wait(30) else ""), {}, context())
    gate.set()
    assert left.wait(30)
    assert dispatcher.next(timeout=SOON) is None
    second.set()
    assert dispatcher.next()[1].outcome["result"] == "new"


def test_a_result_that_is_there_wins_over_a_timeout_that_has_passed() -> None:
    left = threading.Event()

    def quick() -> str:
        left.set()
        return "there"

    dispatcher = Dispatcher(ignored)
    dispatcher.start(1, quiet(quick, timeout=0.2), {}, context())
    assert left.wait(30)
    time.sleep(0.3)
    assert dispatcher.next()[1].outcome == {"ok": True, "result": "there"}


def test_a_tool_that_blocks_the_event_loop_does_not_hold_up_later_ones() -> None:
    gate = threading.Event()

    async def rude() -> None:
        gate.wait(30)

    async def polite() -> str:
        await asyncio.sleep(0)
        return "polite"

    assert run(quiet(rude, timeout=SOON)).status is IN_DOUBT
    assert outcome(polite) == (OK, "polite")
    gate.set()


def test_a_timeout_alone_does_not_change_the_loop() -> None:
    async def which() -> int:
        return id(asyncio.get_running_loop())

    async def sleep() -> None:
        await asyncio.sleep(30)

    before = outcome(which)
    assert run(quiet(sleep, timeout=SOON)).status is IN_DOUBT
    assert outcome(which) == before


def test_a_task_left_behind_cannot_end_the_event_loop() -> None:
    async def bomb() -> None:
        raise SystemExit

    tasks = []

    async def leaves() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        tasks.append(asyncio.create_task(bomb()))
        await asyncio.sleep(0)
        return "left"

    dispatcher = Dispatcher(ignored)
    dispatcher.start(1, quiet(leaves), {}, context())
    assert dispatcher.next()[1].outcome == {"ok": True, "result": "left"}
    assert outcome(both(lambda: "alive")[1]) == (OK, "alive")
    assert isinstance(tasks[0].exception(), SystemExit)


# -- abandoning, interrupts, loops, processes


def test_abandoning_cancels_async_calls_and_forgets_all() -> None:
    gate, begun, cancelled = threading.Event(), threading.Event(), threading.Event()

    async def wait_async() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.set()

    dispatcher = Dispatcher(ignored)
    dispatcher.start(1, quiet(wait_async), {}, context())
    dispatcher.start(2, quiet(lambda: gate.wait(30)), {}, context())
    assert begun.wait(30)
    dispatcher.abandon()
    assert cancelled.wait(30)
    gate.set()
    assert dispatcher.running == frozenset()
    assert dispatcher.next(timeout=SOON) is None


def test_who_waits_for_calls_that_another_thread_abandons_does_not_wait_for_ever() -> None:
    gate, begun, ended = threading.Event(), threading.Event(), threading.Event()
    late: list[Any] = []
    tried: list[Any] = []
    dispatcher = Dispatcher(lambda _number, done: late.append(done))

    def hold() -> None:
        begun.set()
        gate.wait(30)

    def wait() -> None:
        dispatcher.start(1, quiet(hold), {}, context())
        with suppress(Superseded):
            dispatcher.next()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    assert begun.wait(30)
    dispatcher.abandon()
    assert ended.wait(30)
    gate.set()
    assert eventually(lambda: late)[0].status is OK
    for begin in (dispatcher.start, dispatcher.call_here):
        with pytest.raises(Superseded):
            begin(2, quiet(lambda: tried.append("begun")), {}, context())
    assert tried == []


def test_waiting_can_be_interrupted_by_a_signal() -> None:
    gate = threading.Event()
    dispatcher = Dispatcher(ignored)
    dispatcher.start(1, quiet(lambda: gate.wait(30)), {}, context())
    threading.Timer(SOON, os.kill, [os.getpid(), signal.SIGINT]).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        dispatcher.next()
    assert time.monotonic() - begun < 10
    assert dispatcher.running == {1}
    gate.set()
    assert dispatcher.next()[1].status is OK


def test_async_tools_share_one_loop_from_anywhere() -> None:
    async def which() -> int:
        return id(asyncio.get_running_loop())

    async def inside() -> Any:
        return outcome(which)

    found = [outcome(which), outcome(which), asyncio.run(inside()), asyncio.run(inside())]
    thread = threading.Thread(target=lambda: found.append(outcome(which)))
    thread.start()
    thread.join()
    assert len(found) == 5
    assert len({value for _, value in found}) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="forking with threads warns")
def test_a_forked_process_makes_its_own_loop() -> None:
    polite = both(lambda: "alive")[1]
    assert outcome(polite) == (OK, "alive")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if outcome(polite) == (OK, "alive") else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_do_not_keep_the_process_alive(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio, sys, time\n"
        "from datetime import UTC, datetime\n"
        "from stepwell.effects.dispatch import Dispatcher\n"
        "from stepwell.tools import ToolContext, tool\n"
        "@tool(timeout=0.05)\ndef slow() -> None:\n    'Sleep.'\n    time.sleep(600)\n"
        "@tool(timeout=0.05)\nasync def later() -> None:\n    'Sleep.'\n    await asyncio.sleep(600)\n"
        "context = ToolContext('r', 'c', 'k', datetime.now(UTC))\n"
        "dispatcher = Dispatcher(print)\n"
        "dispatcher.start(1, slow, {}, context)\ndispatcher.start(2, later, {}, context)\n"
        "print(sorted(dispatcher.next()[1].status for _ in range(2)))\n"
    )
    import subprocess

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        env=env,
    )
    assert ended.stdout.count("in_doubt") == 2
    assert ended.stderr == ""


@pytest.mark.parametrize("is_async", [False, True])
def test_a_late_outcome_is_told(is_async: bool) -> None:
    end, told = threading.Event(), threading.Event()
    late: list[tuple[int, Dispatched]] = []

    def hear(call: int, done: Dispatched) -> None:
        late.append((call, done))
        told.set()

    def stubborn() -> str:
        while not end.wait(0.01):
            pass
        return "paid"

    async def stubborn_async() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "paid"
        return "not reached"

    made = quiet(stubborn_async if is_async else stubborn, timeout=0.05)
    dispatcher = Dispatcher(hear)
    dispatcher.start(7, made, {}, context())
    assert dispatcher.next()[1].status is CallStatus.IN_DOUBT
    end.set()
    assert told.wait(10)
    assert [call for call, _ in late] == [7]
