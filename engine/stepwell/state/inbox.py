"""Messages and top-ups sent to a run, which accepts them at its next safe point."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class InboxKind(StrEnum):
    """The kind of an inbox entry: a message for the model, or a raise of the limits."""

    MESSAGE = "message"
    TOP_UP = "top_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """An entry that was sent to a run and that no transition has accepted yet.

    Attributes:
        amounts: how much a `top_up` raises each limit, by the limit's name.
    """

    number: int
    kind: InboxKind
    text: str | None = None
    amounts: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None
