"""A small assistant that calculates, knows the time and the weather: the shortest workflow."""

from stepwell import Agent
from tools.calculator import calculate
from tools.weather import get_weather
from tools.world_clock import get_current_time

INSTRUCTIONS = """\
You answer briefly. Use calculate for every calculation, however simple, get_current_time for
anything that depends on the time or the date, and get_weather for the weather. Ask for all that is
needed at once. Where the weather is an offline sample, say so: it is not the weather now."""

assistant = Agent(
    name="assistant",
    instructions=INSTRUCTIONS,
    tools=[calculate, get_current_time, get_weather],
    model="scripted:data/assistant.yaml",
)
