"""Several worker processes on one file: throughput, shares, pick-up, idling, and memory."""

import json
import select
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Self

import psutil

from stepwell import Agent, Engine, Reply, ScriptedModel
from tests.bench import floor, workload
from tests.bench.measure import ROUNDS_OF_A_SHORT_RUN, fresh, seconds

WORKERS = 4
_PATIENCE = 120.0


class Child:
    """This file as a process of its own. It says a line of JSON when it is ready, and at the end."""

    def __init__(self, what: str, file: Path, *more: object) -> None:
        command = [sys.executable, "-m", "tests.bench.workers", what, str(file), *map(str, more)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        assert self.says() == "ready"
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def go(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def says(self) -> Any:
        """Its next line."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE)
        assert ready, "the child says nothing"
        return json.loads(self._process.stdout.readline())


@dataclass(frozen=True, slots=True)
class Crowd:
    """What four workers did with one queue.

    Attributes:
        rate: runs a second, from the start signal to the last end.
        uneven: the largest share to an even one.
    """

    rate: float
    uneven: float


def crowd(runs: int) -> Crowd:
    """Four workers drive `runs` short runs that are queued when they begin."""
    with fresh() as file, ExitStack() as stack:
        with workload.engine(file, ROUNDS_OF_A_SHORT_RUN) as engine:
            for _ in range(runs):
                engine.submit(workload.NAME, workload.INPUT)
        took = _together(stack, [Child("work", file) for _ in range(WORKERS)])
        with closing(sqlite3.connect(file)) as reader:
            query = "SELECT worker FROM transition WHERE dest = 'done' AND run > 1"
            shares = Counter(worker for (worker,) in reader.execute(query))
    assert shares.total() == runs
    return Crowd(runs / took, max(shares.values()) / (runs / WORKERS))


def floor_of_crowd(runs: int) -> float:
    """Runs a second of four plain writers, a fixed quarter each."""
    with fresh() as file, ExitStack() as stack:
        floor.create(file)
        children = [Child("floor", file, runs // WORKERS) for _ in range(WORKERS)]
        return runs / _together(stack, children)


def _together(stack: ExitStack, children: list[Child]) -> float:
    for child in children:
        stack.enter_context(child)

    def all_of_them() -> None:
        for child in children:
            child.go()
        for child in children:
            child.says()

    return seconds(all_of_them)


def pick_up(times: int) -> float:
    """Seconds until a worker that idles has begun a run that another process submits."""
    rounds = ROUNDS_OF_A_SHORT_RUN
    with fresh() as file, workload.engine(file, rounds) as engine, Child("idle", file) as worker:
        worker.go()
        return median(_picked_up(engine, file) for _ in range(times))


def _picked_up(engine: Engine, file: Path) -> float:
    run = engine.submit(workload.NAME, workload.INPUT)
    begun = time.perf_counter()
    with closing(sqlite3.connect(file)) as reader:
        query = "SELECT fence FROM run WHERE id = ?"
        while reader.execute(query, (run.id,)).fetchone()[0] == 0:
            time.sleep(0.001)
        took = time.perf_counter() - begun
        while reader.execute("SELECT state FROM run WHERE id = ?", (run.id,)).fetchone() != (
            "done",
        ):
            time.sleep(0.001)
    return took


def idling(length: float) -> float:
    """The share of a core that an idle worker takes."""
    with fresh() as file, workload.engine(file, 1), Child("idle", file) as worker:
        worker.go()
        process = psutil.Process(worker.pid)
        time.sleep(1)
        before = sum(process.cpu_times()[:2])
        time.sleep(length)
        return (sum(process.cpu_times()[:2]) - before) / length


def memory(runs: int) -> float:
    """Megabytes of a worker with that many runs in flight, each in a model call."""
    with fresh() as file, Child("hold", file, runs) as worker:
        worker.go()
        assert worker.says() == runs
        return psutil.Process(worker.pid).memory_info().rss / 2**20


def _child(what: str, file: Path, more: list[str]) -> None:
    if what == "floor":
        with floor.Floor(file) as writer:
            _begin()
            for _ in range(int(more[0])):
                writer.run(ROUNDS_OF_A_SHORT_RUN)
    elif what == "hold":
        _begin()
        _hold(file, int(more[0]))
    else:
        agents = [workload.agent(ROUNDS_OF_A_SHORT_RUN), workload.agent(1, "warm")]
        with Engine(file, workflows=agents) as engine:
            _begin()
            if what == "work":
                engine.work(until_idle=True, concurrency=5)
            else:
                engine.work()
    _say("done")


def _begin() -> None:
    _say("ready")
    sys.stdin.readline()


def _hold(file: Path, runs: int) -> None:
    """Begin runs whose model never answers; say how many when all are under way."""
    asked: list[int] = []

    def wait(_request: object) -> Reply:
        asked.append(1)
        if len(asked) == runs:
            _say(runs)
        time.sleep(_PATIENCE)
        return Reply("late")

    agent = Agent("held", model=ScriptedModel([wait]))
    with Engine(file, workflows=[agent]) as engine:
        for _ in range(runs):
            engine.submit("held", workload.INPUT)
        engine.work(concurrency=runs)


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    _child(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
