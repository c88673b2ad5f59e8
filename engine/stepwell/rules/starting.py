"""Pure: what a new run is made of, and its first transition."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict

from stepwell.errors import InvalidInput
from stepwell.machine import INITIAL, Trigger
from stepwell.plain_json import clean
from stepwell.rules.allowances import amounts
from stepwell.rules.budget import UNITS
from stepwell.rules.change import Change
from stepwell.state.records import ApprovePolicy, Role, RunRow, StoredMessage
from stepwell.workflow import Workflow


class RunOptions(TypedDict, total=False):
    """How a run is started.

    Attributes:
        key: unique for each workflow: the same key finds its run again.
        user: whom it is for.
        model: instead of the workflow's own.
        max_turns, max_tool_calls, max_tokens, max_cost, max_seconds: instead of the workflow's
            own limits; see `workflow.Limits`.
    """

    key: str | None
    user: str | None
    model: str | None
    max_turns: int | None
    max_tool_calls: int | None
    max_tokens: int | None
    max_cost: Decimal | float | str | None
    max_seconds: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a new run is made of."""

    id: str
    input: str
    key: str | None = None
    user: str | None = None
    model: str | None = None
    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    max_seconds: int | None = None
    approve: ApprovePolicy = ApprovePolicy.PARK


def new_run(id_: str, text: str, approve: ApprovePolicy | str, options: RunOptions) -> Start:
    """What a new run is made of, checked.

    Raises:
        InvalidInput: there is nothing to do, no such way to approve, or a negative limit.
    """
    if not text.strip():
        raise InvalidInput("The input is empty.", "Say what the run is to do.")
    try:
        policy = ApprovePolicy(approve)
    except ValueError:
        choices = ", ".join(ApprovePolicy)
        raise InvalidInput(f"approve cannot be {approve!r}.", f"Choices: {choices}.") from None
    limits = amounts(options)
    words: dict[str, Any] = {k: clean(v) for k, v in options.items() if k not in UNITS}
    return Start(id=id_, input=str(clean(text)), approve=policy, **words | limits)


def start(workflow: Workflow, new: Start, now: datetime) -> Change:
    """The first transition. The database gives the run its number."""
    limits = {name: getattr(workflow.limits, name) for name in UNITS}
    limits |= {name: getattr(new, name) for name in UNITS if getattr(new, name) is not None}
    run = RunRow(
        number=0,
        id=new.id,
        workflow=workflow.name,
        state=INITIAL,
        seq=1,
        created_at=now,
        updated_at=now,
        key=new.key,
        user=new.user,
        model=new.model,
        approve=new.approve,
        reserved_turns=1 if limits["max_turns"] > 0 else 0,
        digest=workflow.digest,
        **limits,
    )
    first = StoredMessage(number=1, seq=1, role=Role.USER, text=new.input)
    return Change(before=None, run=run, trigger=Trigger.START, by=new.user, messages=(first,))
