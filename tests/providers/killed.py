"""The process that is killed: it runs one workflow against whatever server the environment names."""

import sys
import time
from pathlib import Path

from stepwell import Agent, Engine, tool


def workflow(model: str, effects: Path, seconds: float) -> Agent:
    """A workflow whose `slow` takes its time, and is safe to repeat, and whose `pay` is not."""

    @tool(read_only=True)
    def slow(q: str) -> str:
        """Read something, slowly."""
        time.sleep(seconds)
        return f"about {q}"

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        with effects.open("a") as file:
            file.write(f"paid {amount}\n")
        return f"paid {amount}"

    return Agent("w", tools=[slow, pay], model=model, instructions="Be brief.")


if __name__ == "__main__":
    database, model = sys.argv[1:]
    with Engine(database, workflows=[workflow(model, Path(f"{database}.effects"), 60)]) as engine:
        engine.run("w", "Go on.")
