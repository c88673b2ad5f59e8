"""One task in three forms: a pipeline, a pipeline with one decision, an agent.

The shelf of a spare part is in its record, or in that of its replacement, or in a later one. The
length of the chain is not known in advance. docs/choosing.md compares the three.
"""

import json
from collections.abc import Sequence

from stepwell import Agent, Answer, Ask, Call, Limits, Pipeline, ScriptedModel, Step
from tools.parts import look_up_part
from workflows.lookup_model import follow

INSTRUCTIONS = """\
You tell on which shelf a spare part is. A record names the shelf, or after `see` the part that
replaced it, which has a record of its own. Never guess a shelf: if the records that you have do not
name it, say which part would have to be looked up next. Answer in one sentence."""

LIMITS = Limits(max_turns=6)
"""The same for all three: enough for five records in a row."""

# No example of a number: where the question has none, it could be taken for the one that is meant.
_NUMBER = "Which part is meant? Reply with its number alone.\n\n"


def plan(question: str, steps: Sequence[Step]) -> Ask | Call | Answer:
    """Find the number, look it up, answer: always two model calls and one record."""
    match steps:
        case []:
            return Ask(_NUMBER + question)
        case [number]:
            return Call(look_up_part.name, number=number.text)
        case [_, found]:
            return Ask(_with_records(question, found))
        case _:
            return Answer(steps[-1].text)


def plan_with_decision(question: str, steps: Sequence[Step]) -> Ask | Call | Answer:
    """The same, but the model may once look up a second record."""
    match steps:
        case [] | [_]:
            return plan(question, steps)
        case [_, found]:
            return Ask(_with_records(question, found), tools=[look_up_part.name])
        case [_, found, decided] if decided.results:
            return Ask(_with_records(question, found, decided))
        case _:
            return Answer(steps[-1].text)


def _with_records(question: str, *steps: Step) -> str:
    """The question, and the record or the error that each look-up came to, a line each."""
    outcomes = [result.outcome for step in steps for result in step.results]
    return "\n".join([question, "", *(json.dumps(outcome) for outcome in outcomes)])


lookup_pipeline = Pipeline(
    name="lookup_pipeline",
    instructions=INSTRUCTIONS,
    tools=[look_up_part],
    plan=plan,
    model=ScriptedModel([follow]),
    limits=LIMITS,
)
lookup_decision = Pipeline(
    name="lookup_decision",
    instructions=INSTRUCTIONS,
    tools=[look_up_part],
    plan=plan_with_decision,
    model=ScriptedModel([follow]),
    limits=LIMITS,
)
lookup = Agent(
    name="lookup",
    instructions=INSTRUCTIONS,
    tools=[look_up_part],
    model=ScriptedModel([follow]),
    limits=LIMITS,
)
