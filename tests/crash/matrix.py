"""The crash matrix: every commit point of a run, every kind of tool, everything that goes wrong.

    python -m tests.crash.matrix            all cells, as a table; `make crash`
    python -m tests.crash.matrix --write    also into docs/crash.md

A cell is a worker that meets a fault, and whoever comes after it: a process that goes on, and a
person who looks whether a call in doubt happened. With `serve`, cells are read from standard input.
Each process is a fork of this one, which has imported everything and has no threads.
"""

import json
import os
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import apscheduler.schedulers.background  # noqa: F401 - imported once, not in every fork
from sqlalchemy import Engine as Database
from sqlalchemy import event

from stepwell import (
    Agent,
    DidNotHappen,
    Engine,
    Happened,
    ProviderError,
    Reply,
    ScriptedModel,
    ToolContext,
    tool,
)
from stepwell.errors import RunNotResumable
from stepwell.messages import Request
from stepwell.settings import Settings
from stepwell.store import connections
from tests.crash.conftest import check_run

# What is committed when: the run is claimed, its call asked for and recorded as running, the
# call's outcome recorded, the run's answer recorded.
COMMITS = {"request_tools": "request", "results_ready": "outcome", "answer": "answer"}
POINTS = [
    f"{when} {commit}" for commit in ("claim", *COMMITS.values()) for when in ("before", "after")
]
TOOLS = ["read-only", "idempotent", "reconcilable", "other"]
FAULTS = ["SIGKILL", "SIGTERM", "SIGSTOP", "disk full", "locked", "provider down", "cancel"]

LEASE = Settings(lease=1, heartbeat=0.2, retry_base=0, outage=0, synchronous="off")
BOUND = 0.2  # seconds that a commit is tried for, and for how long another process keeps the lock
LOCKED_FOR = 0.5
LONG = "More than fits into the last page. " * 400
HUNG = 60
DOCS = Path(__file__).parents[2] / "docs" / "crash.md"


@dataclass(frozen=True)
class Cell:
    """One place of the matrix."""

    point: str
    tool: str
    fault: str


@dataclass(frozen=True)
class Result:
    """How often the call had its effect, whether a person was asked, and how the run ended."""

    effects: int
    asked: bool
    state: str = "done"

    def __str__(self) -> str:
        ended = "" if self.state == "done" else f", {self.state}"
        return f"{self.effects}{', asked' if self.asked else ''}{ended}"


def cells() -> Iterator[Cell]:
    for point, fault, kind in product(POINTS, FAULTS, TOOLS):
        yield Cell(point, kind, fault)


def sample() -> list[Cell]:
    """Every pair of point and fault, point and tool, fault and tool."""
    return [
        Cell(point, TOOLS[(row + column) % len(TOOLS)], fault)
        for row, point in enumerate(POINTS)
        for column, fault in enumerate(FAULTS)
    ]


def expected(cell: Cell) -> Result:
    """An outcome is lost where the process is lost between its two records, before or after the effect."""
    if cell.fault == "cancel":
        # A call that was recorded as running takes effect; no further one begins.
        ended = "done" if cell.point == "after answer" else "cancelled"
        return Result(int(POINTS.index(cell.point) >= POINTS.index("after request")), False, ended)
    loses_all = cell.fault in {"SIGKILL", "SIGSTOP"}
    happened = cell.point == "before outcome" and (loses_all or cell.fault == "disk full")
    happened |= cell.point == "after request" and cell.fault == "disk full"
    not_begun = cell.point == "after request" and loses_all
    repeated = happened and cell.tool in {"read-only", "idempotent"}
    return Result(1 + repeated, asked=cell.tool == "other" and (happened or not_begun))


# -- the workflow


