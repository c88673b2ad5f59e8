"""A caller that leaves in the middle of a run: interrupted, or with a listener that fails or forks."""

import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from stepwell import Engine, ProviderError, Reply, tool
from stepwell.effects import threads
from stepwell.effects.caller import Superseded
from stepwell.effects.perform import Performer
from stepwell.messages import Request
from stepwell.state.inbox import InboxEntry
from stepwell.state.snapshot import Snapshot
from stepwell.views.runs import HistoryEntry
from tests.engines import AT_ONCE, opened
from tests.narrowing import present
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(60)


def interrupted(*_anything: object) -> None:
    raise KeyboardInterrupt


def test_a_run_that_is_interrupted_while_its_text_is_shown_is_given_back(tmp_path: Path) -> None:
    """Whether the caller or the thread that takes the steps is the first to leave."""
    with opened(tmp_path / "r.db", Reply("Some text.")) as engine:
        for _ in range(20):
            with pytest.raises(KeyboardInterrupt):
                engine.run("w", "Go.", on_text=interrupted)
            run = engine.get("last")
            assert (run.state, present(run.error)["type"]) == ("awaiting_model", "interrupted")
        assert engine.resume("last").answer == "Some text."


def test_the_end_of_a_run_is_logged_even_if_its_caller_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The model answers after the interrupt, and before the run could be given back."""
    has_left = threading.Event()

    def complete(_request: Request) -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        assert has_left.wait(30)
        return Reply("Done.")

    def lines() -> list[str]:
        return [one.name for one in caplog.records if '"done"' in one.message]

    heard: list[object] = []
    caplog.set_level("INFO", "stepwell.runs")
    with opened(tmp_path / "r.db", complete) as engine:
        load = engine.store.load

        def load_at_last(number: int) -> Snapshot:
            has_left.set()
            eventually(lambda: engine.get("last").state == "done")
            return load(number)

        monkeypatch.setattr(engine.store, "load", load_at_last)
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.", on_transition=heard.append)
        assert eventually(lines) == ["stepwell.runs"]
    assert len(heard) == 1, "the caller has left and does not hear of the end"


def test_a_listener_that_fails_hides_no_interrupt(tmp_path: Path) -> None:
    def fail(entry: HistoryEntry) -> None:
        if entry.trigger == "retry":
            raise ValueError("no part of the run")

    with opened(tmp_path / "r.db", Reply("Some text.")) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.", on_text=interrupted, on_transition=fail)
        assert present(engine.get("last").error)["type"] == "interrupted"


def test_a_run_that_is_interrupted_before_its_first_step_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its lease would be renewed for as long as this process lives."""
    with opened(tmp_path / "r.db", Reply("Done.")) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(BackgroundScheduler, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                engine.run("w", "Go.")
        assert engine._leases._held == {}
        assert engine.store.owned() == []
        assert engine.resume("last").answer == "Done."


def test_the_wait_of_a_run_ends_with_an_interrupt_and_opens_no_closed_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def waiting(number: int) -> tuple[InboxEntry, ...]:
        looked.append(number)
        return ()

    def interrupt(file: Path) -> None:
        with Engine(file, settings=AT_ONCE) as other:
            eventually(lambda: other.runs() and other.runs()[0].attempt == 2)
        os.kill(os.getpid(), signal.SIGINT)

    free = max(1, len(threads._free))
    busy = ProviderError("Busy.", kind="overloaded", retryable=True, retry_after=9)
    with opened(tmp_path / "r.db", busy, Reply("Done.")) as engine:
        monkeypatch.setattr(engine.store, "waiting", waiting)
        killer = threading.Thread(target=interrupt, args=[tmp_path / "r.db"])
        killer.start()
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.")
        killer.join()
        assert eventually(lambda: len(threads._free) >= free, 5), "not only when its time has come"
        assert looked == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("leaves", [False, True], ids=["returns", "exits"])
def test_the_child_of_a_listener_that_forks_neither_waits_nor_gives_the_run_back(
    tmp_path: Path, leaves: bool
) -> None:
    parent, children, ended = os.getpid(), [], []

    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    def fork(entry: HistoryEntry) -> None:
        if entry.trigger != "request_tools":
            return
        children.append(os.fork())
        if children == [0]:
            signal.alarm(20)  # a child that waits for ever ends, too
            if leaves:
                raise SystemExit(3)
        else:
            ended.append(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))

    replies = [Reply(calls=[("pay", {})]), Reply("Done.")]
    with opened(tmp_path / "r.db", *replies, tools=[pay]) as engine:
        try:
            run = engine.run("w", "Go.", on_transition=fork)
        except BaseException as error:
            if os.getpid() != parent:
                os._exit(7 if isinstance(error, Superseded | SystemExit) else 8)
            raise
        assert ended == [7]
        assert run.state == "done"
        assert [step.trigger for step in engine.history(run.id)].count("retry") == 0


def test_a_lease_is_dropped_by_a_caller_that_is_interrupted_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "r.db", Reply("Some text.")) as engine:
        monkeypatch.setattr(engine.store, "load", interrupted)  # while it gives the run back
        monkeypatch.setattr(Performer, "abandon", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.", on_text=interrupted)
        assert engine._leases._held == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_run_whose_beginning_could_not_be_told_is_anybodys_at_once(
    tmp_path: Path, error: type[BaseException]
) -> None:
    def fail(_entry: HistoryEntry) -> None:
        raise error

    with opened(tmp_path / "r.db", Reply("Done.")) as engine:
        with pytest.raises(error):
            engine.run("w", "Go.", on_transition=fail)
        assert engine.store.owned() == []
        assert engine.resume("last").answer == "Done."


# Where the caller's own thread is between the insert of a run and the driver's first line.
BETWEEN = ("engine.py", "submission.py", "store.py", "worker.py", "watch.py")


def interrupt_at(line: int) -> Callable[..., Any]:
    """A trace function that raises at so many lines of those files."""
    left = line

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        if Path(frame.f_code.co_filename).name not in BETWEEN:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    return trace


def test_an_interrupt_at_any_line_leaves_the_run_to_anybody(tmp_path: Path) -> None:
    with opened(tmp_path / "r.db", Reply("Done."), tools=[]) as engine:
        for line in itertools.count(1):
            tracing = sys.gettrace()
            sys.settrace(interrupt_at(line))
            try:
                engine.run("w", "Go.")
            except KeyboardInterrupt:
                continue
            finally:
                sys.settrace(tracing)
                assert engine.store.owned() == [], line
            break
        assert line > len(engine.runs()) > 1
        assert all(engine.resume(run.id).answer == "Done." for run in engine.runs())
