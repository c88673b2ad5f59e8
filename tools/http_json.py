"""Fetching JSON from a service: in time, of a bounded size, from nowhere but where it was asked."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

MAX_BYTES = 1_000_000
SECONDS = 8.0
"""For one exchange, headers included, however slowly the service talks."""

_BUSY = 429
_REDIRECT, _BAD_REQUEST, _SERVER_ERROR = 300, 400, 500


class Unreachable(Exception):
    """No usable answer came; the service, not the question, is to blame."""


class Refused(Exception):
    """The service understood, and said no: its HTTP status is `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the service answered with status {status}")
        self.status = status


def get_json(
    url: str, parameters: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> Any:
    """The JSON that `url` answers with. A redirect is not followed: it may lead anywhere.

    Args:
        url: the service's address, from the settings; never a text of a model's.
        parameters: the query.
        headers: more than the usual ones.

    Raises:
        Unreachable: no connection, too late, too long, no JSON, or the service itself failed.
        Refused: the service did not accept the request.
    """
    import httpx2  # slow to import, and most runs never get here

    # Uncompressed, or a small answer could unfold to gigabytes.
    plain = {"accept": "application/json", "accept-encoding": "identity", **(headers or {})}
    ends = time.monotonic() + SECONDS
    try:
        client = httpx2.Client(timeout=SECONDS / 2, headers=plain)
        with (
            _closed_after(SECONDS, client.close),
            client,
            client.stream("GET", url, params=dict(parameters)) as response,
        ):
            _check(response.status_code)
            body = _read(response.iter_raw(), ends)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        # Only the kind of error: its text may hold the address with all that was sent.
        raise Unreachable(type(error).__name__) from error
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreachable("the answer is not JSON") from error


@contextmanager
def _closed_after(seconds: float, close: Callable[[], None]) -> Iterator[None]:
    """The library's own timeout is one of silence: headers may drip for hours."""
    timer = threading.Timer(seconds, close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _check(status: int) -> None:
    if status == _BUSY or status >= _SERVER_ERROR:
        raise Unreachable(f"status {status}")
    if status >= _BAD_REQUEST:
        raise Refused(status)
    if status >= _REDIRECT:
        raise Unreachable(f"status {status}, a redirect")


def _read(chunks: Iterable[bytes], ends: float) -> bytes:
    body = b""
    for chunk in chunks:
        body += chunk
        if len(body) > MAX_BYTES:
            raise Unreachable(f"the answer has more than {MAX_BYTES:,} bytes")
        if time.monotonic() > ends:
            raise Unreachable(f"no whole answer within {SECONDS:g} seconds")
    return body
