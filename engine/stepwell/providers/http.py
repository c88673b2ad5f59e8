"""One model call over HTTP, shared by the adapters. The SDKs carry bytes; we read them.

The SDKs accept any body that came with status 200, drop what they do not know, and raise nothing
for a stream that ends early. So each adapter gets the plain JSON and judges it itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

from stepwell.errors import ProviderError
from stepwell.messages import AssistantMessage, Message, OnText, Reply, Request, Terms
from stepwell.providers import prices, sse
from stepwell.providers.account import Account
from stepwell.providers.faults import STALE_REASONING, from_exception, masked
from stepwell.providers.reading import Body, parsed, reading
from stepwell.providers.wire import Wire

CONNECT_TIMEOUT = 10.0
# In a message's own items: its server refused, just before, to take reasoning back.
REFUSED = "reasoning_refused"
T = TypeVar("T")


class Answer(Protocol):
    """A reply whose body was not read yet: the `APIResponse` of either SDK."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    def iter_bytes(self) -> Iterator[bytes]: ...
    def read(self) -> bytes: ...


class HttpModel:
    """A provider behind an SDK. An adapter is five small functions.

    Args:
        name: the model's, as the server knows it.
        account: the server and the key.
    """

    name = ""
    longest_id = 64
    # Fields that ask for a stream.
    streaming: ClassVar[Mapping[str, Any]] = {"stream": True}
    # Fields that a server may refuse and a call can do without, with a word of its refusal.
    optional: ClassVar[Mapping[str, str]] = {}

    def __init__(self, name: str, account: Account) -> None:
        self.model = f"{self.name}:{name}"
        self.wanted = name
        self.account = account
        self._left_out: set[str] = set()

    @property
    def terms(self) -> Terms:
        """The model's window and price, from the price list."""
        provider = self.name.partition("-")[0]
        return prices.terms(provider, self.wanted, self.account.base_url)

    def prepare(self) -> None:
        """Prepare the first call. Raises `ProviderError`."""

    def encode(self, request: Request, wire: Wire, *, reasoning: bool) -> Body:
        """The request's body; without the kept reasoning if `reasoning` is false."""
        raise NotImplementedError

    def send(self, body: Body) -> AbstractContextManager[Answer]:
        """Make the HTTP request."""
        raise NotImplementedError

    def assemble(self, events: Iterable[Body], on_text: OnText) -> Body:
        """The body that a stream amounts to. Raises `ProviderError` if its end is missing."""
        raise NotImplementedError

    def decode(self, body: Body, wire: Wire) -> Reply:
        """The reply that `body` holds."""
        raise NotImplementedError

    def complete(self, request: Request, on_text: OnText | None) -> Reply:
        """Make one model call, streamed if somebody listens. See `messages.Provider`."""
        try:
            return self._complete(request, on_text)
        except ProviderError as error:
            fault = masked(error, self.account.secrets)
        raise fault  # outside: the original error may hold the key

    def _complete(self, request: Request, on_text: OnText | None) -> Reply:
        """One reply.

        A request that was refused before any model saw it is sent again without what it was refused
        for: a field that this server does not know, reasoning that it does not take back, or
        reasoning that is no longer valid because the instructions or the tools have changed since.
        """
        self.prepare()
        refused = any(map(self._tells_of_refusal, request.transcript))
        reasoning = not refused
        while True:
            wire = Wire(request.tools, self.longest_id)
            body = self.encode(request, wire, reasoning=reasoning)
            body |= {} if on_text is None else self.streaming
            sent = {key: value for key, value in body.items() if key not in self._left_out}
            try:
                reply = self._call(sent, wire, on_text)
            except ProviderError as error:
                unknown = self._unknown_field(error, sent)
                if unknown:
                    self._left_out.add(unknown)
                elif reasoning and error.kind == STALE_REASONING:
                    reasoning = False
                elif reasoning and _names_reasoning(error):
                    refused, reasoning = True, False
                else:
                    raise
            else:
                return self._remembering(reply) if refused else reply

    def _tells_of_refusal(self, message: Message) -> bool:
        """Whether this server refused, in this run, to take reasoning back."""
        if not isinstance(message, AssistantMessage) or message.provider != self.name:
            return False
        return bool(message.raw.get(REFUSED)) and message.raw["model"] == self.wanted

    def _remembering(self, reply: Reply) -> Reply:
        """The reply, from which later requests of the run know that reasoning was refused."""
        return replace(reply, raw={"model": self.wanted, **(reply.raw or {}), REFUSED: True})

    def _call(self, body: Body, wire: Wire, on_text: OnText | None) -> Reply:
        found = self._exchange(body, on_text)
        streamed = isinstance(found, dict)
        with reading():
            reply = self.decode(found if isinstance(found, dict) else parsed(found), wire)
        if on_text is not None and not streamed and reply.text:
            on_text(reply.text)
        return reply

    def _exchange(self, body: Body, on_text: OnText | None) -> Body | bytes:
        """The reply's body: assembled if the server streamed it, else as it came."""

        def read(answer: Answer) -> Body | bytes:
            kind = answer.headers.get("content-type", "")
            if on_text is None or not kind.startswith("text/event-stream"):
                return answer.read()
            with reading():
                return self.assemble(sse.events(answer.iter_bytes()), on_text)

        return received(lambda: self.send(body), read)

    def _unknown_field(self, error: ProviderError, sent: Body) -> str | None:
        if error.kind != "bad_request":
            return None
        said = error.message.lower()
        return next((f for f, word in self.optional.items() if f in sent and word in said), None)


def _names_reasoning(error: ProviderError) -> bool:
    """Whether a request was refused for the reasoning in it: no API has a code for that."""
    said = error.message.lower()
    return error.kind == "bad_request" and ("reasoning" in said or "thinking" in said)


def received(send: Callable[[], AbstractContextManager[Answer]], read: Callable[[Answer], T]) -> T:
    """What `read` makes of the answer to an HTTP request.

    Raises:
        ProviderError: whatever went wrong on the way.
    """
    try:
        with send() as answer:
            return read(answer)
    except ProviderError:
        raise
    except Exception as error:
        fault = from_exception(error)
        if fault is None:
            raise
    raise fault
