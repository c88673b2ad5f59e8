"""What is sent to a run from outside, to be taken at its next safe moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class InboxKind(StrEnum):
    """What is sent to a run: words for its model, or more room within its limits."""

    MESSAGE = "message"
    TOP_UP = "top_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """What somebody sent to a run, and no transition has taken yet.

    Attributes:
        amounts: by the limit's name, how much a `top_up` raises it.
    """

    number: int
    kind: InboxKind
    text: str | None = None
    amounts: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None
