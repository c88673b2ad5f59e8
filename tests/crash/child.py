"""The process that is killed: one workflow with every kind of tool, and what is done with its runs.

`child.py` serves: each line on standard input, `{"job": ..., ...}`, is done by a fork of this
process, so that a crash does not cost an interpreter's start. `child.py JOB JSON` does one job and
ends as any program does. Nothing here is a hook in the product: commits are counted by a cursor
that SQLAlchemy is told to use, and effects are lines of a file.
"""

import json
import os
import signal
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import apscheduler.schedulers.background  # noqa: F401 - imported once, not in every fork
from sqlalchemy import Engine as Database
from sqlalchemy import event

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
    tool,
)
from stepwell.messages import Request, ToolMessage
from stepwell.views import ApprovalView, RunDetail

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
    script = [
        Reply("First.", calls=[("read", {"amount": 1}), ("put", {"amount": 2}), ("pay", {"amount": 3})]),
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
        amount = question.arguments["amount"]
        engine.approve(question.id, by="ann", result=RESULTS[question.tool].format(amount))
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


JOBS = {"whole": whole}


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
