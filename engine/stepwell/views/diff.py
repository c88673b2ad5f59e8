"""Pure: the differences between two runs, or between a run and its own past."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import takewhile
from typing import Any

from stepwell.views.runs import (
    CallDifference,
    CallView,
    Difference,
    MessageView,
    PointView,
    RunDetail,
    RunDiff,
    TranscriptDifference,
)

_COMPARED = (
    "workflow", "state", "input", "answer", "error", "user", "model", "approve", "digest",
    "attempt", "limits", "used",
)  # fmt: skip
_NOT_COMPARED = {"used.active_ms"}  # two runs never take exactly as long
_OF_A_CALL = ("tool", "arguments", "edited_arguments", "status", "outcome")


def diff(left: RunDetail, right: RunDetail) -> RunDiff:
    """The differences. Calls of two runs are compared by place, calls of one run by identity.

    Args:
        left: a run, as it is or was.
        right: the same or another one.
    """
    return RunDiff(
        left=PointView(left.id, left.seq),
        right=PointView(right.id, right.seq),
        changed=tuple(_changed(left, right)),
        transcript=_transcripts(left, right),
        calls=tuple(_calls(left.calls, right.calls)),
    )


def _changed(left: RunDetail, right: RunDetail) -> Iterator[Difference]:
    for name in _COMPARED:
        yield from _differences(name, getattr(left, name), getattr(right, name))


def _differences(name: str, left: Any, right: Any) -> Iterator[Difference]:
    if is_dataclass(left):
        for field in fields(left):
            inner = f"{name}.{field.name}"
            yield from _differences(inner, getattr(left, field.name), getattr(right, field.name))
    elif left != right and name not in _NOT_COMPARED:
        yield Difference(name=name, left=left, right=right)


def _transcripts(left: RunDetail, right: RunDetail) -> TranscriptDifference:
    pairs = zip(left.messages, right.messages, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: _same_words(*pair), pairs))
    only_left, only_right = left.messages[common:], right.messages[common:]
    if left.id == right.id:  # results come as calls end, but stand in the order they were asked
        only_left, only_right = (
            tuple(m for m in only_left if m not in right.messages),
            tuple(m for m in only_right if m not in left.messages),
        )
        common = len(left.messages) - len(only_left)
    return TranscriptDifference(common=common, left=only_left, right=only_right)


def _same_words(left: MessageView, right: MessageView) -> bool:
    names = ("role", "text", "reasoning", "tool")
    return all(getattr(left, name) == getattr(right, name) for name in names)


def _calls(left: Sequence[CallView], right: Sequence[CallView]) -> Iterator[CallDifference]:
    """Calls are numbered from one, without a gap."""
    for place in range(max(len(left), len(right))):
        one = left[place] if place < len(left) else None
        other = right[place] if place < len(right) else None
        if one is None or other is None or not _same_call(one, other):
            yield CallDifference(number=place + 1, left=one, right=other)


def _same_call(left: CallView, right: CallView) -> bool:
    return all(getattr(left, name) == getattr(right, name) for name in _OF_A_CALL)
