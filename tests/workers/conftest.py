"""A database, the workers on it, and what the tests submit to them."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from stepwell.settings import Settings
from tests.forking import Forked, Server
from tests.processes import ROOT, surroundings
from tests.workers.flows import Place, workflows

# Nothing is waited for, and the disk is not either.
QUICK: dict[str, Any] = {"retry_base": 0, "synchronous": "off"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def opened(file: Path) -> Iterator[Callable[..., Engine]]:
    """An engine on the test's database."""
    with ExitStack() as stack:

        def _opened(given: Any = None, **settings: Any) -> Engine:
            known = workflows(file.parent) if given is None else given
            chosen = Settings(**QUICK | settings)
            return stack.enter_context(Engine(file, workflows=known, settings=chosen))

        yield _opened


@pytest.fixture
def engine(opened: Callable[..., Engine]) -> Engine:
    return opened()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    forking = Server("-W", "error", env=surroundings())
    yield forking
    forking.close()


@pytest.fixture
def command(file: Path, server: Server) -> Iterator[Callable[..., Forked]]:
    """Starts `stepwell ...` as a process of its own, on the test's database."""
    started: list[Forked] = []

    def _command(*arguments: str, **settings: Any) -> Forked:
        values = {
            name: json.dumps(value) if isinstance(value, dict) else value
            for name, value in settings.items()
        }
        given = {"database_url": f"sqlite:///{file}", "app": "tests.workers.app"}
        job = {
            "argv": arguments,
            "cwd": str(ROOT),
            "env": surroundings(**given | QUICK | values),
            "output": str(file.with_name(f"output {len(started)}")),
            "errors": str(file.with_name("said")),
        }
        started.append(server.start(job))
        return started[-1]

    yield _command
    for process in started:
        process.kill()
        process.wait(30)


@pytest.fixture
def said(tmp_path: Path) -> Callable[[], str]:
    """What the commands have said to people."""
    return (tmp_path / "said").read_text
