"""The process that is killed: one workflow with every kind of tool, and what is done with its runs.

`child.py` serves: each line on standard input, `{"job": ..., ...}`, is done by a fork of this
process, so that a crash does not cost an interpreter's start. `child.py JOB JSON` does one job and
ends as any program does. Nothing here is a hook in the product: commits are counted by a cursor
that SQLAlchemy is told to use, and effects are lines of a file.
"""

import asyncio
import json
import os
import resource
import signal
import sqlite3
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import apscheduler.schedulers.background  # noqa: F401 - imported once, not in every fork
from sqlalchemy import Engine as Database
from sqlalchemy import event
from sqlalchemy.pool import Pool

from stepwell import (
    Agent,
    Approvals,
    Engine,
    Limits,
    ProviderError,
    Reply,
    ScriptedModel,
    StepwellError,
    ToolContext,
    clock,
    tool,
)
from stepwell.messages import Request, ToolMessage, UserMessage
from stepwell.providers.scripted import Line
from stepwell.views.runs import ApprovalView, RunDetail

KEY = "the one run"
RESULTS = {"read": "read {}", "put": "put {}", "pay": "paid {}", "wire": "wired {}"}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Effects:
    """Lines of a file in which each tool leaves what it did; safe on the disk when it returns."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "effects"
        self.die: dict[str, Any] = {}

    def happened(self, key: str) -> bool:
        return self.file.exists() and key in self.file.read_text().split()

    def leave(self, name: str, context: ToolContext, amount: int) -> str:
        wanted = self.die.get("in") == f"{name} {amount}"
        if wanted and self.die["when"] == "before":
            die()
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{name} {context.idempotency_key} {os.getpid()}\n".encode())
        os.fsync(descriptor)
        os.close(descriptor)
        if wanted:
            die()
        return RESULTS[name].format(amount)


def every_tool(effects: Effects) -> list[Any]:
    @tool(read_only=True)
    def read(context: ToolContext, amount: int) -> str:
        """Read something."""
        return effects.leave("read", context, amount)

    @tool(idempotent=True)
    async def put(context: ToolContext, amount: int) -> str:
        """Write something under a key."""
        return effects.leave("put", context, amount)

    @tool
    def pay(context: ToolContext, amount: int) -> str:
        """Pay."""
        return effects.leave("pay", context, amount)

    @tool
    def wire(context: ToolContext, amount: int) -> str:
        """Pay, when a person agrees."""
        return effects.leave("wire", context, amount)

    return [read, put, pay, wire]


def told(request: Request) -> Reply:
    """An answer that repeats every result that the model was shown, in order."""
    results = [m.text for m in request.transcript if isinstance(m, ToolMessage)]
    return Reply(" ".join(["Done:", *results]))


def workflow(effects: Effects) -> Agent:
    busy = ProviderError("Busy.", kind="overloaded", retryable=True, retry_after=0)
    script: list[Line] = [
        Reply(
            "First.",
            calls=[("read", {"amount": 1}), ("put", {"amount": 2}), ("pay", {"amount": 3})],
        ),
        busy,
        Reply("Then.", calls=[("wire", {"amount": 4}), ("put", {"amount": 5})]),
        Reply("At last.", calls=[("pay", {"amount": 6})]),
        told,
    ]
    return Agent(
        "crash",
        tools=every_tool(effects),
        model=ScriptedModel(script),
        limits=Limits(max_turns=30),
        approvals=Approvals(always=["wire"]),
    )


class Commits:
    """Counts what the writer commits, and dies before or after one of them."""

    def __init__(self, die_at: dict[str, Any]) -> None:
        self.seen = 0
        self.die_at = die_at
        event.listen(Database, "do_connect", self._connect)

    def _connect(self, _dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        commits = self

        class Cursor(sqlite3.Cursor):
            def execute(self, sql: str, parameters: Any = ()) -> Any:
                if sql != "COMMIT":
                    return super().execute(sql, parameters)
                commits.seen += 1
                mine = commits.seen == commits.die_at.get("commit")
                if mine and commits.die_at["when"] == "before":
                    die()
                done = super().execute(sql, parameters)
                if mine:
                    die()
                return done

        class Connection(sqlite3.Connection):
            def cursor(self, factory: Any = Cursor) -> Any:
                return super().cursor(factory)

        return sqlite3.connect(*arguments, **options, factory=Connection)


def decide(engine: Engine, effects: Effects, question: ApprovalView) -> None:
    """As a person does it: who is asked about a call in doubt looks whether it happened."""
    if question.kind == "in_doubt" and effects.happened(question.call):
        said = RESULTS.get(question.tool, "paid").format(question.arguments.get("amount"))
        engine.approve(question.id, by="ann", result=said)
    else:
        engine.approve(question.id, by="ann")


def finish(engine: Engine, effects: Effects) -> RunDetail:
    """Start the run, or go on with it, and answer whatever is asked, until it has ended."""
    run = engine.resume("last") if engine.runs() else engine.run("crash", "Go.", key=KEY)
    while run.state == "awaiting_approval":
        for question in engine.approvals(run.id):
            decide(engine, effects, question)
        run = engine.resume(run.id)
    return run


def whole(folder: str, die: dict[str, Any] | None = None) -> dict[str, Any]:
    """A run's whole life. `die`: at which commit, or in which tool."""
    effects, commits = Effects(Path(folder)), Commits(die or {})
    effects.die = die or {}
    began = time.monotonic()
    with Engine(Path(folder, "runs.db"), workflows=[workflow(effects)]) as engine:
        run = finish(engine, effects)
    return {
        "state": run.state,
        "answer": run.answer,
        "commits": commits.seen,
        "seconds": time.monotonic() - began,
    }


