"""The context of a call, for its tool."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stepwell.plain_json import clean


class Notes:
    """Notes that a tool keeps for later calls of the same run."""

    def __init__(self, existing: Sequence[str] = ()) -> None:
        self._existing = tuple(existing)
        self.added: list[str] = []

    def read(self) -> list[str]:
        """All notes of the run, oldest first, those of this call included."""
        return [*self._existing, *self.added]

    def add(self, text: str) -> None:
        """Keep `text`; it is saved together with the outcome of this call."""
        if not isinstance(text, str):
            raise TypeError(f"a note is a text, not {type(text).__name__}")
        self.added.append(clean(text))


@dataclass(frozen=True)
class ToolContext:
    """The context of a call, for its tool; never part of the schema.

    Attributes:
        run_id: the run.
        call_id: this call.
        idempotency_key: the same whenever this very call is made again.
        deadline: when the call counts as timed out.
        notes: texts kept with the run.
    """

    run_id: str
    call_id: str
    idempotency_key: str
    deadline: datetime
    notes: Notes = field(default_factory=Notes)


@dataclass(frozen=True)
class Happened:
    """A finding of `reconcile`: the call took effect and returned `result`."""

    result: Any = None
    finding: str = field(default="happened", init=False)


@dataclass(frozen=True)
class DidNotHappen:
    """What `reconcile` found: the call took no effect, and never will; it may be made again."""

    finding: str = field(default="did_not_happen", init=False)


@dataclass(frozen=True)
class NotKnown:
    """What `reconcile` found: nothing for certain; a person is asked, and told the reason."""

    reason: str = ""
    finding: str = field(default="not_known", init=False)


Finding = Happened | DidNotHappen | NotKnown
