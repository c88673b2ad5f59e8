"""Pure: what must not be stored, replaced in every text on its way into the store."""

import logging
import re
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepwell.rules.change import Change
from stepwell.state.records import Call, Fault

MASKED = "[masked]"
# A shorter one would be found inside of ordinary words.
SHORTEST_SECRET = 8


@dataclass(frozen=True, slots=True)
class Mask:
    """Finds what is secret. One without patterns leaves everything as it is, at no cost."""

    patterns: Sequence[re.Pattern[str]] = ()

    def text(self, text: str) -> str:
        """The text with a mark in place of each secret."""
        for pattern in self.patterns:
            text = pattern.sub(MASKED, text)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value, or None, with the same done to every text in it, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value

    def change(self, change: Change) -> Change:
        """A change as it may be stored. What a driver holds in memory stays whole."""
        if not self.patterns:
            return change
        run, hide = change.run, self.value
        return replace(
            change,
            run=run._replace(answer=hide(run.answer), error=self._fault(run.error)),
            error=self._fault(change.error),
            messages=tuple(
                replace(m, text=hide(m.text), reasoning=hide(m.reasoning), raw=hide(m.raw))
                for m in change.messages
            ),
            calls=tuple(self._call(call) for call in change.calls),
            approvals=tuple(replace(a, reason=hide(a.reason)) for a in change.approvals),
            notes=tuple(self.text(note) for note in change.notes),
        )

    def _fault(self, fault: Fault | None) -> Fault | None:
        return fault and replace(fault, message=self.text(fault.message))

    def _call(self, call: Call) -> Call:
        return call._replace(
            arguments=self.value(call.arguments),
            edited=self.value(call.edited),
            outcome=self.value(call.outcome),
            full_result=self.value(call.full_result),
            masked=call.masked or self.value(call.effective) != call.effective,
        )


def masking(patterns: Iterable[str], secrets: Iterable[str]) -> Mask:
    """The mask for these regular expressions and for these very texts."""
    known = sorted({s for s in secrets if len(s) >= SHORTEST_SECRET}, key=len, reverse=True)
    exact = [re.compile("|".join(map(re.escape, known)))] if known else []
    return Mask([*exact, *map(re.compile, patterns)])


class LogMask(logging.Filter):
    """Lets every record pass, without what is secret."""

    def __init__(self, mask: Mask) -> None:
        super().__init__()
        self._mask = mask

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true."""
        if not self._mask.patterns:
            return True
        record.msg, record.args = self._mask.text(record.getMessage()), ()
        if record.exc_info:
            told = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (hidden := self._mask.text(told)) != told:
                record.exc_info, record.exc_text = None, hidden
        return True
