"""A real HTTP server on this machine that speaks three APIs and refuses what they refuse."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.providers import streams, strict
from tests.providers.strict import Body, Issued, Refused

KEY = "sk-TESTKEY-0123456789"


@dataclass(frozen=True)
class Raw:
    """An answer that is no reply: anything at all, with any status.

    Attributes:
        delay: seconds before anything is sent.
        promised: bytes that are promised beyond those that are sent before the connection ends.
    """

    content: bytes = b""
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    promised: int = 0


def error(status: int, body: Any, **headers: str) -> Raw:
    return Raw(
        json.dumps(body).encode(),
        status,
        headers={k.replace("_", "-"): v for k, v in headers.items()},
    )


Step = Body | Raw | Callable[[Body], Body | Raw]


@dataclass(frozen=True)
class Api:
    check: Callable[[Body, Issued], None]
    issue: Callable[[Body, Body, Issued], None]
    stream: Callable[[Body], list[bytes]]


APIS = {
    "/v1/responses": Api(strict.check_responses, strict.issue_responses, streams.responses),
    "/v1/chat/completions": Api(strict.check_chat, strict.issue_chat, streams.chat),
    "/v1/messages": Api(strict.check_anthropic, strict.issue_anthropic, streams.anthropic),
}


class StrictServer:
    """Answers each request with the script's next step; the last one repeats.

    Attributes:
        requests: what was asked, refused requests included.
        refused: why requests were refused.
        stream_as_asked: False for a server that does not know how to stream.
        unknown_field: one that this server does not know, and refuses by this name.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """As if it had just been started."""
        self.steps: list[Step] = []
        self.requests: list[Body] = []
        self.refused: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.issued = Issued()
        self.stream_as_asked = True
        self.unknown_field = ""
        self.models = ["served-model", "another-model"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def play(self, *steps: Step) -> None:
        """What to answer from now on."""
        self.steps = list(steps)

    def raw(self, path: str, body: Body) -> Raw:
        """The answer as it goes over the wire."""
        answer = self.answer(path, body)
        if isinstance(answer, Raw):
            return answer
        if body.get("stream") and self.stream_as_asked:
            return Raw(b"".join(APIS[path].stream(answer)), kind="text/event-stream")
        return Raw(json.dumps(answer).encode())

    def answer(self, path: str, body: Body) -> Body | Raw:
        with self._lock:
            self.requests.append(body)
            api = APIS[path]
            try:
                strict.need(
                    self.unknown_field not in body, f"Unknown parameter: {self.unknown_field}"
                )
                api.check(body, self.issued)
            except Refused as refused:
                self.refused.append(refused.message)
                inner = {
                    "type": "invalid_request_error",
                    "message": refused.message,
                    "code": refused.code,
                }
                return error(400, {"type": "error", "error": inner})
            step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
            answer = step(body) if callable(step) else step
            if isinstance(answer, dict):
                api.issue(answer, body, self.issued)
            return answer

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(server: StrictServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            data = {"object": "list", "data": [{"id": name} for name in server.models]}
            self.reply(error(200, data))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.headers.append({k.lower(): v for k, v in self.headers.items()})
            self.reply(server.raw(self.path.partition("?")[0], body))

        def reply(self, answer: Raw) -> None:
            if answer.delay:
                time.sleep(answer.delay)
            try:
                self.send_response(answer.status)
                self.send_header("content-type", answer.kind)
                self.send_header("content-length", str(len(answer.content) + answer.promised))
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.content)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client did not wait
            if answer.promised:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