class Effects:
    """What the tool has done, on the disk."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "effects"

    @property
    def keys(self) -> list[str]:
        return self.file.read_text().split() if self.file.exists() else []

    def leave(self, key: str) -> None:
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{key}\n".encode())
        os.fsync(descriptor)
        os.close(descriptor)


def workflow(effects: Effects, kind: str, at: Callable[[str], None]) -> Agent:
    """One call of one tool, and an answer. `at` is told of every place that is no commit."""

    def find_out(context: ToolContext) -> Happened | DidNotHappen:
        return Happened("paid") if context.idempotency_key in effects.keys else DidNotHappen()

    flags: dict[str, dict[str, Any]] = {
        "read-only": {"read_only": True},
        "idempotent": {"idempotent": True},
        "reconcilable": {"reconcile": find_out},
        "other": {},
    }

    @tool(**flags[kind])
    def act(context: ToolContext) -> str:
        """Have an effect."""
        effects.leave(context.idempotency_key)
        at("effect")
        return LONG

    def ask(_request: Request) -> Reply:
        at("first model call")
        return Reply(LONG, calls=[("act", {})])

    def answer(_request: Request) -> Reply:
        at("second model call")
        return Reply(LONG)

    return Agent("cell", tools=[act], model=ScriptedModel([ask, answer]))


# -- what goes wrong

# Places before a commit at which others can write: within one, this process has the lock.
STOPS = {
    "begin": "before claim",
    "first model call": "before request",
    "effect": "before outcome",
    "second model call": "before answer",
}
# A fault that lasts begins with the commit before, for the next one has to meet it.
BEGINS = {point: POINTS[max(0, place - 1)] for place, point in enumerate(POINTS)}


class Trouble:
    """Makes one fault happen at one point."""

    def __init__(self, cell: Cell, file: Path) -> None:
        self.cell, self.file = cell, file
        self.writer: sqlite3.Connection | None = None
        self.is_down = False
        self.has_happened = False
        self.seen: set[str] = set()
        self.writing = threading.Lock()
        lasts = cell.fault in {"disk full", "locked", "provider down"}
        starts_after = BEGINS[cell.point] if cell.point.startswith("before") else cell.point
        self.place = starts_after if lasts and cell.point != "before claim" else cell.point

    def at(self, place: str) -> None:
        if self.is_down and place.endswith("model call"):
            raise ProviderError("Down.", kind="overloaded", retryable=True, retry_after=0)
        stops = self.cell.fault in {"SIGSTOP", "cancel"}
        if place == "begin" and self.cell.fault not in {"SIGKILL", "SIGTERM"}:
            place = "before claim"
        elif stops:
            place = STOPS.get(place, "" if place.startswith("before") else place)
        if place == self.place and not self.has_happened:
            self.has_happened = True
            self.happen()

    def happen(self) -> None:
        match self.cell.fault:
            case "SIGKILL" | "SIGTERM" | "SIGSTOP" as name:
                # to this very thread, which then goes no step further; and while no thread writes:
                # a process that is stopped within a transaction keeps all others from writing
                with self.writing if name == "SIGSTOP" else nullcontext():
                    signal.pthread_kill(threading.get_ident(), getattr(signal, name))
            case "disk full":
                assert self.writer
                ((pages,),) = self.writer.execute("PRAGMA page_count")
                self.writer.execute(f"PRAGMA max_page_count={pages}")
            case "locked":
                self._lock()
            case "provider down":
                self.is_down = True
            case "cancel":
                with Engine(self.file, settings=LEASE) as other, suppress(RunNotResumable):
                    other.cancel("last", by="ann")

    def _lock(self) -> None:
        other = sqlite3.connect(self.file, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(LOCKED_FOR, other.close).start()


class Cursor(sqlite3.Cursor):
    """Tells its trouble before and after the first commit of each kind."""

    trouble: Trouble
    coming: list[str]  # one transaction may hold several
    writes = False

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        if sql == "BEGIN IMMEDIATE":
            return self._begin(sql)
        if sql in {"COMMIT", "ROLLBACK"}:
            return self._end(sql)
        if "fence = fence + 1" in sql:
            self.coming.append("claim")
        elif "INTO transition" in sql.replace('"', ""):
            [trigger] = [value for value in parameters if value in TRIGGERS]
            self.coming += [COMMITS[trigger]] if trigger in COMMITS else []
        return super().execute(sql, parameters)

    def _begin(self, sql: str) -> Any:
        self.coming = []
        self._let_go()  # a full disk has rolled the one before back
        self.trouble.writing.acquire()
        self.writes = True
        try:
            return super().execute(sql)
        except sqlite3.Error:
            self._let_go()
            raise

    def _let_go(self) -> None:
        if self.writes:
            self.writes = False
            self.trouble.writing.release()

    def _end(self, sql: str) -> Any:
        come = [one for one in self.coming if one not in self.trouble.seen and sql == "COMMIT"]
        self.trouble.seen.update(come)
        for one in come:
            self.trouble.at(f"before {one}")
        done = super().execute(sql)
        self._let_go()
        for one in come:
            self.trouble.at(f"after {one}")
        return done


class Connection(sqlite3.Connection):
    def cursor(self, factory: Any = Cursor) -> Any:
        return super().cursor(factory)


def watch(trouble: Trouble) -> None:
    """Let the writer of this process have it."""
    Cursor.trouble = trouble

    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        if options.get("timeout") != 0 or trouble.writer:  # a reader, or who cancels
            return sqlite3.connect(*arguments, **options)
        trouble.writer = sqlite3.connect(*arguments, **options, factory=Connection)
        return trouble.writer

    event.listen(Database, "do_connect", connect)


TRIGGERS = {*COMMITS, "start", "retry", "fail", "call_finished", "ask", "start_calls", "cancel"}


# -- the processes


def victim(cell: Cell, folder: Path) -> int:
    """A worker that meets the fault."""
    connections.RETRY_FOR = BOUND
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    file = folder / "runs.db"
    trouble = Trouble(cell, file)
    watch(trouble)
    agent = workflow(Effects(folder), cell.tool, trouble.at)
    with Engine(file, workflows=[agent], settings=LEASE) as engine:
        engine.submit("cell", "Go.")
        trouble.at("begin")
        engine.work(until_idle=True, stopping=stopping)
    return 128 + signal.SIGTERM if stopping.is_set() and cell.fault == "SIGTERM" else 0


def successor(cell: Cell, folder: Path) -> int:
    """Goes on until the run has ended, and answers as a person who looks first; 1 if one was asked."""
    effects = Effects(folder)
    agent = workflow(effects, cell.tool, lambda _place: None)
    asked = False
    with Engine(folder / "runs.db", workflows=[agent], settings=LEASE) as engine:
        if engine.get("last").state == "cancelled":
            return 0
        run = engine.resume("last")
        while run.state == "awaiting_approval":
            asked = True
            [question] = engine.approvals(run.id)
            happened: dict[str, Any] = {"result": "paid"} if question.call in effects.keys else {}
            engine.approve(question.id, by="ann", **happened)
            run = engine.resume(run.id)
    return int(asked)


def audit(_cell: Cell, folder: Path) -> int:
    """0 if the history obeys the state machine, and the file is whole."""
    check_run(folder)
    return 0


def fork(job: Callable[[Cell, Path], int], cell: Cell, folder: Path) -> int:
    """The id of a process that does a job. One that hangs is ended."""
    pid = os.fork()
    if not pid:
        _become(job, cell, folder)
    return pid


def _become(job: Callable[[Cell, Path], int], cell: Cell, folder: Path) -> NoReturn:
    code = 99
    try:
        signal.alarm(HUNG)
        sys.stderr = (folder / "log").open("a")
        code = job(cell, folder)
    except BaseException:  # noqa: BLE001 - the cell's reader is told
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def done(pid: int) -> int:
    """The exit code of a process that has ended; or minus SIGSTOP, if it has been stopped."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    return -signal.SIGSTOP if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)


