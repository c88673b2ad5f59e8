"""The fault of a model call: one typed error, judged by the provider's own words.

The words and statuses are those of https://developers.openai.com/api/docs/guides/error-codes,
https://platform.claude.com/docs/en/api/errors and of the servers that speak like them. Both SDKs
are generated alike and name their exceptions alike, so one function reads the errors of both.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from stepwell import clock
from stepwell.errors import CONTEXT_LENGTH, ProviderError

Judgement = tuple[str, bool]  # the kind of fault, and whether trying again may help

STALE_REASONING = "stale_reasoning"

# Words that are exact, whatever the status says.
_WORDS: dict[str, Judgement] = {
    "insufficient_quota": ("quota", False),
    "billing_error": ("quota", False),
    "billing_hard_limit_reached": ("quota", False),
    "billing_not_active": ("quota", False),
    "context_length_exceeded": (CONTEXT_LENGTH, False),
    "model_context_window_exceeded": (CONTEXT_LENGTH, False),
    "request_too_large": ("too_large", False),
    "invalid_encrypted_content": (STALE_REASONING, False),
    "authentication_error": ("authentication", False),
    "invalid_api_key": ("authentication", False),
    "permission_error": ("permission", False),
    "unsupported_country_region_territory": ("permission", False),
    "not_found_error": ("not_found", False),
    "model_not_found": ("not_found", False),
    "content_filter": ("refused", False),
    "content_policy_violation": ("refused", False),
    "invalid_prompt": ("refused", False),
    "rate_limit_error": ("rate_limited", True),
    "rate_limit_exceeded": ("rate_limited", True),
    "too_many_requests": ("rate_limited", True),
    "slow_down": ("rate_limited", True),
    "overloaded": ("overloaded", True),
    "overloaded_error": ("overloaded", True),
    "server_is_overloaded": ("overloaded", True),
    "timeout_error": ("timeout", True),
}
# Words that say less than a status does.
_VAGUE_WORDS: dict[str, Judgement] = {
    "invalid_request_error": ("bad_request", False),
    "api_error": ("server_error", True),
    "server_error": ("server_error", True),
    "internal_error": ("server_error", True),
    "internal_server_error": ("server_error", True),
}
_STATUSES: dict[int, Judgement] = {
    401: ("authentication", False),
    402: ("quota", False),
    403: ("permission", False),
    404: ("not_found", False),
    408: ("timeout", True),
    409: ("conflict", True),
    413: ("too_large", False),
    425: ("rate_limited", True),
    429: ("rate_limited", True),
    501: ("bad_request", False),
    503: ("overloaded", True),
    504: ("timeout", True),
    529: ("overloaded", True),
}
# Neither API always has a word of its own for these, so their sentences are recognised.
_SENTENCES: tuple[tuple[re.Pattern[str], Judgement], ...] = (
    (
        re.compile(
            r"prompt is too long|maximum context length|context (?:window|length|size)"
            r"|exceeds? (?:the )?(?:model's )?(?:maximum )?context|exceed context limit",
            re.IGNORECASE,
        ),
        (CONTEXT_LENGTH, False),
    ),
    (
        re.compile(
            r"signature.*thinking|thinking.*(?:signature|cannot be modified)",
            re.IGNORECASE | re.DOTALL,
        ),
        (STALE_REASONING, False),
    ),
)
_HINTS = {
    "authentication": "Check the API key.",
    "quota": "Check the account's plan and billing.",
    "not_found": "Check the model's name and the base URL.",
    CONTEXT_LENGTH: "Shorten the input or the results, or take a model with a larger window.",
}
_CLIENT_ERRORS, _SERVER_ERRORS = range(400, 500), range(500, 600)
_SHOWN = 500
# A secret longer than this may show how it begins, to tell which one it is.
_RECOGNISABLE = 12


@dataclass(frozen=True, slots=True)
class Said:
    """The error that a body describes.

    Attributes:
        words: its codes and types, the most exact one first.
        status: an HTTP status inside the body, as gateways put it there.
    """

    message: str
    words: tuple[str, ...] = ()
    status: int | None = None


def said(body: Any) -> Said:
    """The error in `body`: `{"error": …}` of either API, the inner object alone, or a text."""
    if isinstance(body, Mapping):
        inner = body.get("error") or body.get("detail") or body
        if not isinstance(inner, Mapping):
            return Said(_short(inner))
        details = inner.get("details")
        found = [details.get("error_code")] if isinstance(details, Mapping) else []
        found += [inner.get("code"), inner.get("type"), inner.get("status")]
        words = tuple(word.lower() for word in found if isinstance(word, str))
        numbers = (int(str(code)) for code in found if str(code).isdigit())
        status = next((n for n in numbers if n in _CLIENT_ERRORS or n in _SERVER_ERRORS), None)
        message = inner.get("message") or inner.get("detail") or inner
        return Said(_short(message), words, status)
    return Said(_short(body))


def judge(status: int | None, what: Said) -> Judgement:
    """The kind of fault, and whether the same request may succeed later."""
    status = what.status or status
    if status in {None, 400, 413, 422}:
        for sentence, judgement in _SENTENCES:
            if sentence.search(what.message):
                return judgement
    exact = next((_WORDS[word] for word in what.words if word in _WORDS), None)
    if exact:
        return exact
    if status in _STATUSES:
        return _STATUSES[status]
    if status in _SERVER_ERRORS:
        return "server_error", True
    vague = next((_VAGUE_WORDS[word] for word in what.words if word in _VAGUE_WORDS), None)
    if vague:
        return vague
    return ("bad_request", False) if status in _CLIENT_ERRORS else ("provider_error", True)


def from_body(
    body: Any, status: int | None = None, headers: Mapping[str, str] | None = None
) -> ProviderError:
    """The error that a body tells of, whatever the status it came with."""
    what, given = said(body), headers or {}
    kind, retryable = judge(status, what)
    request = given.get("request-id") or given.get("x-request-id")
    parts = [
        str(status) if status else "",
        what.message or "The provider failed and did not say why.",
    ]
    parts.append(f"[{request}]" if request else "")
    return ProviderError(
        " ".join(filter(None, parts)),
        _HINTS.get(kind, ""),
        kind=kind,
        retryable=retryable,
        retry_after=retry_after(given, clock.now()),
    )


def from_exception(error: Exception) -> ProviderError | None:
    """The error that an SDK or its HTTP library raised; None for anything else, such as a bug."""
    import httpx2

    names = {one.__name__ for one in type(error).__mro__}
    response = getattr(error, "response", None)
    if "APIStatusError" in names and response is not None:
        return from_body(getattr(error, "body", None), response.status_code, response.headers)
    why = error.__cause__ or error
    if isinstance(why, httpx2.ConnectError | httpx2.ConnectTimeout):
        place = _place(why)
        text = f"The provider{place} cannot be reached: {type(why).__name__}: {_short(why)}."
        return ProviderError(text, kind="unreachable", retryable=True)
    if "APITimeoutError" in names or isinstance(error, httpx2.TimeoutException):
        text = f"The provider{_place(error)} did not answer in time ({_short(why)})."
        return ProviderError(text, kind="timeout", retryable=True)
    if "APIConnectionError" in names or isinstance(error, httpx2.TransportError):
        place = _place(why)
        why_not = f"{type(why).__name__}: {_short(why)}"
        text = f"The connection to the provider{place} failed: {why_not}."
        retryable = not isinstance(why, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError)
        return ProviderError(text, kind="connection", retryable=retryable)
    if isinstance(error, httpx2.RequestError):  # such as a body that is not the gzip it says
        return bad_reply(f"it could not be read ({type(error).__name__})")
    if "APIError" in names:
        return from_body(getattr(error, "body", None) or str(error))
    return None


def _place(error: BaseException) -> str:
    """Where a request went, without the path and what else of an address may be secret."""
    request: Any = None
    with suppress(RuntimeError):  # it was raised without its request
        request = getattr(error, "request", None)
    if request is None:
        return ""
    return f" at {request.url.scheme}://{request.url.netloc.decode('ascii', 'replace')}"


def bad_reply(why: str, hint: str = "") -> ProviderError:
    """The provider's answer is not a reply; nothing of it counts."""
    text = f"The provider's reply cannot be used: {why}."
    return ProviderError(text, hint, kind="bad_reply", retryable=True)


