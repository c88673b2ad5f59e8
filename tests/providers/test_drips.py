"""A server that is never silent and never done: in its headers, its body, its stream, its errors."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stepwell.errors import ProviderError
from stepwell.messages import Request, UserMessage
from stepwell.providers.registry import resolve
from tests.providers.says import says
from tests.providers.strict_server import StrictServer

SILENCE = 0.25  # a busy machine must not look like a silent server
WHOLE = 6 * SILENCE
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
DRIPS = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x-%d: y\r\n"),
    "one header": (b"HTTP/1.1 200 OK\r\nx: ", b"%d"),
    "a body": (HEAD + b"content-length: 100000000\r\n\r\n", b" " * 5),
    "an error": (b"HTTP/1.1 400 No\r\ncontent-length: 100000000\r\n\r\n", b" " * 5),
    "a stream": (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
        b": still there\n\n",
    ),
}


@contextmanager
def dripping(first: bytes, drop: bytes) -> Iterator[str]:
    """The address of a server that answers once, far more often than `SILENCE`, without end."""
    over = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with closing(connection):
                connection.recv(1_000_000)
                connection.sendall(first)
                number = 0
                while not over.wait(SILENCE / 20):
                    number += 1
                    try:
                        connection.sendall(drop % number if b"%d" in drop else drop)
                    except OSError:
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def ask(api: str, url: str, folder: Path, patch: pytest.MonkeyPatch, *, listens: bool) -> str:
    patch.setenv("OPENAI_BASE_URL", f"{url}/v1")
    patch.setenv("ANTHROPIC_BASE_URL", url)
    model = resolve(f"{api}:test-model", folder, SILENCE)
    request = Request("Be brief.", (UserMessage("Hello."),), ())
    return model.complete(request, (lambda _: None) if listens else None).text


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("api", "where"), [("openai", "headers"), *(("anthropic", where) for where in DRIPS)]
)
def test_a_server_that_drips_is_given_up(
    api: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dripping(*DRIPS[where]) as url, pytest.raises(ProviderError) as raised:
        ask(api, url, tmp_path, monkeypatch, listens=where == "a stream")
    assert raised.value.kind == "timeout"
    assert f"not complete after {WHOLE:g} seconds" in str(raised.value)


@pytest.mark.usefixtures("environment")
def test_a_connection_that_is_used_again_has_a_bound_of_its_own(
    api: str, server: StrictServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(says(api, "Hello."))
    for _ in range(3):
        assert ask(api, server.url, tmp_path, monkeypatch, listens=False) == "Hello."
