"""A database, the workers on it, and what the tests submit to them."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from stepwell import Engine
from stepwell.settings import Settings
from tests.processes import ending, python
from tests.workers.flows import Place, workflows

COMMAND = "from stepwell.cli import main; main()"
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


@pytest.fixture
def command(file: Path) -> Iterator[Callable[..., Popen[str]]]:
    """Starts `stepwell ...` as a process of its own, on the test's database."""
    with ExitStack() as stack:

        def _command(*arguments: object, **settings: Any) -> Popen[str]:
            said = stack.enter_context((file.parent / "said").open("a"))
            values = {
                name: json.dumps(value) if isinstance(value, dict) else value
                for name, value in settings.items()
            }
            started = python(
                *("-W", "error", "-c", COMMAND, *arguments),
                stderr=said,
                database_url=f"sqlite:///{file}",
                app="tests.workers.app",
                **QUICK | values,
            )
            return stack.enter_context(ending(started))

        yield _command


@pytest.fixture
def said(tmp_path: Path) -> Callable[[], str]:
    """What the commands have said to people."""
    return (tmp_path / "said").read_text
