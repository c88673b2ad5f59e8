"""A report on the expenses, written and mailed without a request: made for a schedule."""

from collections.abc import Sequence

from stepwell import Answer, Ask, Call, Pipeline, Step
from tools.expenses import CURRENCY, list_categories, sum_category
from tools.mail import send_email

RECIPIENT = "office@example.com"
INSTRUCTIONS = """\
You write one or two sentences above a table of expenses: what stands out, and what has changed if
the last report is given. Name no amount that is not in what you are given."""


def plan(task: str, steps: Sequence[Step]) -> Call | Ask | Answer:
    """Add every category up, have a sentence written about it, mail it."""
    if not steps:
        return Call(list_categories.name)
    listed = [one["category"] for one in steps[0].result or ()]
    sums, rest = steps[1 : len(listed) + 1], steps[len(listed) + 1 :]
    if not listed or any(step.result is None for step in sums):
        return Answer("No report was sent: the expenses cannot be read.")
    if len(sums) < len(listed):
        return Call(sum_category.name, category=listed[len(sums)])
    match rest:
        case []:
            return Ask(f"{task}\n\n{_table(sums)}")
        case [said]:
            body = f"{said.text}\n\n{_table(sums)}\n"
            return Call(send_email.name, to=RECIPIENT, subject=_subject(task), body=body)
        case [_, sent] if sent.result is None:
            return Answer("The report could not be sent; the result of the call says why.")
        case _:
            return Answer(f"Sent to {RECIPIENT}. {_total(sums)}")


def _table(sums: Sequence[Step]) -> str:
    lines = [f"{one.result['category']:<12}{one.result['total']:>12}" for one in sums]
    return "\n".join([*lines, _total(sums)])


def _total(sums: Sequence[Step]) -> str:
    cents = sum(one.result["total_cents"] for one in sums)
    sign = "-" if cents < 0 else ""
    return f"Total: {sign}{abs(cents) // 100}.{abs(cents) % 100:02} {CURRENCY}"


def _subject(task: str) -> str:
    return " ".join(task.split("\n", 1)[0].split())[:100]


nightly = Pipeline(
    name="nightly",
    instructions=INSTRUCTIONS,
    tools=[list_categories, sum_category, send_email],
    plan=plan,
    model="scripted:data/nightly.yaml",
)
