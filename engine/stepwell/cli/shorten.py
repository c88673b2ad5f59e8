"""Long text and arguments, shortened with their length so that a question stays on one screen."""

import json
from typing import Any

from stepwell.cli.output import escape_unseen, printable

LONGEST_STRING = 300
LONGEST_TEXT = 1000
MOST_LINES = 40


def shorten(text: str, longest: int = LONGEST_TEXT) -> str:
    """The beginning of a text, with its length if that is not all of it."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text):,} characters)"


def arguments_text(value: Any, *, full: bool) -> str:
    """A call's arguments as indented JSON. Unless `full`, long strings and long lists are cut."""
    text = escape_unseen(printable(_json(value, "\n", full=full)))
    lines = text.split("\n")
    if full or len(lines) <= MOST_LINES:
        return text
    return "\n".join([*lines[:MOST_LINES], f"… ({len(lines) - MOST_LINES:,} more lines)"])


def _json(value: Any, line: str, *, full: bool) -> str:
    inner = f"{line}  "
    if isinstance(value, dict) and value:
        items = [
            f"{_json(str(key), inner, full=full)}: {_json(one, inner, full=full)}"
            for key, one in value.items()
        ]
        return f"{{{inner}{f',{inner}'.join(items)}{line}}}"
    if isinstance(value, list) and value:
        items = [_json(one, inner, full=full) for one in value]
        return f"[{inner}{f',{inner}'.join(items)}{line}]"
    if isinstance(value, str) and len(value) > LONGEST_STRING and not full:
        beginning = json.dumps(f"{value[:LONGEST_STRING]}…", ensure_ascii=False)
        return f"{beginning} ({len(value):,} characters)"
    return json.dumps(value, ensure_ascii=False, default=str)
