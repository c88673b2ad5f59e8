"""One small task against each real API. Opt in with `pytest -m live`; needs the key of each.

The models can be chosen: STEPWELL_LIVE_OPENAI, STEPWELL_LIVE_OPENAI_CHAT, STEPWELL_LIVE_ANTHROPIC.
"""

import os
from pathlib import Path

import pytest

from stepwell import Agent, Engine
from stepwell.errors import ConfigurationError
from tests.engines import Till

MODELS = {"openai": "gpt-5-mini", "openai-chat": "gpt-5-mini", "anthropic": "claude-haiku-4-5"}


@pytest.mark.live
@pytest.mark.parametrize("api", MODELS)
def test_a_run_with_a_tool(api: str, tmp_path: Path) -> None:
    till = Till()
    name = os.environ.get(f"STEPWELL_LIVE_{api.upper().replace('-', '_')}", MODELS[api])
    workflow = Agent(
        "live",
        tools=[till.look],
        model=f"{api}:{name}",
        instructions="Call `look` with q='a' and with q='b', both at once. Then answer with both results.",
    )
    heard: list[str] = []
    with Engine(tmp_path / "runs.db", workflows=[workflow]) as engine:
        try:
            run = engine.run("live", "Go on.", on_text=heard.append)
        except ConfigurationError as missing:
            pytest.skip(str(missing))
    assert run.state == "done", run.error
    assert {"about a", "about b"} <= set(till.effects)
    assert "about a" in (run.answer or "")
    assert "".join(heard).endswith(run.answer or "")
    assert run.used.input_tokens > 0
    assert run.used.output_tokens > 0
    assert run.used.cost
