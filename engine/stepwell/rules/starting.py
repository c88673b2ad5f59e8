"""Pure: the parts of a new run, and its first transition."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stepwell.errors import InvalidInput
from stepwell.machine import INITIAL, Trigger
from stepwell.plain_json import clean
from stepwell.rules.allowances import LimitOptions, amounts
from stepwell.rules.budget import UNITS
from stepwell.rules.change import Change
from stepwell.state.records import ApprovePolicy, Role, RunLimits, RunRow, StoredMessage
from stepwell.workflow import Workflow


class RunOptions(LimitOptions, total=False):
    """How a run is started.

    Attributes:
        key: unique for each workflow: the same key finds its run again. It cannot be empty.
        user: whom it is for.
        model: instead of the workflow's own.
    """

    key: str | None
    user: str | None
    model: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The parts of a new run.

    Attributes:
        limits: checked amounts that replace the workflow's own.
    """

    id: str
    input: str
    key: str | None = None
    user: str | None = None
    model: str | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    approve: ApprovePolicy = ApprovePolicy.PARK


def new_run(id_: str, text: str, approve: ApprovePolicy | str, options: RunOptions) -> Start:
    """The parts of a new run, checked.

    Raises:
        InvalidInput: the input or the key is empty, or `approve` or a limit is not valid.
    """
    if not text.strip():
        raise InvalidInput("The input is empty.", "Say what the run is to do.")
    try:
        policy = ApprovePolicy(approve)
    except ValueError:
        choices = ", ".join(ApprovePolicy)
        raise InvalidInput(f"approve cannot be {approve!r}.", f"Choices: {choices}.") from None
    if options.get("key") is not None and not str(options["key"]).strip():
        raise InvalidInput(
            "The key is empty.", "Leave it out, or pass a text that names this piece of work."
        )
    words: dict[str, Any] = {k: clean(v) for k, v in options.items() if k not in UNITS}
    limits = amounts(options)
    return Start(id=id_, input=str(clean(text)), approve=policy, limits=limits, **words)


def start(workflow: Workflow, new: Start, now: datetime) -> Change:
    """The first transition. The database gives the run its number."""
    own = {name: getattr(workflow.limits, name) for name in UNITS}
    limits = RunLimits(**{**own, **new.limits})
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
        reserved_turns=1 if limits.max_turns > 0 else 0,
        digest=workflow.digest,
        limits=limits,
    )
    first = StoredMessage(number=1, seq=1, role=Role.USER, text=new.input)
    return Change(before=None, run=run, trigger=Trigger.START, by=new.user, messages=(first,))
