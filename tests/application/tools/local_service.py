"""A service on 127.0.0.1 that answers what a test says, and remembers what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

# An address where nobody listens: a connection is refused at once.
NOBODY = "http://127.0.0.1:1"

Answer = dict[str, Any] | list[Any] | bytes | Callable[[BaseHTTPRequestHandler], None]


class Quiet(ThreadingHTTPServer):
    """Says nothing of clients that hang up: that is what a test is about."""

    daemon_threads = True

    def handle_error(self, *_arguments: object) -> None:
        pass


class Service:
    """Attributes:
    answers: by path, a status and a body.
    asked: path, query and headers of every request.
    """

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Answer]] = {}
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.headers: dict[str, str] = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.answer(self)

            def log_message(self, *_arguments: object) -> None:
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        target = urlsplit(handler.path)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.asked.append((target.path, dict(parse_qsl(target.query)), headers))
        status, body = self.answers.get(target.path, (404, {}))
        if callable(body):
            body(handler)
            return
        handler.send_response(status)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())


@contextmanager
def serving() -> Iterator[Service]:
    service = Service()
    thread = threading.Thread(target=service.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield service
    finally:
        service.server.shutdown()
        service.server.server_close()
        thread.join()
