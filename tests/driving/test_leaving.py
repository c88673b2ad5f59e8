"""A caller that leaves in the middle of a run: interrupted, or with a listener that fails or forks."""

import os
import signal
import threading
from datetime import datetime
from pathlib import Path

import pytest

from stepwell import ProviderError, Reply, tool
from stepwell.driving.driver import Driver
from stepwell.driving.lease import Leases
from stepwell.driving.steps import Steps
from stepwell.effects import threads
from stepwell.effects.caller import Superseded
from stepwell.effects.perform import Performer
from stepwell.messages import Request
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store
from stepwell.views.runs import HistoryEntry
from tests.engines import opened
from tests.narrowing import present
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(60)


def test_a_run_that_is_interrupted_while_its_text_is_shown_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if what took its steps is faster: nothing came of the model call, no fault either."""
    hand_back = Driver.hand_back

    def slowly(driver: Driver, snapshot: Snapshot, reason: str) -> None:
        eventually(lambda: threads._free)
        hand_back(driver, snapshot, reason)

    def interrupted(_text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threads, "_free", [])
    monkeypatch.setattr(Driver, "hand_back", slowly)
    with opened(tmp_path / "r.db", Reply("Some text.")) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.", on_text=interrupted)
        run = engine.get("last")
        assert (run.state, present(run.error)["type"]) == ("awaiting_model", "interrupted")
        assert engine.resume("last").answer == "Some text."


def test_the_end_of_a_run_is_logged_even_if_its_caller_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hand_back, has_left = Driver.hand_back, threading.Event()

    def late(driver: Driver, snapshot: Snapshot, reason: str) -> None:
        has_left.set()
        eventually(lambda: threads._free)
        hand_back(driver, snapshot, reason)

    def complete(_request: Request) -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        assert has_left.wait(30)
        return Reply("Done.")

    heard: list[object] = []
    monkeypatch.setattr(threads, "_free", [])
    monkeypatch.setattr(Driver, "hand_back", late)
    caplog.set_level("INFO", "stepwell.runs")
    with opened(tmp_path / "r.db", complete) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.", on_transition=heard.append)
        assert engine.get("last").state == "done"
    assert len(heard) == 1, "nobody listened to its end"
    assert [one.name for one in caplog.records if '"done"' in one.message] == ["stepwell.runs"]


def test_a_listener_that_fails_hides_no_interrupt(tmp_path: Path) -> None:
    def fail(entry: HistoryEntry) -> None:
        if entry.trigger == "retry":
            raise ValueError("no part of the run")

    def interrupted(_text: str) -> None:
        raise KeyboardInterrupt

    with opened(tmp_path / "r.db", Reply("Some text.")) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.", on_text=interrupted, on_transition=fail)
        assert present(engine.get("last").error)["type"] == "interrupted"


def test_a_run_that_is_interrupted_before_its_first_step_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its lease would be renewed for as long as this process lives."""

    def interrupted(_leases: Leases) -> None:
        raise KeyboardInterrupt

    with opened(tmp_path / "r.db", Reply("Done.")) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(Leases, "_start_ticking", interrupted)
            with pytest.raises(KeyboardInterrupt):
                engine.run("w", "Go.")
        assert engine._leases._held == {}
        assert engine.store.owned() == []
        assert engine.resume("last").answer == "Done."


def test_an_interrupted_run_that_waits_is_waited_for_by_nobody_and_opens_no_closed_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    wait = Steps._wait

    def interrupted(steps: Steps, until: datetime) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        wait(steps, until)

    def waiting(_store: Store, number: int) -> tuple[()]:
        looked.append(number)
        return ()

    monkeypatch.setattr(threads, "_free", [])
    monkeypatch.setattr(Steps, "_wait", interrupted)
    monkeypatch.setattr(Store, "waiting", waiting)
    busy = ProviderError("Busy.", kind="overloaded", retryable=True, retry_after=9)
    with opened(tmp_path / "r.db", busy, Reply("Done.")) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run("w", "Go.")
        assert eventually(lambda: threads._free, 5), "not only when its time has come"
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


def test_no_lease_is_kept_by_one_who_is_interrupted_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_anything: object) -> None:
        raise KeyboardInterrupt

    with opened(tmp_path / "r.db", Reply("Some text.")) as engine:
        monkeypatch.setattr(Driver, "hand_back", interrupted)
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
