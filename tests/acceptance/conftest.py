from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import Project, Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    forking = Server()
    yield forking
    forking.close()


@pytest.fixture
def project(tmp_path: Path, server: Server) -> Iterator[Project]:
    made = Project(tmp_path, server)
    yield made
    made.close()
