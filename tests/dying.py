"""A process that drives a run and dies inside its tool: `python dying.py DATABASE LEDGER`."""

import os
import sys
from pathlib import Path
from typing import Any

from stepwell import Agent, Engine, Reply, ToolCall, tool


def workflow(ledger: Path, model: Any = None) -> Agent:
    """Pays by appending a line to `ledger`; the first time, the process dies right after it."""

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        first = not ledger.exists()
        with ledger.open("a", encoding="utf-8") as file:
            file.write(f"{amount}\n")
        if first:
            os._exit(9)
        return f"paid {amount}"

    @tool(read_only=True)
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    return Agent("w", tools=[pay, add], model=model or _model(), parallel=1)


def _model() -> Any:
    from tests.engines import StrictModel

    calls = [ToolCall("add", {"a": 1, "b": 2}, "c2"), ToolCall("pay", {"amount": 5}, "c1")]
    return StrictModel([Reply(calls=calls), Reply("done")])


if __name__ == "__main__":
    database, ledger = map(Path, sys.argv[1:])
    with Engine(database, workflows=[workflow(ledger)]) as engine:
        engine.run("w", "Pay five.")
