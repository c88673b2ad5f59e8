"""`support` recovers alone: a refund and a mail whose process died find out what became of them."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# The process dies inside the tool that is named, before or after its effect.
DIE = """
import os, sys
import tools.orders, tools.mail
from dataclasses import replace
from stepwell import Engine
import workflows

name, moment, database = sys.argv[1:]
support = workflows.support
def dying(tool):
    def call(**arguments):
        if moment == "after":
            tool.function(**arguments)
        os._exit(9)
    return replace(tool, function=call) if tool.name == name else tool
object.__setattr__(support, "tools", [dying(tool) for tool in support.tools])
with Engine(database, workflows=[support]) as engine:
    engine.run("support", "Ada Lovelace wants her money back for the broken lamp", approve="all")
"""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", ["refund", "send_email"])
def test_support_recovers_alone(
    name: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWELL_ORDERS_DB", str(tmp_path / "orders.db"))
    monkeypatch.setenv("STEPWELL_OUTBOX", str(tmp_path / "outbox"))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'engine'}")
    monkeypatch.setenv("STEPWELL_DATABASE_URL", f"sqlite:///{tmp_path / 'runs.db'}")
    died = subprocess.run(
        [sys.executable, "-c", DIE, name, moment, str(tmp_path / "runs.db")], cwd=ROOT, check=False
    )
    assert died.returncode == 9
    command = [sys.executable, "-c", "from stepwell.cli import main; main()", "resume", "last"]
    resumed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert "has been refunded" in resumed.stdout
    with sqlite3.connect(tmp_path / "orders.db") as database:
        assert database.execute(
            "SELECT amount_cents FROM refunds WHERE order_id = '1042'"
        ).fetchall() == [(4900,)]
    database.close()
    assert len(list((tmp_path / "outbox").iterdir())) == 1