def look_on(folder: str) -> dict[str, Any]:
    """Go on with the run, but answer nothing."""
    effects = Effects(Path(folder))
    with Engine(Path(folder, "runs.db"), workflows=[workflow(effects)]) as engine:
        run = engine.resume("last")
        asked = [[question.kind, question.tool] for question in engine.approvals(run.id)]
    return {"state": run.state, "asked": asked}


def talk(folder: str, die: dict[str, Any] | None = None) -> dict[str, Any]:
    """A run that is told something when it is done, and more while it works on that.

    Who sends looks first whether it has sent it already, as a person would after a crash.
    """
    commits = Commits(die or {})
    file = Path(folder, "runs.db")

    def tell(count: int, text: str) -> None:
        if len(engine.get("last").inbox) < count:
            engine.send("last", text)

    @tool(read_only=True)
    def read() -> str:
        """Read something."""
        tell(2, "Second.")
        return "read"

    def answer(request: Request) -> Reply:
        said = [m.text for m in request.transcript if isinstance(m, UserMessage)]
        return Reply(" ".join(["Heard:", *said]))

    script: list[Line] = [answer, Reply(calls=[("read", {})]), answer]
    limits = Limits(max_turns=30)
    agent = Agent("talk", tools=[read], model=ScriptedModel(script), limits=limits)
    with Engine(file, workflows=[agent]) as engine:
        run = engine.resume("last") if engine.runs() else engine.run("talk", "Go.", key=KEY)
        tell(1, "First.")
        run = engine.resume(run.id)
    return {"state": run.state, "answer": run.answer, "commits": commits.seen}


class Meeting:
    """Where a process says that it has come to a place, and stays until it may go on."""

    def __init__(self, folder: Path, place: str) -> None:
        self.folder, self.place = folder, place

    def at(self, place: str) -> None:
        while self.must_wait(place):
            time.sleep(0.01)

    def must_wait(self, place: str) -> bool:
        if place != self.place:
            return False
        (self.folder / f"at {place}").touch()
        return not (self.folder / "go on").exists()


