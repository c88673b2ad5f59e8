"""One prompt, one call: enough for a task whose input has all the material. Not an agent."""

from stepwell import Agent

INSTRUCTIONS = """\
The input is a text from a customer. Put it into one sentence for a busy colleague: what happened,
and what the customer wants. Add nothing that the text does not say."""

ask = Agent(name="ask", instructions=INSTRUCTIONS, model="scripted:data/ask.yaml")
