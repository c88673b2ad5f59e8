"""Commands in processes of their own that need not import everything first: see command_server.py."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("command_server.py")
LOOK_AGAIN = 0.005


class Server:
    """Forks a process for each command.

    Args:
        options: of the interpreter, such as `-W error`.
        env: the environment of the server itself.
    """

    def __init__(self, *options: str, env: Mapping[str, str]) -> None:
        self._command = [sys.executable, *options, str(SCRIPT)]
        self._env = env
        self._process: subprocess.Popen[str] | None = None

    def run(self, job: Mapping[str, Any]) -> int:
        """The exit code of a command, once it has ended."""
        answer: int = self._ask(job)
        return answer

    def start(self, job: Mapping[str, Any]) -> "Forked":
        """A command that is left to itself; `output` and `errors` are two files."""
        for name in ("output", "errors"):
            Path(job[name]).touch()
        pid: int = self._ask({"start": True, **job})
        return Forked(self, pid, Path(job["output"]), Path(job["errors"]))

    def reap(self, pid: int) -> int | None:
        """The exit code of a command that was started; None while it runs."""
        code: int | None = self._ask({"reap": pid})
        return code

    def _ask(self, what: Mapping[str, Any]) -> Any:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=dict(self._env),
                text=True,
            )
        assert self._process.stdin
        assert self._process.stdout
        try:
            print(json.dumps(what), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())
        except BaseException:  # such as the test's own timeout: it may still be busy
            self.close()
            raise

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Forked:
    """A command in the background, with the methods of `subprocess.Popen`."""

    def __init__(self, server: Server, pid: int, output: Path, errors: Path) -> None:
        self._server, self._output, self._errors = server, output, errors
        self.pid = pid
        self.returncode: int | None = None

    @property
    def errors(self) -> str:
        """The text that it has written to stderr so far."""
        return self._errors.read_text(encoding="utf-8")

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.reap(self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(LOOK_AGAIN)
        return code

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        self.wait(timeout)
        return self._output.read_bytes(), self._errors.read_bytes()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
