from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import Project, clean_environment
from tests.forking import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    forking = Server(env=clean_environment())
    yield forking
    forking.close()


@pytest.fixture
def project(tmp_path: Path, server: Server) -> Iterator[Project]:
    made = Project(tmp_path, server)
    yield made
    made.close()
