"""The form of every tool call's outcome."""

from typing import Any

from stepwell.plain_json import clean, dumps

Envelope = dict[str, Any]


def success(result: Any) -> Envelope:
    """The outcome of a call that returned `result`, which must be JSON already."""
    return {"ok": True, "result": result}


def failure(kind: str, message: str, hint: str = "") -> Envelope:
    """The outcome of a call that failed; `kind` is shown as the error's type.

    The texts may quote what a model or a tool said.
    """
    return {"ok": False, "error": {"type": kind, "message": clean(message), "hint": clean(hint)}}


def cut(envelope: Envelope, limit: int) -> tuple[Envelope, str | None]:
    """`envelope` with at most `limit` characters of result or message, and a note about the rest.

    The second value is the full text if something was cut, else None.
    """
    text = _text_of(envelope)
    if len(text) <= limit:
        return envelope, None
    note = f"\n… [{len(text) - limit:,} of {len(text):,} characters left out]"
    short: Envelope = {**envelope, "truncated": {"shown": limit, "total": len(text)}}
    if envelope["ok"]:
        short["result"] = text[:limit] + note
    else:
        short["error"] = {**envelope["error"], "message": text[:limit] + note}
    return short, text


def _text_of(envelope: Envelope) -> str:
    if not envelope["ok"]:
        return str(envelope["error"]["message"])
    result = envelope["result"]
    return result if isinstance(result, str) else dumps(result)
