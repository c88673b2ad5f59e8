"""The workflows of a test's project: the run's input is the script that its model plays."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from stepwell import Agent, Approvals, Limits, Reply, ScriptedModel, ToolContext, tool
from stepwell.errors import ProviderError
from stepwell.messages import Request, Usage

HERE = Path(__file__).parent


def _note(line: str) -> None:
    with (HERE / "effects").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _gone(name: str) -> bool:
    return (HERE / f"go-{name}").exists()


def _wait(name: str) -> None:
    _note(f"waits {name}")
    until = time.monotonic() + 60
    while not _gone(name) and time.monotonic() < until:
        time.sleep(0.01)


@tool(read_only=True)
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool(requires_approval=True)
def pay(cents: int, to: str = "ann") -> str:
    """Pay somebody."""
    _note(f"paid {cents} {to}")
    return f"paid {cents}"


@tool
def write(line: str) -> str:
    """Write a line: an effect that nobody has to approve."""
    _note(line)
    return "written"


@tool
def hang(name: str) -> str:
    """Wait until the test lets go."""
    _wait(name)
    return f"{name} is through"


@tool
async def hang_async(name: str) -> str:
    """Wait without a thread."""
    _note(f"waits {name}")
    while not _gone(name):  # noqa: ASYNC110 - another process lets go
        await asyncio.sleep(0.01)
    return f"{name} is through"


@tool
def hang_in_a_pool(name: str) -> str:
    """Wait on a thread that Python waits for at the end."""
    with ThreadPoolExecutor() as pool:
        return str(pool.submit(hang, name).result())


@tool(read_only=True)
def read_slowly(name: str) -> str:
    """Wait, changing nothing."""
    _wait(name)
    return f"{name} is read"


@tool(read_only=True)
def big(characters: int) -> str:
    """Give a long text."""
    return "x" * characters


@tool(read_only=True, requires_approval=True)
def say_back(text: str) -> str:
    """Say the same."""
    return text


@tool(read_only=True)
def chatter(text: str) -> str:
    """Print, in all the ways there are."""
    print(f"print {text}")
    print(f"print to stderr {text}", file=sys.stderr)
    os.write(1, f"write {text}\n".encode())
    subprocess.run(["echo", f"child {text}"], check=True)
    return text


@tool(read_only=True)
def leave() -> str:
    """Call sys.exit."""
    sys.exit(9)


@tool
def interrupt() -> str:
    """Send this process what Ctrl-C sends."""
    os.kill(os.getpid(), signal.SIGINT)
    _wait("interrupt")
    return "never"


@tool(read_only=True)
def fork() -> str:
    """Fork; the child comes back from the call too."""
    child = os.fork()
    if child == 0:
        return "child"
    os.waitpid(child, 0)
    return "parent"


@tool(read_only=True)
def thread() -> str:
    """Leave a thread behind that outlives the run."""
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    return "started"


@tool(read_only=True)
def whoami(context: ToolContext) -> str:
    """Give the idempotency key."""
    return context.idempotency_key


def _play(request: Request) -> Reply:
    replies = json.loads(request.transcript[0].text)
    return _reply(request, replies[min(request.turn, len(replies) - 1)])


def _reply(request: Request, line: dict[str, Any]) -> Reply:
    _note(f"model {request.turn}")
    if "wait" in line:
        _wait(line["wait"])
    if request.attempt <= line.get("faults", 0):
        raise ProviderError(
            "The provider is overloaded.",
            kind="overloaded",
            retryable=line.get("retryable", True),
            retry_after=line.get("retry_after"),
        )
    return Reply(
        line.get("text", ""),
        [(name, arguments) for name, arguments in line.get("calls", ())],
        line.get("reasoning"),
        usage=Usage(input_tokens=10, output_tokens=2),
    )


TOOLS = [
    look, pay, write, hang, hang_async, hang_in_a_pool, read_slowly, big, say_back,
    chatter, leave, interrupt, fork, thread, whoami,
]  # fmt: skip
play = Agent(name="play", tools=TOOLS, model=ScriptedModel([_play]))
hello = Agent(name="hello", model=ScriptedModel([Reply("Hello.")]))
short = Agent(
    name="short",
    tools=TOOLS,
    model=ScriptedModel([_play]),
    limits=Limits(max_turns=2, max_tool_calls=3),
    approvals=Approvals(always=["write"]),
)
# 100 USD for a million tokens: the shortest reply that is worth a call may cost 0.0256.
dear = Agent(name="dear", tools=TOOLS, model=ScriptedModel([_play], price=(100, 100)))
modelless = Agent(name="modelless")