CODES = {"SIGKILL": -signal.SIGKILL, "SIGTERM": 128 + signal.SIGTERM, "SIGSTOP": -signal.SIGSTOP}


def play(cell: Cell, folder: Path) -> Result:
    """What becomes of a run in this place of the matrix."""
    first = fork(victim, cell, folder)
    codes = [done(first)]
    codes.append(done(fork(successor, cell, folder)))
    if codes[0] == -signal.SIGSTOP:
        os.kill(first, signal.SIGCONT)
        codes.append(done(first))
    codes.append(done(fork(audit, cell, folder)))
    wanted = CODES.get(cell.fault, 0)
    if codes[0] != wanted or codes[1] not in {0, 1} or any(codes[2:]):
        log = (folder / "log").read_text()
        raise AssertionError(f"{cell}: exit codes {codes}\n{log}")
    with sqlite3.connect(f"{(folder / 'runs.db').as_uri()}?mode=ro", uri=True) as reader:
        ((state,),) = reader.execute("SELECT state FROM run")
    reader.close()
    keys = Effects(folder).keys
    assert len(set(keys)) <= 1, keys  # however often: under one idempotency key
    return Result(len(keys), asked=codes[1] == 1, state=state)


# -- tables


def table(results: dict[Cell, Result]) -> str:
    lines = [
        f"| commit | fault | {' | '.join(TOOLS)} |",
        f"|---|---|{'---|' * len(TOOLS)}",
    ]
    for point, fault in product(POINTS, FAULTS):
        found = [str(results[Cell(point, kind, fault)]) for kind in TOOLS]
        lines.append(f"| {point} | {fault} | {' | '.join(found)} |")
    return "\n".join(lines)


def write(text: str) -> None:
    page = DOCS.read_text("utf-8")
    head, _, rest = page.partition("<!-- matrix:begin -->\n")
    _, _, tail = rest.partition("<!-- matrix:end -->")
    DOCS.write_text(f"{head}<!-- matrix:begin -->\n{text}\n<!-- matrix:end -->{tail}", "utf-8")


def serve() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        folder = Path(asked.pop("folder"))
        try:
            answer = asdict(play(Cell(**asked), folder))
        except AssertionError as failed:
            answer = {"failed": str(failed)}
        print(json.dumps(answer), flush=True)


def main() -> int:
    began, results, wrong = time.monotonic(), {}, 0
    for cell in cells():
        with TemporaryDirectory() as folder:
            results[cell] = play(cell, Path(folder))
        if results[cell] != expected(cell):
            wrong += 1
            print(f"WRONG {cell}: {results[cell]}, not {expected(cell)}", flush=True)
    text = table(results)
    print(text)
    seconds = time.monotonic() - began
    print(f"\n{len(results)} cells in {seconds:.0f} s, {wrong} not as expected.")
    if "--write" in sys.argv and not wrong:
        write(text)
    return int(wrong > 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        sys.exit(main())
