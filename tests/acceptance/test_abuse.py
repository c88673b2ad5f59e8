"""What users, tools and machines do that nobody should."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

from tests.cli.command_line import Project, call, finish, kill, say, script

END = say("The end.")


def test_what_tools_print_is_no_result(project: Project) -> None:
    replies = [call("chatter", {"text": "hey"}), END]
    (project.root / "flows.py").write_text(
        f"print('imported')\n{(project.root / 'flows.py').read_text()}"
    )
    done = project.play(*replies)
    assert done.out == "The end.\n"
    for line in ("print hey", "write hey", "child hey", "imported"):
        assert line in done.err.splitlines()
    assert project.play(*replies, options=["--json"]).json["answer"] == "The end."
    assert project.run("workflows", "--json").json[0]["name"] == "play"


def test_tools_that_misbehave(project: Project) -> None:
    four = {"calls": [["leave", {}], ["fork", {}], ["thread", {}], ["whoami", {}]]}
    run = project.play(four, END, options=["--json"]).json
    assert [c["status"] for c in run["calls"]] == ["error", "ok", "ok", "ok"]
    assert run["calls"][1]["outcome"]["result"] == "parent"
    assert run["calls"][3]["outcome"]["result"] == run["calls"][3]["idempotency_key"]
    assert run["answer"] == "The end."


def test_odd_text_survives_a_round_trip(project: Project) -> None:
    """B04."""
    family = "👨\u200d👩\u200d👧 漢字 مرحبا"
    texts = ["ok \udcb2 end", "a\0b", "e\u0301 \u202e", "\ud83d", "", family]
    for text in texts:
        replies = [call("look", {"what": text}), say(f"<{text}>")]
        run = project.run("run", "play", "-", "--json", stdin=json.dumps(replies)).json
        clean = text.replace("\0", "\u2400")
        clean = clean.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        assert run["answer"] == f"<{clean}>"
        assert run["calls"][0]["outcome"]["result"] == f"saw {clean}"
    assert f"<{family}>" in project.run("show", "last", "--full").out
    assert project.run("resume", "last").out == f"<{family}>\n"
    raw = project.shell("$S run hello $'caf\\xe9'")
    assert (raw.code, "is not UTF-8" in raw.err) == (2, True)
    project.play(call("pay", {"cents": 5}), END, code=3)
    assert project.shell("$S deny last --reason $'\\xe9' --by $'\\xff'").code == 2
    (question,) = project.last()["approvals"]
    assert question["status"] == "pending"


def test_a_huge_input(project: Project) -> None:
    done = project.run("run", "hello", "-", stdin="漢" * 2_000_000)
    assert done.out == "Hello.\n"
    listed = project.run("runs").out
    assert len(listed) < 1000


def test_somebody_else_holds_the_database(project: Project) -> None:
    running = project.start("run", "play", script(call("read_slowly", {"name": "a"}), END))
    project.until_effect("waits a")
    with closing(sqlite3.connect(project.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert len(project.run("runs", "--json").json) == 1  # reading goes on
        told = project.run("run", "hello", "x", "--json", code=1).error
        assert told["type"] == "store_busy"
        project.let_go("a")
        other.execute("ROLLBACK")
    assert finish(running, 0).out == "The end.\n"


def until_asked(project: Project, times: int) -> None:
    project.until(lambda: project.effects().count("model 0") == times)


def test_killed_again_and_again_it_ends_as_failed(project: Project) -> None:
    """C22: limits and attempts are counted across crashes."""
    text = script(say("Never.", wait="a"))
    (project.root / ".env").write_text("STEPWELL_ATTEMPTS=3\n")
    for crash in range(3):
        args = ["run", "play", text, "--key", "k"] if crash == 0 else ["resume", "last"]
        process = project.start(*args)
        until_asked(project, crash + 1)
        kill(process)
    done = project.run("resume", "last", code=5)
    assert "lost" in done.err
    run = project.last()
    assert (run["state"], run["error"]["type"]) == ("failed", "worker_lost")
    assert run["used"]["turns"] == 3
    assert project.run("run", "play", text, "--key", "k", code=5).out == ""


def test_the_cap_holds_across_crashes(project: Project) -> None:
    text = script(say("Never.", wait="a"))
    for crash in range(2):
        args = ["run", "play", text, "--max-turns", "2"] if crash == 0 else ["resume", "last"]
        process = project.start(*args)
        until_asked(project, crash + 1)
        kill(process)
    assert "--max-turns" in project.run("resume", "last", code=4).err
    assert project.last()["used"]["turns"] == 2


def test_a_model_that_fails_after_an_approved_tool_ran(project: Project) -> None:
    """C09."""
    (project.root / ".env").write_text("STEPWELL_RETRY_BASE=0\n")
    project.play(call("pay", {"cents": 5}), say("Paid.", faults=2), code=3)
    project.run("approve", "last")
    done = project.run("resume", "last")
    assert done.out == "Paid.\n"
    assert "overloaded" in done.err
    assert [e for e in project.effects() if e.startswith("paid")] == ["paid 5 ann"]


PROGRAM = """
import asyncio, threading
import flows
from stepwell import Engine

TEXT = '[{"calls": [["hang_async", {"name": "a"}], ["look", {"what": "x"}]]}, {"text": "End."}]'

def go():
    with Engine(workflows=flows) as engine:
        return engine.run("play", TEXT).answer

async def inside():
    return go()

answers = [go(), go(), asyncio.run(inside()), asyncio.run(asyncio.to_thread(go)), go()]
with Engine(workflows=flows) as engine:
    twice = [engine.run("play", TEXT).answer for _ in range(2)]
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(engine.run("play", TEXT).answer))
        for _ in range(4)
    ]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(answers + twice + found)
"""


def test_python_in_loops_in_threads_and_again(project: Project) -> None:
    """C18: nothing outlives its loop."""
    project.let_go("a")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        cwd=project.root,
        env=project.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == f"{['End.'] * 11}\n"
