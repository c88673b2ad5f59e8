"""A small assistant that calculates and knows the time: the shortest complete workflow."""

from stepwell import Agent
from tools.calculator import calculate
from tools.world_clock import get_current_time

INSTRUCTIONS = """\
You answer briefly. Use calculate for every calculation, however simple, and get_current_time for
anything that depends on the time or the date. Ask for both at once when both are needed."""

assistant = Agent(
    name="assistant",
    instructions=INSTRUCTIONS,
    tools=[calculate, get_current_time],
    model="scripted:data/assistant.yaml",
)
