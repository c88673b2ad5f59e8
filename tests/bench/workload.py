"""The workload of every measurement: rounds of one reply and one tool call, each made durable."""

from pathlib import Path

from stepwell import Agent, Engine, Limits, Reply, ScriptedModel, tool

NAME = "bench"
INPUT = "Go through all entries."
DONE = "All entries are as expected."
# With these texts the floor takes the 840 bytes a round that it took when the peers were measured.
TEXT = "I look up the next entry before I go on. " * 4
RESULT = "What is written there. " * 18


@tool(read_only=True)
def look_up(entry: str) -> str:
    """Look one entry up.

    Args:
        entry: Its name.
    """
    assert entry
    return RESULT


def script(rounds: int) -> list[Reply]:
    """Replies that ask for one call each, then the answer."""
    asking = [Reply(TEXT, [("look_up", {"entry": f"entry-{i:06}"})]) for i in range(rounds)]
    return [*asking, Reply(DONE)]


def agent(rounds: int, name: str = NAME) -> Agent:
    """An agent whose model answers at once and asks for `rounds` calls."""
    limits = Limits(max_turns=rounds + 1, max_tool_calls=rounds + 1)
    return Agent(name, tools=[look_up], model=ScriptedModel(script(rounds)), limits=limits)


def engine(file: Path, rounds: int) -> Engine:
    """An engine on a fresh file, warm: its statements are prepared, its threads are there."""
    made = Engine(file, workflows=[agent(rounds), agent(1, "warm")])
    made.run("warm", INPUT)
    return made


def run(made: Engine) -> None:
    """One whole run, through the facade that users call."""
    assert made.run(NAME, INPUT).state == "done"


def transitions(rounds: int) -> int:
    """How many steps of such a run are made durable, after its start."""
    return 2 * rounds + 1
