"""What a person approved is what runs, whatever the code or the file says by then."""

import sqlite3
from pathlib import Path

import pytest

from stepwell import Agent, Engine, Reply, ScriptedModel, tool
from stepwell.errors import InvalidDecision

SHOWN = {"to": "bob", "cents": 10, "options": {"express": False}}


def app(default: int, *, express: bool) -> Agent:
    from pydantic import BaseModel

    class Options(BaseModel):
        express: bool = False

    Options.model_fields["express"].default = express
    Options.model_rebuild(force=True)

    @tool(requires_approval=True)
    def wire(to: str, options: Options, cents: int = default) -> str:
        """Wire money."""
        return f"sent {cents} to {to}, express={options.express}"

    asks = Reply(calls=[("wire", {"to": "bob", "options": {}})])
    return Agent("a", tools=[wire], model=ScriptedModel([asks, Reply("Done.")]))


def test_a_default_is_shown_and_runs_even_if_a_deploy_changes_it(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with Engine(file, workflows=[app(10, express=False)]) as engine:
        run = engine.run("a", "Pay Bob.")
        [question] = engine.approvals(run.id)
        assert question.arguments == SHOWN
        engine.approve(question.id, by="ann")
    with Engine(file, workflows=[app(100_000, express=True)]) as engine:
        [call] = engine.resume(run.id).calls
        assert call.outcome == {"ok": True, "result": "sent 10 to bob, express=False"}
        assert call.arguments == SHOWN


def test_a_call_that_was_changed_after_the_question_cannot_be_approved(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with Engine(file, workflows=[app(10, express=False)]) as engine:
        run = engine.run("a", "Pay Bob.")
        [question] = engine.approvals(run.id)
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE call SET arguments = json_set(arguments, '$.cents', 99999)")
        connection.close()
        with pytest.raises(InvalidDecision, match="was changed in the database"):
            engine.approve(question.id, by="ann")
        [question] = engine.approvals(run.id)
        assert question.status == "pending"
        engine.deny(question.id, by="ann")
        assert [call.status for call in engine.resume(run.id).calls] == ["denied"]