def waiting(folder: Path, place: str) -> Agent:
    """A workflow that waits at a place: in the model, in a tool, or nowhere."""
    effects, meeting = Effects(folder), Meeting(folder, place)

    def ask(request: Request) -> Reply:
        meeting.at("model")
        return Reply("First.", calls=[("sync", {}), ("coroutine", {}), ("keyed", {})])

    @tool
    def sync(context: ToolContext) -> str:
        """Pay, slowly."""
        effects.leave("pay", context, 1)
        meeting.at("tool")
        return "paid"

    @tool
    async def coroutine(context: ToolContext) -> str:
        """Pay, slowly, and let others go on."""
        effects.leave("pay", context, 2)
        while meeting.must_wait("coroutine"):  # noqa: ASYNC110 - for another process
            await asyncio.sleep(0.01)
        return "paid"

    @tool(idempotent=True)
    def keyed(context: ToolContext) -> str:
        """Write something under a key."""
        effects.leave("put", context, 3)
        meeting.at("keyed")
        return "put"

    @tool
    def last(context: ToolContext) -> str:
        """Pay, when everything else has happened."""
        effects.leave("pay", context, 4)
        return "paid"

    script: list[Line] = [ask, Reply("Then.", calls=[("last", {})]), told]
    limits = Limits(max_turns=30)
    return Agent(
        "waits", tools=[sync, coroutine, keyed, last], model=ScriptedModel(script), limits=limits
    )


def stop(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def wait_at(folder: str, place: str) -> dict[str, Any]:
    """Run until a signal comes, as a program does that lets its `with` blocks end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
    with Engine(Path(folder, "runs.db"), workflows=[waiting(Path(folder), place)]) as engine:
        run = engine.run("waits", "Go.")
    return {"state": run.state, "answer": run.answer}


def take_over(folder: str) -> dict[str, Any]:
    """Follow the run until its lease is over, then drive it."""
    effects = Effects(Path(folder))
    with Engine(Path(folder, "runs.db"), workflows=[waiting(Path(folder), "nowhere")]) as engine:
        run = finish(engine, effects)
    return {"state": run.state, "answer": run.answer}


def fill(folder: str) -> dict[str, Any]:
    """Run on a disk that has no room any more as soon as a tool has had its effect."""
    writers: list[sqlite3.Connection] = []

    def remember(connection: Any, _record: object) -> None:
        writers.append(connection)

    event.listen(Pool, "connect", remember)
    path = Path(folder)
    effects = Effects(path)

    @tool
    def pay(context: ToolContext) -> str:
        """Pay, and use up the last page."""
        effects.leave("pay", context, 1)
        ((pages,),) = writers[0].execute("PRAGMA page_count")
        writers[0].execute(f"PRAGMA max_page_count={pages}")
        return "paid " * 5_000

    script: list[Line] = [Reply(calls=[("pay", {})]), Reply(calls=[("pay", {})]), Reply("Done.")]
    agent = Agent("full", tools=[pay], model=ScriptedModel(script))
    with Engine(path / "runs.db", workflows=[agent]) as engine:
        run = engine.run("full", "Go.")
    return {"state": run.state}


def create(folder: str, bytes_: int) -> None:
    """Create the database, killed when a file would become longer than this many bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))
    Engine(Path(folder, "runs.db")).close()


def claim_all(folder: str) -> None:
    """Claim every run, as a worker that is killed before it has driven any."""
    with Engine(Path(folder, "runs.db")) as engine:
        now = clock.now()
        while engine.store.claim(["waits"], now, now + timedelta(hours=1)):
            pass
        die()


def work(folder: str) -> None:
    """A worker, for ever."""
    signal.signal(signal.SIGTERM, stop)
    agent = Agent("waits", model=ScriptedModel([Reply("Done.")]))
    with Engine(Path(folder, "runs.db"), workflows=[agent]) as engine:
        engine.work()


JOBS = {
    job.__name__: job
    for job in (whole, look_on, talk, wait_at, take_over, fill, create, claim_all, work)
}


def serve() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                answer = JOBS[job.pop("job")](**job)
                os.write(writing, json.dumps(answer).encode())
                os._exit(0)
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        ended = {"code": os.waitstatus_to_exitcode(status), "said": json.loads(said or "null")}
        print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        serve()
    else:
        try:
            print(json.dumps(JOBS[sys.argv[1]](**json.loads(sys.argv[2]))))
        except StepwellError as error:
            print(json.dumps({"error": error.type, "message": str(error)}))
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)