def stream_cut() -> ProviderError:
    """A stream ended before the reply did; nothing of it counts."""
    text = "The provider's stream ended before the reply was complete."
    return ProviderError(text, kind="stream_cut", retryable=True)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that the provider asks to wait; None where it does not, or not understandably.

    `Retry-After` holds seconds or a date (RFC 9110, section 10.2.3); some send fractions, and
    OpenAI also sends `retry-after-ms`.
    """
    number = re.compile(r"\d+(\.\d+)?", re.ASCII)
    exact = headers.get("retry-after-ms", "").strip()
    if number.fullmatch(exact):
        return float(exact) / 1000
    text = headers.get("retry-after", "").strip()
    if number.fullmatch(text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - now).total_seconds())


def masked(error: ProviderError, secrets: Iterable[str]) -> ProviderError:
    """The same error without any of `secrets` in it, and without its cause."""

    def hidden(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, f"{secret[:3]}…" if len(secret) > _RECOGNISABLE else "…")
        return text

    return ProviderError(
        hidden(error.message),
        error.hint,
        kind=error.kind,
        retryable=error.retryable,
        retry_after=error.retry_after,
    )


def _short(value: Any) -> str:
    """One line of text that fits into a message."""
    text = re.sub(r"<[^<>]{0,200}>", " ", str("" if value is None else value))
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
