"""The measurements, each beside the floor in the same process, by turns."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.bench import floor, workload

ROUNDS_OF_A_SHORT_RUN = 5


@contextmanager
def fresh() -> Iterator[Path]:
    """A database file in a folder that is gone afterwards. Not in memory: fsync is what counts."""
    folder = Path(tempfile.mkdtemp(prefix="stepwell-bench-", dir=os.environ.get("BENCH_DIR")))
    try:
        yield folder / "bench.db"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def alternate(
    ours: Callable[[], float], theirs: Callable[[], float], times: int
) -> tuple[list[float], list[float]]:
    """Both, by turns, after one round that does not count."""
    ours(), theirs()
    pairs = [(ours(), theirs()) for _ in range(times)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """The median of the ratios of neighbours: what slows the machine down slows both."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def step_of_engine(rounds: int) -> float:
    """Seconds per transition of one run of `rounds` rounds."""
    with fresh() as file, workload.engine(file, rounds) as engine:
        return seconds(lambda: workload.run(engine)) / workload.transitions(rounds)


def step_of_floor(rounds: int) -> float:
    """The same of the floor."""
    with fresh() as file:
        floor.create(file)
        with floor.Floor(file) as writer:
            writer.run(1)
            return seconds(lambda: writer.run(rounds)) / workload.transitions(rounds)


def bytes_of_engine(rounds: int) -> float:
    """What a round adds to the file."""
    return (_size_of_engine(rounds) - _size_of_engine(0)) / rounds


def bytes_of_floor(rounds: int) -> float:
    """The same of the floor."""
    return (_size_of_floor(rounds) - _size_of_floor(0)) / rounds


def _size_of_engine(rounds: int) -> int:
    with fresh() as file:
        with workload.engine(file, rounds) as engine:
            workload.run(engine)
        return file.stat().st_size  # closing it has moved the log into it


def _size_of_floor(rounds: int) -> int:
    with fresh() as file:
        floor.create(file)
        with floor.Floor(file) as writer:
            writer.run(rounds)
        return file.stat().st_size


def runs_of_engine(total: int, at_once: int) -> float:
    """Runs of 5 rounds a second, by `at_once` threads on one engine."""
    share = total // at_once
    with fresh() as file, workload.engine(file, ROUNDS_OF_A_SHORT_RUN) as engine:

        def work() -> None:
            for _ in range(share):
                workload.run(engine)

        return share * at_once / together(at_once, work)


def runs_of_floor(total: int, at_once: int) -> float:
    """The same of the floor, a connection for each thread."""
    share = total // at_once
    with fresh() as file:
        floor.create(file)

        def work() -> None:
            with floor.Floor(file) as writer:
                for _ in range(share):
                    writer.run(ROUNDS_OF_A_SHORT_RUN)

        return share * at_once / together(at_once, work)


def together(threads: int, work: Callable[[], object]) -> float:
    """Seconds until each of so many threads has done it."""
    if threads == 1:
        return seconds(work)
    with ThreadPoolExecutor(threads) as pool:
        return seconds(
            lambda: [done.result() for done in [pool.submit(work) for _ in range(threads)]]
        )


def import_time(module: str) -> float:
    """Seconds of a first import in a new process, its start not counted."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)
