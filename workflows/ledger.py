"""Questions about expenses: read-only tools, several at once, and never a guessed number."""

from stepwell import Agent
from tools.expenses import list_categories, list_expenses, sum_category

INSTRUCTIONS = """\
You answer questions about the firm's expenses. Every amount in your answer comes from a tool; you
never add, estimate or remember one. Ask for everything you need at once, since nothing you can do
changes anything. If a category does not exist, say so and name those that do; never answer for
another one in its place. Amounts are in euros and cents."""

ledger = Agent(
    name="ledger",
    instructions=INSTRUCTIONS,
    tools=[list_categories, sum_category, list_expenses],
    model="scripted:data/ledger.yaml",
)
