"""Schedules given to `Engine` in a list."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stepwell import Agent, Engine, Reply, Schedule, ScriptedModel
from stepwell.errors import InvalidSchedule, WorkflowDefinitionError
from tests.engines import AT_ONCE

AGENT = Agent("w", model=ScriptedModel([Reply("Done.")]))
HOURLY = Schedule("hourly", "w", "Go.", every="1h")


def test_a_list_declares_schedules_as_a_module_does(tmp_path: Path) -> None:
    with Engine(
        tmp_path / "r.db", workflows=[AGENT], schedules=[HOURLY], settings=AT_ONCE
    ) as engine:
        engine.work(until_idle=True)
        [found] = engine.schedules.list()
    assert (found.name, found.declared, found.status) == ("hourly", True, "active")


def test_a_list_is_added_to_those_of_the_module(tmp_path: Path) -> None:
    module = ModuleType("flows")
    module.agent, module.daily = AGENT, Schedule("daily", "w", "Go.", cron="@daily")  # type: ignore[attr-defined]
    with Engine(
        tmp_path / "r.db", workflows=module, schedules=[HOURLY], settings=AT_ONCE
    ) as engine:
        engine.schedules.register()
        assert [one.name for one in engine.schedules.list()] == ["daily", "hourly"]


@pytest.mark.parametrize("wrong", [[AGENT], [HOURLY, Schedule("hourly", "w", "x", every="2h")]])
def test_a_list_of_something_else(tmp_path: Path, wrong: list[Any]) -> None:
    with pytest.raises(InvalidSchedule):
        Engine(tmp_path / "r.db", workflows=[AGENT], schedules=wrong, settings=AT_ONCE)


def test_a_schedule_among_workflows_is_told_where_it_belongs(tmp_path: Path) -> None:
    wrong: list[Any] = [AGENT, HOURLY]
    with pytest.raises(WorkflowDefinitionError, match="schedules as schedules="):
        Engine(tmp_path / "r.db", workflows=wrong, settings=AT_ONCE)
