"""The workflows that the workers of these tests drive, and the folder in which they meet them.

A tool that holds says so by a file `at <name>` and goes on when there is a file `go <name>`.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stepwell import Agent, Happened, Reply, ScriptedModel, ToolContext, Workflow, tool
from stepwell.messages import Request

PATIENCE = 60.0


class Place:
    """A folder that the tools of several processes and a test share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def note(self, line: str) -> None:
        """One more effect."""
        descriptor = os.open(self.folder / "effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)

    @property
    def effects(self) -> list[str]:
        file = self.folder / "effects"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def has_come(self, name: str) -> bool:
        return (self.folder / f"at {name}").exists()

    def let_go(self, name: str) -> None:
        (self.folder / f"go {name}").touch()

    def hold(self, name: str) -> None:
        (self.folder / f"at {name}").touch()
        until = time.monotonic() + PATIENCE
        while not (self.folder / f"go {name}").exists() and time.monotonic() < until:
            time.sleep(0.005)


def _calls(tool_name: str) -> ScriptedModel:
    """A model that calls this tool with the run's input, and is content with the result."""

    def ask(request: Request) -> Reply:
        return Reply(calls=[(tool_name, {"name": request.transcript[0].text})])

    return ScriptedModel([ask, Reply("Done.")])


def workflows(folder: Path) -> Sequence[Workflow]:
    place = Place(folder)

    @tool
    def hold(context: ToolContext, name: str) -> str:
        """Wait until the test lets go, then have an effect."""
        place.hold(name)
        place.note(f"{name} {context.idempotency_key} {os.getpid()}")
        return f"held {name}"

    @tool
    def pool(name: str) -> str:
        """Wait on a thread that Python waits for at the end."""
        with ThreadPoolExecutor() as executor:
            executor.submit(place.hold, name).result()
        return name

    @tool(reconcile=lambda _context: Happened("found"))
    def find(name: str) -> str:
        """Wait; what became of it can be found out."""
        place.hold(name)
        return name

    @tool
    def pay(context: ToolContext, name: str) -> str:
        """Have an effect."""
        place.note(f"{name} {context.idempotency_key} {os.getpid()}")
        return f"paid {name}"

    return [
        Agent("plain", model=ScriptedModel([Reply("Done.")])),
        Agent("holding", tools=[hold], model=_calls("hold")),
        Agent("pooling", tools=[pool], model=_calls("pool")),
        Agent("finding", tools=[find], model=_calls("find")),
        Agent("paying", tools=[pay], model=_calls("pay")),
    ]
