from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.close()
