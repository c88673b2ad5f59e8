"""Pure: replaces secrets in everything that is stored or logged."""

import hashlib
import logging
import re
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepwell.envelope import Envelope, cut
from stepwell.recurring.rescheduling import ScheduleRow
from stepwell.rules.change import Change
from stepwell.state.records import Call, Fault, RunRow

MASKED = "[masked]"
# Texts that were cut before they came here end like this.
CUT = re.compile(r"\s*… \[")
# A key is told apart by a digest; many rounds, so that a card's number cannot be guessed from it.
ROUNDS = 100_000
# A shorter one would be found inside of ordinary words.
SHORTEST_SECRET = 8


@dataclass(frozen=True, slots=True)
class Mask:
    """Finds secrets. Without patterns it changes nothing and costs nothing.

    Attributes:
        patterns: their matches are secret.
        secrets: exact texts, the longest first; one of the patterns matches them.
    """

    patterns: Sequence[re.Pattern[str]] = ()
    secrets: Sequence[str] = ()

    def text(self, text: str) -> str:
        """The text with a mark in place of each secret, or of its beginning at a cut."""
        for pattern in self.patterns:
            text = pattern.sub(MASKED, text)
        if self.secrets and "… [" in text:
            text = self._without_beginnings(text)
        return text

    def _without_beginnings(self, text: str) -> str:
        for mark in reversed(list(CUT.finditer(text))):
            head = text[: mark.start()]
            for secret in self.secrets:
                lengths = range(len(secret) - 1, SHORTEST_SECRET - 1, -1)
                found = next((n for n in lengths if head.endswith(secret[:n])), 0)
                if found:
                    text = head[:-found] + MASKED + text[mark.start() :]
                    break
        return text

    def optional(self, text: str | None) -> str | None:
        """`text`, or None for None."""
        return None if text is None else self.text(text)

    def key(self, key: str | None) -> str | None:
        """A run's key: with a digest if it held a secret, so that it still finds its own run."""
        if key is None or (masked := self.text(key)) == key:
            return key
        digest = hashlib.pbkdf2_hmac("sha256", key.encode(errors="replace"), b"stepwell", ROUNDS)
        return f"{masked}#{digest.hex()[:16]}"

    def value(self, value: Any) -> Any:
        """A JSON value, or None, with the same done to every text, number and name in it."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = repr(value)
            return value if self.text(written) == written else MASKED
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value

    def change(self, change: Change) -> Change:
        """A change as it may be stored. The driver's copy in memory keeps its secrets."""
        if not self.patterns:
            return change
        hide = self.value
        return replace(
            change,
            run=self._run(change.run),
            by=self.optional(change.by),
            error=self._fault(change.error),
            messages=tuple(
                replace(m, text=hide(m.text), reasoning=hide(m.reasoning), raw=hide(m.raw))
                for m in change.messages
            ),
            calls=tuple(self._call(call) for call in change.calls),
            approvals=tuple(
                replace(a, reason=hide(a.reason), decided_by=hide(a.decided_by))
                for a in change.approvals
            ),
            notes=tuple(self.text(note) for note in change.notes),
        )

    def schedule(self, row: ScheduleRow) -> ScheduleRow:
        """A schedule as it may be stored."""
        if not self.patterns:
            return row
        hidden = {name: self.value(row.settings[name]) for name in ("input", "user")}
        return replace(
            row,
            settings={**row.settings, **hidden},
            pause_reason=self.optional(row.pause_reason),
            paused_by=self.optional(row.paused_by),
        )

    def _run(self, run: RunRow) -> RunRow:
        return run._replace(
            key=self.key(run.key),
            user=self.optional(run.user),
            answer=self.optional(run.answer),
            error=self._fault(run.error),
            cancel_requested=self.optional(run.cancel_requested),
        )

    def _fault(self, fault: Fault | None) -> Fault | None:
        return fault and replace(fault, message=self.text(fault.message))

    def _call(self, call: Call) -> Call:
        full = self.optional(call.full_result)
        outcome = self.value(call.outcome)
        if call.outcome is not None and full != call.full_result:
            outcome = self._cut_again(call.outcome, outcome, str(full))
        is_unknown = call.status.final and call.started_seq is None  # a name the model made up
        return call._replace(
            tool=self.text(call.tool) if is_unknown else call.tool,
            arguments=self.value(call.arguments),
            edited=self.value(call.edited),
            outcome=outcome,
            full_result=full,
            masked=call.masked or self.value(call.effective) != call.effective,
        )

    @staticmethod
    def _cut_again(before: Envelope, outcome: Envelope, full: str) -> Envelope:
        """The outcome cut from the masked text: a secret across the old cut matched nothing."""
        limit = before["truncated"]["shown"]
        rest = {name: value for name, value in outcome.items() if name != "truncated"}
        if outcome["ok"]:
            return cut({**rest, "result": full}, limit)[0]
        return cut({**rest, "error": {**outcome["error"], "message": full}}, limit)[0]


def masking(patterns: Iterable[str], secrets: Iterable[str]) -> Mask:
    """The mask for these regular expressions and these exact texts."""
    known = sorted({s for s in secrets if len(s) >= SHORTEST_SECRET}, key=len, reverse=True)
    exact = [re.compile("|".join(map(re.escape, known)))] if known else []
    return Mask([*exact, *map(re.compile, patterns)], known)


class LogMask(logging.Filter):
    """Replaces the secrets in log records; every record passes."""

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
