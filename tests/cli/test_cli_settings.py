"""Where settings come from, the application, and databases that cannot be used."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.cli.command_line import Project, say, script

HI = ["run", "hello", "x"]


def test_environment_over_dotenv_over_pyproject(project: Project) -> None:
    (project.root / "deep").mkdir()
    assert project.run("db", "path").out == f"{project.database}\n"
    assert project.run("db", "path", cwd=project.root / "deep").out == f"{project.database}\n"
    (project.root / ".env").write_text("STEPWELL_DATABASE_URL=sqlite:///dot.db\n# x\n")
    dotted = project.run("db", "path", "--json").json
    assert Path(dotted["path"]).name == "dot.db"
    env = {"STEPWELL_DATABASE_URL": "sqlite:////tmp/else.db"}
    assert project.run("db", "path", env=env).out == "/tmp/else.db\n"  # noqa: S108
    (project.root / ".env").unlink()
    (project.root / "others.py").write_text("from flows import hello\nprint('imported')\n")
    env = {"STEPWELL_APP": "others"}
    assert [w["name"] for w in project.run("workflows", "--json", env=env).json] == ["hello"]
    named = project.run("workflows", "--json", "--app", "flows", env=env).json
    assert len(named) == 5


def test_a_setting_that_is_not_valid(project: Project) -> None:
    for name, value in (("LEASE", "abc"), ("ATTEMPTS", "0"), ("SYNCHRONOUS", "maybe")):
        told = project.run("runs", "--json", env={f"STEPWELL_{name}": value}, code=1).error
        assert told["type"] == "configuration_error"
        assert name.lower() in told["message"]
        assert value in told["message"]
    file = project.root / "pyproject.toml"
    file.write_text('[tool.stepwell]\napp = "flows"\nlease = "long"\n')
    assert "lease" in project.run("runs", code=1).err
    file.write_text("[tool.stepwell\n")
    assert "not valid TOML" in project.run("runs", code=1).err
    assert project.run("--version").code == 0


def test_an_application_that_cannot_be_used(project: Project) -> None:
    files = {
        "broken": "def f(:\n",
        "raises": "raise ValueError('no luck \\x1b[31m')\n",
        "needs": "import not_there_at_all\n",
        "exits": "import sys; sys.exit('bye')\n",
        "twice": "from stepwell import Agent\na = Agent(name='x')\nb = Agent(name='x')\n",
        "wrong": "from stepwell import tool\n@tool\ndef f(*args): ...\n",
    }
    for name, text in files.items():
        (project.root / f"{name}.py").write_text(text)
        told = project.run(*HI, "--app", name, "--json", code=1).error
        assert told["type"] in {
            "configuration_error", "workflow_definition_error", "tool_definition_error",
        }, told  # fmt: skip
    for missing in ("nowhere", "flows.nowhere", "no-name", "", "..", "/etc/passwd"):
        done = project.run(*HI, "--app", missing, "--json", code=None)
        if missing:
            assert done.code == 1
            assert done.error["type"] == "configuration_error"
    # What only looks does not need it.
    assert len(project.run("runs", "--app", "nowhere", "--json").json) == 1


def test_a_new_database_is_announced_once_and_only_where_one_is_needed(project: Project) -> None:
    lookers = (
        "runs", "approvals", "doctor", "check", "show last", "context last", "resume last",
        "send last x", "fork last --at 1", "cancel last", "approve last --edit {}",
        "schedule list", "schedule show x",
    )  # fmt: skip
    for command in lookers:
        looked = project.run(*command.split(), code=None)
        assert f"There is no database yet: {project.database}\n" in looked.err, command
        assert not project.database.parent.exists(), command
    (finding,) = project.run("doctor", "--json").json
    assert finding["message"] == f"{project.database} does not exist yet."
    assert "New database" not in project.run(*HI, "--json").err
    shutil.rmtree(project.database.parent)
    assert project.run(*HI).err.count(f"New database: {project.database}\n") == 1
    assert "database" not in project.run(*HI).err


def test_databases_that_cannot_be_used(project: Project) -> None:
    (project.root / "text.db").write_text("no database at all, but long enough " * 50)
    with closing(sqlite3.connect(project.root / "other.db")) as other:
        other.execute("CREATE TABLE mine (x)")
    before = {name: (project.root / name).read_bytes() for name in ("text.db", "other.db")}
    for url, word in (
        ("sqlite:///text.db", "not a database"),
        ("sqlite:///other.db", "not a Stepwell database"),
        ("sqlite:////proc/nowhere/runs.db", "/proc/nowhere"),
        ("sqlite:///text.db/runs.db", "text.db"),
        (f"sqlite:///{project.root}", str(project.root)),
        ("postgresql://me:secret@host/db", "SQLite"),
        ("sqlite://", "SQLite"),
        ("nonsense://", "nonsense"),
    ):
        told = project.run(*HI, "--json", env={"STEPWELL_DATABASE_URL": url}, code=1).error
        assert word in told["message"] + told["hint"]
        assert "secret" not in told["message"]
    for command in (["db", "check"], ["db", "upgrade"], ["runs"]):
        project.run(*command, env={"STEPWELL_DATABASE_URL": "sqlite:///other.db"}, code=1)
    assert before == {name: (project.root / name).read_bytes() for name in before}


def test_db_upgrade_and_check(project: Project) -> None:
    missing = project.run("db", "check", code=1)
    assert "db upgrade" in missing.out
    assert not project.database.exists()
    made = project.run("db", "upgrade", "--json").json
    assert made["backup"] is None
    assert made["version"] >= 1
    assert "version" in project.run("db", "upgrade").out
    project.play(say("x"))
    checked = project.run("db", "check", "--json").json
    assert checked["problems"] == []
    assert checked["version"] == made["version"]
    with closing(sqlite3.connect(project.database)) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute("INSERT INTO note VALUES (99, 1, 1, 'stray')")
        connection.commit()
    stray = project.run("db", "check", "--json", code=1).json
    assert any("note" in problem for problem in stray["problems"])
    assert "note" in project.run("db", "check", code=1).out


def test_a_newer_schema_is_refused_and_untouched(project: Project) -> None:
    project.run("db", "upgrade")
    with closing(sqlite3.connect(project.database)) as connection:
        connection.execute("PRAGMA user_version=99")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = project.database.read_bytes()
    for command in (
        ["runs"],
        ["run", "play", script(say("x"))],
        ["db", "upgrade"],
        ["db", "check"],
    ):
        told = project.run(*command, "--json", code=1).error
        assert told["type"] == "schema_too_new"
        assert "99" in told["message"]
    assert project.database.read_bytes() == before


def test_a_damaged_database_is_reported(project: Project) -> None:
    project.play(say("x"))
    with closing(sqlite3.connect(project.database)) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute("DROP TABLE call")
        connection.commit()
    (problem,) = project.run("db", "check", "--json", code=1).json["problems"]
    assert "cannot be read: no such table: call" in problem
    for command in (["show", "last"], ["resume", "last"]):
        assert project.run(*command, "--json", code=1).error["type"] == "store_error"
