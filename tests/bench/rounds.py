"""`make bench`: what a durable step costs beside plain sqlite3, against what we promise.

Absolute times move with the machine and its neighbours; every figure is the median of several, and
every ratio that of measurements made by turns.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median

from tests.bench import crash, measure, workers
from tests.bench.measure import alternate, median_ratio

AT_ONCE = 20
# Short runs are measured more often: one of 20 ms says little.
ROUNDS_IN_ALL = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        ratio: ours to the floor's, of measurements made by turns.
        limit: of the ratio, where there is one; else of `ours`.
        at_least: whether the limit is a lower one.
        later: whether it binds a later version only.
    """

    name: str
    unit: str
    ours: float
    floor: float | None = None
    ratio: float | None = None
    limit: float | None = None
    at_least: bool = False
    later: bool = False

    @property
    def verdict(self) -> str:
        """How it stands."""
        if self.limit is None:
            return ""
        figure = self.ours if self.ratio is None else self.ratio
        good = figure >= self.limit if self.at_least else figure <= self.limit
        return "ok" if good else "not yet" if self.later else "over"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    times: int
    sizes: tuple[int, ...]
    runs: int


FULL = Plan(times=5, sizes=(10, 200, 1000), runs=100)
QUICK = Plan(times=3, sizes=(10, 200), runs=40)


def steps(plan: Plan) -> Iterator[Row]:
    """Time per transition, and whether it stays what it is as a run grows."""
    found = {}
    for rounds in plan.sizes:
        ours, theirs = alternate(
            partial(measure.step_of_engine, rounds),
            partial(measure.step_of_floor, rounds),
            max(plan.times, ROUNDS_IN_ALL // rounds),
        )
        found[rounds] = Row(
            name=f"time per transition, N={rounds}",
            unit="µs",
            ours=median(ours) * 1e6,
            floor=median(theirs) * 1e6,
            ratio=median_ratio(ours, theirs),
            limit=2.5,
        )
        yield found[rounds]
    shortest, longest = plan.sizes[0], plan.sizes[-1]
    grown = found[longest].ours / found[shortest].ours
    name = f"the same, N={longest} to N={shortest}"
    yield Row(name=name, unit="x", ours=grown, limit=1.3)


def size(plan: Plan) -> Row:
    """Bytes per round."""
    rounds = plan.sizes[-1]
    ours, theirs = measure.bytes_of_engine(rounds), measure.bytes_of_floor(rounds)
    name = f"bytes per round, N={rounds}"
    return Row(name=name, unit="B", ours=ours, floor=theirs, limit=1300)


def throughput(plan: Plan) -> Iterator[Row]:
    """Runs of five rounds a second, beside one plain writer alone: many get in each other's way."""
    alone = partial(measure.runs_of_floor, plan.runs, 1)
    for at_once, limit in ((1, 0.5), (AT_ONCE, 1.0)):
        several = partial(measure.runs_of_engine, plan.runs, at_once)
        ours, best = alternate(several, alone, plan.times)
        yield Row(
            name=f"runs a second, {at_once} at once",
            unit="/s",
            ours=median(ours),
            floor=median(best),
            ratio=median_ratio(ours, best),
            limit=limit,
            at_least=True,
            later=True,
        )
    crowd = measure.runs_of_floor(plan.runs, AT_ONCE)
    yield Row(name=f"runs a second, {AT_ONCE} plain writers", unit="/s", ours=crowd)


def starts(plan: Plan) -> Iterator[Row]:
    """How soon a process is there."""
    rounds = plan.sizes[-1]
    took = median(crash.recovery(rounds) for _ in range(plan.times))
    yield Row(name=f"kill -9 to next durable step, N={rounds}", unit="s", ours=took, limit=1.0)
    for module, limit in (("stepwell", 0.15), ("stepwell.engine", None)):
        took = median(measure.import_time(module) for _ in range(plan.times))
        yield Row(name=f"import {module}", unit="s", ours=took, limit=limit, later=True)


def several(plan: Plan) -> Iterator[Row]:
    """Worker processes on one file."""
    found = [
        (workers.crowd(2 * plan.runs), workers.floor_of_crowd(2 * plan.runs))
        for _ in range(plan.times)
    ]
    rates, best = [crowd.rate for crowd, _ in found], [theirs for _, theirs in found]
    yield Row(
        name=f"runs a second, {workers.WORKERS} workers",
        unit="/s",
        ours=median(rates),
        floor=median(best),
        ratio=median_ratio(rates, best),
        limit=0.45,
        at_least=True,
        later=True,
    )
    uneven = median(crowd.uneven for crowd, _ in found)
    yield Row(name="the largest share to an even one", unit="x", ours=uneven, limit=2.0)
    took = workers.pick_up(plan.times) * 1000
    yield Row(name="pick-up of a submitted run", unit="ms", ours=took, limit=100)
    yield Row(name="an idle worker", unit="%", ours=100 * workers.idling(5), limit=1)
    yield Row(name="100 runs in flight", unit="MB", ours=workers.memory(100), limit=150)


def rows(plan: Plan) -> Iterator[Row]:
    """All of it."""
    yield from steps(plan)
    yield size(plan)
    yield from throughput(plan)
    yield from several(plan)
    yield from starts(plan)


def line(row: Row) -> str:
    """A row as it is printed."""
    theirs = "" if row.floor is None else number(row.floor)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f} x"
    unit = row.unit if row.ratio is None else "x floor"
    sign = ">=" if row.at_least else "<="
    target = "" if row.limit is None else f"{sign} {row.limit:,g} {unit}"
    text = f"{row.name:38} {number(row.ours):>8} {row.unit:2} {theirs:>8} {ratio:>8}  {target:15}"
    return f"{text} {row.verdict}".rstrip()


def number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON, one object for each row")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements")
    options = parser.parse_args()
    if os.getloadavg()[0] > 1:
        print(
            "The machine is busy: a slow disk or a queue for the cores hides costs.",
            file=sys.stderr,
        )
    if not options.json:
        print(f"{'':38} {'Stepwell':>8}    {'floor':>8} {'ratio':>8}  target")
    for row in rows(QUICK if options.quick else FULL):
        if options.json:
            print(json.dumps(asdict(row) | {"verdict": row.verdict}), flush=True)
        else:
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
