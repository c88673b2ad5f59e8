"""Workers that are killed at random for a while, a provider that fails one call in five, many runs.

    python -m tests.soak.soak [SECONDS RUNS WORKERS [SEED]]     `make soak`: 60 s, 300 runs, 4 workers

Every run has to end, every effect that must be single be single, and nobody see a lock error. A
person is played too: questions are answered, calls in doubt looked at, failed runs resumed. With
`serve` it is the process that workers are forked from, for each killed one is replaced at once.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import apscheduler.schedulers.background  # noqa: F401 - imported once, not in every fork

from stepwell import (
    Agent,
    DidNotHappen,
    Engine,
    Happened,
    Limits,
    ProviderError,
    Reply,
    ScriptedModel,
    ToolContext,
    Workflow,
    clock,
    tool,
)
from stepwell.errors import RunNotResumable
from stepwell.machine import LIVE, State, Trigger, destination
from stepwell.messages import Request
from stepwell.rules.recovery import resume
from stepwell.settings import Settings
from stepwell.state.circumstances import Circumstances
from stepwell.state.transcript import problems
from tests.processes import ending, python

FAILING = 0.2
SLOW = 0.2  # seconds that a tool takes at most before its effect and after it, and a model
SETTINGS = Settings(sweep=0.3, retry_base=0.05, grace=5)
CONCURRENCY = 4
KINDS = ["reads", "puts", "books", "pays", "wires"]
SINGLE = {"book", "pay", "wire"}
BETWEEN_KILLS = (0.3, 1.2)
CANCELLING = 0.05
KILLS = 5  # at least
PATIENCE = 90.0
DICE = Random()  # noqa: S311 - no secret


class Effects:
    """Lines of a file: tool, idempotency key."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "effects"

    def leave(self, name: str, context: ToolContext) -> str:
        time.sleep(DICE.uniform(0, SLOW))  # what a tool takes, before and after its effect
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{name} {context.idempotency_key}\n".encode())
        os.close(descriptor)
        time.sleep(DICE.uniform(0, SLOW))
        return name

    def found(self) -> Counter[tuple[str, str]]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return Counter((name, key) for name, key in map(str.split, lines))

    def happened(self, key: str) -> bool:
        return any(key == found for _, found in self.found())


class Flaky(ScriptedModel):
    """Fails one call in five."""

    def complete(self, request: Request, on_text: Any) -> Reply:
        time.sleep(DICE.uniform(0, SLOW))
        if DICE.random() < FAILING:
            raise ProviderError("Busy.", kind="overloaded", retryable=True)
        return super().complete(request, on_text)


def workflows(effects: Effects) -> Sequence[Workflow]:
    @tool(read_only=True)
    def read(context: ToolContext) -> str:
        """Read."""
        return effects.leave("read", context)

    @tool(idempotent=True)
    def put(context: ToolContext) -> str:
        """Write under a key."""
        return effects.leave("put", context)

    def find_out(context: ToolContext) -> Happened | DidNotHappen:
        return Happened() if effects.happened(context.idempotency_key) else DidNotHappen()

    @tool(reconcile=find_out)
    def book(context: ToolContext) -> str:
        """Book; what became of it can be found out."""
        return effects.leave("book", context)

    @tool
    def pay(context: ToolContext) -> str:
        """Pay."""
        return effects.leave("pay", context)

    @tool(requires_approval=True)
    def wire(context: ToolContext) -> str:
        """Pay, when a person agrees."""
        return effects.leave("wire", context)

    tools = [read, put, book, pay, wire]
    made = []
    for kind, one in zip(KINDS, tools, strict=True):
        calls: list[Any] = [(one.name, {}), ("read", {})]
        script = [Reply(calls=calls), Reply(calls=[(one.name, {})]), Reply("Done.")]
        # A lost process is charged the call that it may have made: many kills want room.
        limits = Limits(max_turns=100)
        made.append(Agent(kind, tools=tools, model=Flaky(script), limits=limits))
    return made


