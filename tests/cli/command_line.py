"""A user's project in a folder of its own, and the real command in real processes."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pexpect

from tests.forking import Forked, Server

COMMAND = str(Path(sys.executable).with_name("stepwell"))
PATIENCE = 30.0
READ_AT_START = ("LANG", "LC_", "PYTHON")  # by an interpreter, never again
PYPROJECT = '[tool.stepwell]\napp = "flows"\ndatabase = "sqlite:///kept/runs.db"\n'


def say(text: str, **more: Any) -> dict[str, Any]:
    """A reply of the workflow `play`: see flows.py."""
    return {"text": text, **more}


def call(tool: str, arguments: Any = None, *, text: str = "", **more: Any) -> dict[str, Any]:
    """A reply that asks for one tool."""
    return {"text": text, "calls": [[tool, {} if arguments is None else arguments]], **more}


def script(*replies: dict[str, Any]) -> str:
    """The input that makes the workflow `play` give these replies."""
    return json.dumps(replies)


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The one JSON object that an error is with --json."""
        body = json.loads(self.err)
        assert set(body) == {"error"}
        assert set(body["error"]) == {"type", "message", "hint"}
        error: dict[str, str] = body["error"]
        return error


def clean_environment() -> dict[str, str]:
    """What the machine of a test has set must not matter."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STEPWELL_", "PYTHON"))}
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        kept.pop(name, None)
    return kept | {"LANG": "C.UTF-8", "TERM": "xterm-256color"}


class Project:
    """One folder with a pyproject.toml, workflows and a database."""

    def __init__(self, root: Path, server: Server) -> None:
        self.root = root
        self.server = server
        self.database = root / "kept" / "runs.db"
        self.processes: list[Forked] = []
        self.terminals: list[pexpect.spawn] = []
        (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
        shutil.copy(Path(__file__).with_name("flows.py"), root)

    @property
    def env(self) -> dict[str, str]:
        return clean_environment() | {"HOME": str(self.root)}

    def run(
        self,
        *args: str,
        stdin: str | bytes = "",
        code: int | None = 0,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        """Run the command to its end. `code` is the exit code it must have; None for any."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        env = env or {}
        if any(name.startswith(READ_AT_START) for name in env):
            done = self._run_afresh(args, given, env, cwd or self.root)
        else:
            done = self._run_forked(args, given, env, cwd or self.root)
        assert "Traceback" not in done.out + done.err, done
        if code is not None:
            assert done.code == code, f"exit code {done.code}\n{done.out}\n{done.err}"
        return done

    def _run_forked(
        self, args: Sequence[str], given: bytes, env: Mapping[str, str], cwd: Path
    ) -> Done:
        return self._forked({"argv": args, "cwd": str(cwd), "env": self.env | dict(env)}, given)

    def with_gone_reader(self, *args: str, stderr_too: bool = False) -> Done:
        """The command, writing into a pipe whose reader has left already."""
        gone = ["output", "errors"] if stderr_too else ["output"]
        job = {"argv": args, "cwd": str(self.root), "env": self.env, "gone": gone}
        return self._forked(job, b"")

    def _forked(self, job: Mapping[str, Any], given: bytes) -> Done:
        with TemporaryDirectory() as folder:
            files = {name: Path(folder, name) for name in ("input", "output", "errors")}
            files["input"].write_bytes(given)
            files["output"].touch()
            files["errors"].touch()
            code = self.server.run({**job, **{name: str(file) for name, file in files.items()}})
            out, err = (files[name].read_bytes().decode() for name in ("output", "errors"))
            return Done(code, out, err)

    def _run_afresh(
        self, args: Sequence[str], given: bytes, env: Mapping[str, str], cwd: Path
    ) -> Done:
        done = subprocess.run(
            [COMMAND, *args],
            input=given,
            capture_output=True,
            cwd=cwd,
            env=self.env | dict(env),
            timeout=PATIENCE * 2,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def play(self, *replies: dict[str, Any], options: Sequence[str] = (), **more: Any) -> Done:
        """`stepwell run play` with these replies."""
        return self.run("run", "play", script(*replies), *options, **more)

    def shell(self, line: str, *, env: Mapping[str, str] | None = None) -> Done:
        """A line of shell, in which $S is the command."""
        given = self.env | {"S": COMMAND} | dict(env or {})
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            capture_output=True,
            cwd=self.root,
            env=given,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE * 2,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *args: str) -> Forked:
        """Run the command in the background, as its own process group's leader."""
        number = len(self.processes)
        output, errors = (self.root / f".{name}-{number}" for name in ("output", "errors"))
        job = {"argv": args, "cwd": str(self.root), "env": self.env}
        process = self.server.start(job | {"output": str(output), "errors": str(errors)})
        self.processes.append(process)
        return process

    def terminal(
        self, *args: str, size: tuple[int, int] = (50, 200), **env: str
    ) -> "pexpect.spawn":
        """Run the command in a terminal of its own, of so many lines and columns."""
        return self._spawn(COMMAND, args, env, size)

    def shell_terminal(self, line: str) -> "pexpect.spawn":
        """Run a line of shell in a terminal; $S is the command."""
        return self._spawn("bash", ("-c", line), {"S": COMMAND, "NO_COLOR": "1"})

    def _spawn(
        self,
        program: str,
        args: Sequence[str],
        env: Mapping[str, str],
        size: tuple[int, int] = (50, 200),
    ) -> "pexpect.spawn":
        spawned = pexpect.spawn(
            program,
            list(args),
            cwd=str(self.root),
            env=self.env | dict(env),
            encoding="utf-8",
            codec_errors="replace",
            timeout=PATIENCE,
            dimensions=size,
        )
        self.terminals.append(spawned)
        return spawned

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(PATIENCE)
        for spawned in self.terminals:
            spawned.close(force=True)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"{self.database.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()

    def effects(self, name: str = "effects") -> list[str]:
        """What tools have done, a line each."""
        file = self.root / name
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def let_go(self, name: str) -> None:
        """End the wait of a tool or a model."""
        (self.root / f"go-{name}").touch()

    def until_effect(self, line: str) -> None:
        wait_until(lambda: line in self.effects())

    def until(self, happened: Callable[[], Any]) -> None:
        wait_until(happened)

    def last(self) -> dict[str, Any]:
        run: dict[str, Any] = self.run("show", "last", "--json").json
        return run


def wait_until(happened: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Look again and again, for a bounded time."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if found := happened():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def ended(spawned: "pexpect.spawn", code: int) -> str:
    """What a command in a terminal still says; `code` is the exit code it must have."""
    spawned.expect(pexpect.EOF)
    spawned.close()
    said = str(spawned.before)
    assert spawned.exitstatus == code, f"exit code {spawned.exitstatus}: {said}"
    assert "Traceback" not in said
    return said


def finish(process: Forked, code: int | None = None) -> Done:
    """Wait for a command that was started in the background."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode is not None
    done = Done(process.returncode, out.decode(), err.decode())
    assert "Traceback" not in done.out + done.err, done
    if code is not None:
        assert done.code == code, done
    return done


def kill(process: Forked) -> None:
    """As a power failure would."""
    process.kill()
    process.wait(PATIENCE)
