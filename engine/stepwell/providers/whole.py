"""A bound on a whole HTTP exchange. The HTTP library's own timeouts only bound each silence.

A server that sends a byte now and then is never silent: neither in its headers nor in its body. The
library hands the timeout of a request to every read and write of it, on whichever connection, so
this one counts down.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from stepwell import clock

if TYPE_CHECKING:
    import httpx2

# A whole exchange may take so many times as long as its server may be silent.
WHOLE = 6
_CONNECTED = ("connect_tcp.complete", "start_tls.complete")
T = TypeVar("T")


class Patience(float):
    """Seconds that one read or write may take, and what is left for all of them.

    The time between them is not counted: it is spent by a listener, not by the server.
    """

    left: float

    @classmethod
    def of(cls, silence: float) -> "Patience":
        """For an exchange whose server may be silent for so many seconds."""
        made = cls(silence)
        made.left = WHOLE * silence
        return made

    def spend(self, act: Callable[[float], T], late: type[Exception]) -> T:
        """The result of `act`, which is given the seconds that it may take."""
        began, before = clock.monotonic(), self.left
        try:
            if before > 0:
                return act(min(self, before))
        except late:
            if before >= self:  # it was silent
                raise
        finally:
            self.left = before - (clock.monotonic() - began)
        raise late(f"not complete after {WHOLE * self:g} seconds")


def bound(client: "httpx2.Client") -> "httpx2.Client":
    """The same client; every exchange it makes is bounded."""
    client.event_hooks["request"].append(_begin)
    return client


def _begin(request: "httpx2.Request") -> None:
    given = request.extensions["timeout"]
    patience = Patience.of(given["read"])
    request.extensions["timeout"] = given | {"read": patience, "write": patience}
    request.extensions["trace"] = _watch


def _watch(event: str, info: dict[str, Any]) -> None:
    """Let a new connection heed what is left of the exchange that uses it."""
    import httpcore2

    if not event.endswith(_CONNECTED):
        return
    stream = info["return_value"]
    read, write = stream.read, stream.write

    def read_in_time(most: int, timeout: float | None = None) -> bytes:
        if not isinstance(timeout, Patience):
            return bytes(read(most, timeout))
        return timeout.spend(lambda s: bytes(read(most, s)), httpcore2.ReadTimeout)

    def write_in_time(content: bytes, timeout: float | None = None) -> None:
        if isinstance(timeout, Patience):
            timeout.spend(lambda s: write(content, s), httpcore2.WriteTimeout)
        else:
            write(content, timeout)

    stream.read, stream.write = read_in_time, write_in_time
