"""Pure: server-sent events.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from collections.abc import Iterable, Iterator
from typing import Any

from stepwell.providers.faults import bad_reply, from_body
from stepwell.providers.reading import loads

_END = "[DONE]"  # OpenAI's last event, which is no JSON


def events(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON object of each event.

    Raises:
        ProviderError: an event is an error, or is no JSON object.
    """
    data: list[str] = []
    for line in _lines(chunks):
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            text, data = "\n".join(data), []
            if text.strip() == _END:
                return
            yield _event(text)


def _event(text: str) -> dict[str, Any]:
    try:
        event = loads(text)
    except ValueError as error:
        raise bad_reply(f"a part of the stream is no JSON ({error})") from None
    if not isinstance(event, dict):
        raise bad_reply("a part of the stream is no JSON object")
    if event.get("type") == "error" or isinstance(event.get("error"), dict | str):
        raise from_body(event)
    return event


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines end with CR, LF or both, and with nothing else: a model may well write U+2028."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        if rest.endswith(b"\r"):  # an LF may follow
            continue
        *lines, rest = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
    for line in rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]:
        yield line.decode("utf-8", "replace")
