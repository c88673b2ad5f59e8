"""A strict server for each test, and the adapters pointed at it as a user would do it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.messages import Provider
from stepwell.providers.registry import resolve
from tests.providers.strict_server import KEY, StrictServer

APIS = ("anthropic", "openai", "openai-chat")


@pytest.fixture(scope="session")
def one_server() -> Iterator[StrictServer]:
    started = StrictServer()
    yield started
    started.close()


@pytest.fixture
def server(one_server: StrictServer) -> StrictServer:
    one_server.reset()
    return one_server


@pytest.fixture
def environment(server: StrictServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("STEPWELL_MODEL_TIMEOUT", "10")
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(api: str, environment: None, tmp_path: Path) -> Provider:
    return resolve(f"{api}:test-model", tmp_path)
