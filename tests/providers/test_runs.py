"""Whole runs over HTTP, with the real SDKs, against a server as strict as the providers."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell import Agent, Engine
from tests.engines import AT_ONCE, Till
from tests.providers.conftest import APIS
from tests.providers.says import says
from tests.providers.strict_server import KEY, StrictServer

pytestmark = pytest.mark.usefixtures("environment")


def opened(tmp_path: Path, model: str, **options: Any) -> Engine:
    workflow = Agent("w", tools=Till().tools, model=model, instructions="Be brief.", **options)
    return Engine(tmp_path / "runs.db", workflows=[workflow], settings=AT_ONCE)


@pytest.mark.parametrize("listens", [True, False])
def test_a_run_with_parallel_calls_and_an_approval(
    api: str, listens: bool, server: StrictServer, tmp_path: Path
) -> None:
    server.play(
        says(api, "Looking.", ("c1", "look", {"q": "a"}), ("c2", "look", {"q": "b"}), thinks="Hm."),
        says(api, "", ("c3", "wire", {"amount": 5}), thinks="So."),
        says(api, "All done. ✓\u2028"),
    )
    heard: list[str] = []
    on_text = heard.append if listens else None
    with opened(tmp_path, f"{api}:test-model") as engine:
        run = engine.run("w", "Pay 5.", on_text=on_text)
        assert run.state == "awaiting_approval", run.error
        engine.approve(run.id, by="ann")
        run = engine.resume(run.id, on_text=on_text)
        history = engine.history(run.id)
    assert (run.state, run.answer, server.refused) == ("done", "All done. ✓\u2028", [])
    assert [call.status for call in run.calls] == ["ok", "ok", "ok"]
    assert [m.reasoning for m in run.messages if m.role == "assistant"] == ["Hm.", "So.", None]
    assert (run.used.input_tokens, run.used.cached_tokens, run.used.output_tokens) == (30, 9, 15)
    assert run.used.cost is None  # nobody knows what test-model costs
    assert {entry.model for entry in history if entry.usage} == {f"{api}:test-model"}
    assert "".join(heard) == ("Looking.All done. ✓\u2028" if listens else "")
    assert len(heard) > 2 if listens else not heard
    assert all(bool(r.get("stream")) is listens for r in server.requests)
    assert KEY not in (tmp_path / "runs.db").read_bytes().decode("latin-1")


def test_a_run_may_go_from_provider_to_provider(server: StrictServer, tmp_path: Path) -> None:
    names = [*APIS, *APIS]
    server.play(*(says(api, "", (f"c{n}", "wire", {"amount": n}), thinks="Hm.") for n, api in enumerate(names)), says(APIS[0], "Done."))
    with opened(tmp_path, f"{names[0]}:test-model") as engine:
        run = engine.run("w", "Pay.")
        for api in [*names[1:], APIS[0]]:
            assert run.state == "awaiting_approval", run.error
            engine.approve(run.id, by="ann")
            run = engine.resume(run.id, model=f"{api}:test-model", by="ann")
    assert (run.state, run.answer, server.refused) == ("done", "Done.", [])
    last = json.dumps(server.requests[-1])
    assert last.count('"thinking"') == 4  # both own turns kept their reasoning: type and text
    assert "reasoning_content" not in last
    assert "rs_" not in last