def work(folder: Path) -> None:
    """A worker, until SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    known = workflows(Effects(folder))
    with Engine(folder / "runs.db", workflows=known, settings=SETTINGS) as engine:
        engine.work(concurrency=CONCURRENCY, stopping=stopping)


def serve(folder: Path) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are not waited for
    for _ in sys.stdin:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                DICE.seed()
                work(folder)
                code = 0
            finally:
                os._exit(code)
        print(pid, flush=True)


@dataclass
class Report:
    """What came of it."""

    states: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    kills: int = 0
    terms: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    resumed: int = 0
    cancelled: set[str] = field(default_factory=set)
    takeovers: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{dict(self.states)} in {self.seconds:.0f} s; {self.kills} workers killed, "
            f"{self.terms} stopped; {self.takeovers} runs taken over, "
            f"{dict(self.answers)} answered, {self.resumed} failed ones resumed, "
            f"{len(self.cancelled)} cancelled; "
            f"{len(self.wrong)} things wrong"
        )


class Soak:
    """Plays the operator, the person and the one who pulls the plugs."""

    def __init__(self, folder: Path, *, seconds: float, runs: int, workers: int, seed: int) -> None:
        self.seconds, self.runs, self.chance = seconds, runs, Random(seed)  # noqa: S311 - no secret
        self.effects = Effects(folder)
        self.folder, self.size = folder, workers
        self.workers: list[int] = []
        self.report = Report()

    def play(self) -> Report:
        began = time.monotonic()
        known = workflows(self.effects)
        with (
            (self.folder / "log").open("w") as log,
            ending(python("-W", "error", __file__, "serve", self.folder, stderr=log)) as server,
            Engine(self.folder / "runs.db", workflows=known, settings=SETTINGS) as engine,
        ):
            try:
                self._play(engine, server, began)
            finally:
                self._stop_all()
            self._judge(engine)
        self.report.seconds = time.monotonic() - began
        return self.report

    def _play(self, engine: Engine, server: "subprocess.Popen[str]", began: float) -> None:
        for _ in range(self.size):
            self._start(server)
        next_kill, submitted = began + 1.0, 0
        while True:
            now = time.monotonic()
            assert now - began < self.seconds + PATIENCE, f"runs do not end: {self._states(engine)}"
            while submitted < self.runs * min(1.0, (now - began) / (self.seconds * 0.8)):
                engine.submit(KINDS[submitted % len(KINDS)], "Go.")
                submitted += 1
            if next_kill < now and (now < began + self.seconds or self.report.kills < KILLS):
                self._kill(server)
                next_kill = now + self.chance.uniform(*BETWEEN_KILLS)
            self._help(engine)
            self._change_minds(engine)
            is_over = now > began + self.seconds and submitted == self.runs
            is_over = is_over and self.report.kills >= KILLS  # a busy machine takes longer
            if is_over and not set(self._states(engine)) & {*map(str, LIVE), "failed"}:
                return
            time.sleep(0.02)

    def _start(self, server: "subprocess.Popen[str]") -> None:
        assert server.stdin
        assert server.stdout
        print(file=server.stdin, flush=True)
        self.workers.append(int(server.stdout.readline()))

    def _kill(self, server: "subprocess.Popen[str]") -> None:
        pid = self.workers.pop(self.chance.randrange(len(self.workers)))
        softly = self.chance.random() < 0.2
        os.kill(pid, signal.SIGTERM if softly else signal.SIGKILL)
        self.report.terms += softly
        self.report.kills += not softly
        self._start(server)

    def _help(self, engine: Engine) -> None:
        """What people do."""
        for question in engine.approvals():
            self.report.answers[question.kind] += 1
            if question.kind == "in_doubt" and self.effects.happened(question.call):
                engine.approve(question.id, by="ann", result=question.tool)
            else:
                engine.approve(question.id, by="ann")
        for run in engine.runs(state="failed"):
            self.report.resumed += 1
            number = engine._number(run.id)
            engine.store.revise(
                number, lambda s: resume(s, Circumstances(now=clock.now()), "ann", {})
            )

    def _change_minds(self, engine: Engine) -> None:
        """Cancel one of the oldest live runs now and then, whoever drives it just now."""
        if self.chance.random() > CANCELLING or len(self.report.cancelled) >= self.runs // 10:
            return
        live = [run for run in engine.runs(limit=self.runs) if run.state in LIVE]
        for run in live[-1:]:
            with suppress(RunNotResumable):  # it came too late, and that was told
                engine.cancel(run.id, by="ann")
                self.report.cancelled.add(run.id)

    def _states(self, engine: Engine) -> Counter[str]:
        return Counter(str(run.state) for run in engine.runs(limit=self.runs))

    def _stop_all(self) -> None:
        for pid in self.workers:
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + 15
        while any(map(_lives, self.workers)) and time.monotonic() < until:
            time.sleep(0.02)
        for pid in filter(_lives, self.workers):
            self.report.wrong.append(f"worker {pid} did not stop")
            os.kill(pid, signal.SIGKILL)

    def _judge(self, engine: Engine) -> None:
        report, wrong = self.report, self.report.wrong
        report.states = self._states(engine)
        ended = {"done": self.runs - len(report.cancelled), "cancelled": len(report.cancelled)}
        if report.states != +Counter(ended):
            wrong.append(f"not every run is done, or cancelled as wanted: {dict(report.states)}")
        found, keys = self.effects.found(), defaultdict(set)
        for (name, key), times in found.items():
            keys[key.partition("-")[0]].add(name)
            if times > 1 and name in SINGLE:
                wrong.append(f"{name} {key}: {times} times")
        for run in engine.runs(limit=self.runs):
            calls = engine.get(run.id).calls
            done = [call.id for call in calls if call.status == "ok"]
            missing = [id_ for id_ in done if not self.effects_of(found, id_)]
            wrong += [f"{id_} is ok but had no effect" for id_ in missing]
            begun = [call.id for call in calls if call.status == "not_run"]
            wrong += [
                f"{id_} is not run but had its effect"
                for id_ in begun
                if self.effects_of(found, id_)
            ]
            if len(done) != 3 and run.id not in report.cancelled:
                wrong.append(f"{run.id} has {len(done)} calls that are ok, not 3")
            self._judge_history(engine, run.id)
        log = (self.folder / "log").read_text()
        expected = ("Lease lost", "maximum number of running instances")  # a slow sweep is left out
        wrong += [li for li in log.splitlines() if not any(word in li for word in expected)]

    def effects_of(self, found: Counter[tuple[str, str]], key: str) -> int:
        return sum(times for (_, one), times in found.items() if one == key)

    def _judge_history(self, engine: Engine, run: str) -> None:
        state: State | None = None
        for seq, entry in enumerate(engine.history(run), 1):
            lost = entry.error is not None and entry.error["type"] == "worker_lost"
            self.report.takeovers += lost
            if (entry.seq, entry.source) != (seq, state):
                self.report.wrong.append(f"{run}: transition {seq} does not follow")
            state = destination(state, Trigger(entry.trigger))
        snapshot = engine.store.load(engine._number(run))
        self.report.wrong += problems(snapshot.transcript, complete=False)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main(seconds: float = 60, runs: float = 300, workers: float = 4, seed: float = 1) -> int:
    with TemporaryDirectory() as folder:
        how = {"runs": int(runs), "workers": int(workers), "seed": int(seed)}
        report = Soak(Path(folder), seconds=seconds, **how).play()
    print(report)
    for line in report.wrong:
        print(f"WRONG: {line}")
    return int(bool(report.wrong))


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]))
    else:
        sys.exit(main(*map(float, sys.argv[1:])))
