"""A process is killed in the middle of a run over HTTP; another goes on, and the provider agrees."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from stepwell.views.runs import RunDetail
from tests.engines import AT_ONCE
from tests.processes import ending, python
from tests.providers import killed
from tests.providers.says import says
from tests.providers.strict_server import Raw, StrictServer
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("environment")


def kill_and_resume(
    api: str, folder: Path, when: Callable[[], object]
) -> tuple[RunDetail, list[str]]:
    database, model = folder / "runs.db", f"{api}:test-model"
    effects = Path(f"{database}.effects")
    with ending(python(Path(killed.__file__), database, model)) as process:
        eventually(when, 100)
        process.kill()
        process.wait()
    workflow = killed.workflow(model, effects, 0)
    with Engine(database, workflows=[workflow], settings=AT_ONCE) as engine:
        run = engine.resume("last")
    return run, effects.read_text().split("\n")[:-1]


def test_a_process_is_killed_while_the_model_answers(
    api: str, server: StrictServer, tmp_path: Path
) -> None:
    def goes_on(_: object) -> Raw | dict[str, Any]:
        return Raw(delay=60) if len(server.requests) == 2 else says(api, "Done.")

    server.play(says(api, "", ("c1", "pay", {"amount": 5}), thinks="Hm."), goes_on)
    run, effects = kill_and_resume(api, tmp_path, lambda: len(server.requests) == 2)
    assert (run.state, run.answer, server.refused, effects) == ("done", "Done.", [], ["paid 5"])
    assert server.requests[2] == server.requests[1]


def test_a_process_is_killed_while_a_tool_runs(
    api: str, server: StrictServer, tmp_path: Path
) -> None:
    """Public case A01: one result for each call, in the order asked; what was done is not repeated."""
    calls = ("c1", "slow", {"q": "a"}), ("c2", "pay", {"amount": 5})
    server.play(says(api, "", *calls, thinks="Hm."), says(api, "Done."))
    with Engine(tmp_path / "runs.db", settings=AT_ONCE) as looking:

        def paid() -> bool:
            runs = looking.runs()
            return bool(runs) and "ok" in [call.status for call in looking.get(runs[0].id).calls]

        run, effects = kill_and_resume(api, tmp_path, paid)
    assert (run.state, run.answer, server.refused, effects) == ("done", "Done.", [], ["paid 5"])
    assert [call.status for call in run.calls] == ["ok", "ok"]
