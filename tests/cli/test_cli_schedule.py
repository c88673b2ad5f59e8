"""`stepwell schedule`: what a person types and is shown, wrong input included."""

import re
import signal
from typing import Any

import pytest

from tests.cli.command_line import Project

NEXT = re.compile(r"next (Mon|Tue|Wed|Thu|Fri|Sat|Sun) 20\d\d-\d\d-\d\d 06:00 CES?T \(0[45]:00Z\)")
DECLARING = '\nfrom stepwell import Schedule\nnightly = Schedule("nightly", "hello", "Go.", cron="@daily")\n'


@pytest.fixture
def schedule(project: Project) -> Any:
    def _schedule(*args: str, **options: Any) -> Any:
        return project.run("schedule", *args, **options)

    return _schedule


def test_d01_after_adding_the_next_three_times_are_shown_with_their_weekday(schedule: Any) -> None:
    done = schedule("add", "s", "hello", "Hi.", "--cron", "0 6 * * mon", "--tz", "Europe/Berlin")
    first, *lines = done.out.splitlines()
    assert first == "Schedule s is active."
    assert len(lines) == 3
    assert {match[1] for match in map(NEXT.fullmatch, lines) if match} == {"Mon"}
    edited = schedule("edit", "s", "--cron", "0 6 * * 5")
    assert {line.split()[1] for line in edited.out.splitlines()[1:]} == {"Fri"}


def test_what_a_schedule_is_as_json(schedule: Any) -> None:
    added = schedule(
        "add", "s", "hello", "-", "--every", "15m", "--overlap", "queue", "--catch-up", "all",
        "--backlog", "3", "--jitter", "1m", "--pause-after", "2", "--user", "ann", "--json",
        stdin="Hi {{ due }}.",
    ).json  # fmt: skip
    assert {k: added[k] for k in ("name", "workflow", "input", "every", "cron", "at", "tz")} == {
        "name": "s", "workflow": "hello", "input": "Hi {{ due }}.", "every": "15m", "cron": None,
        "at": None, "tz": "UTC",
    }  # fmt: skip
    assert {k: added[k] for k in ("overlap", "catch_up", "backlog", "jitter", "pause_after")} == {
        "overlap": "queue", "catch_up": "all", "backlog": 3, "jitter": "1m", "pause_after": 2,
    }  # fmt: skip
    assert (added["status"], added["declared"], added["user"]) == ("active", False, "ann")
    assert len(added["upcoming"]) == 5
    assert all(moment.endswith("Z") for moment in added["upcoming"])
    [listed] = schedule("list", "--json").json
    assert listed.items() <= added.items()
    assert schedule("show", "s", "--json").json == added


def test_the_life_of_a_schedule(schedule: Any, project: Project) -> None:
    schedule("add", "s", "hello", "Hi.", "--every", "1h")
    assert "paused by ann" in schedule("pause", "s", "--by", "ann", "--reason", "loud").out
    listed = schedule("list")
    assert "paused" in listed.out
    assert "s is paused: loud" in listed.err
    run = schedule("trigger", "s", "--by", "ann").out.strip()
    worked = project.run("worker", "--until-idle")
    assert worked.out == ""
    shown = schedule("show", "s").out
    assert f"ran    {run} done  triggered by ann" in shown
    assert project.run("show", run, "--json").json["schedule"] == "s"
    assert "active" in schedule("resume", "s").out
    assert schedule("remove", "s", "--json").json == {"name": "s", "removed": True}
    assert schedule("list").err == "There is no schedule.\n"
    assert schedule("list", "--json").json == []


def test_a_worker_says_in_a_line_what_it_fired(schedule: Any, project: Project) -> None:
    schedule("add", "s", "hello", "Hi.", "--every", "1s")
    quiet = project.run("worker", "--until-idle", "--no-schedules").err.splitlines()
    assert [line[:7] for line in quiet] == ["Worker "]
    worker = project.start("worker")
    project.until(lambda: "done" in schedule("show", "s").out)
    worker.send_signal(signal.SIGTERM)
    lines = worker.communicate(timeout=30)[1].decode().splitlines()
    ran = re.compile(r"Schedule s, due 20[-\d]+ [:\d]+Z: ran, run 01\w{24}")
    assert any(map(ran.fullmatch, lines)), lines


@pytest.mark.parametrize(
    ("options", "kind", "hint"),
    [
        (["--cron", "61 * * * *"], "invalid_schedule", "0 to 59"),
        (["--cron", "0 0 31 2 *"], "invalid_schedule", "L"),
        (["--cron", "@daily", "--tz", "Berlin"], "invalid_schedule", "Europe/Berlin"),
        (["--at", "tomorrow"], "invalid_schedule", "2027-01-01T09:00"),
        (["--at", "2001-01-01T09:00"], "invalid_schedule", "stepwell run hello"),
        (["--every", "15"], "invalid_schedule", "15m"),
        ([], "invalid_schedule", "0 6 * * mon"),
    ],
)
def test_wrong_settings_are_errors_that_say_what_would_be_right(
    schedule: Any, options: list[str], kind: str, hint: str
) -> None:
    done = schedule("add", "s", "hello", "Hi.", *options, "--json", code=2)
    assert done.error["type"] == kind
    assert hint in done.error["hint"]
    assert schedule("list", "--json").json == []


def test_other_mistakes(schedule: Any) -> None:
    assert schedule("show", "x", "--json", code=1).error["type"] == "unknown_schedule"
    unknown = schedule("add", "s", "helo", "Hi.", "--every", "1h", "--json", code=1)
    assert "hello" in unknown.error["hint"]
    schedule("add", "s", "hello", "Hi.", "--every", "1h", "--overlap", "both", code=2)


def test_what_is_declared_is_registered_and_what_vanished_is_orphaned(
    schedule: Any, project: Project
) -> None:
    flows = project.root / "flows.py"
    plain = flows.read_text("utf-8")
    flows.write_text(plain + DECLARING, "utf-8")
    [declared] = schedule("list", "--json").json
    assert (declared["name"], declared["declared"], declared["status"]) == (
        "nightly",
        True,
        "active",
    )
    assert "Change it there" in schedule("edit", "nightly", "--every", "1h", code=1).err
    flows.write_text(plain.replace('Agent(name="hello"', 'Agent(name="renamed"'), "utf-8")
    assert "defines no workflow 'hello'" in schedule("list").err
    flows.write_text(plain, "utf-8")
    assert "stepwell schedule remove nightly" in schedule("list").err
    schedule("remove", "nightly")
    assert schedule("list", "--json").json == []


def test_text_that_would_move_the_terminal_is_escaped(schedule: Any) -> None:
    schedule("add", "s", "hello", "\x1b[2K\x1b[1A fake", "--every", "1h", "--user", "\x1b]0;a\x07")
    schedule("pause", "s", "--by", "\x1b[31m", "--reason", "\u202egnp.exe")
    for done in (schedule("list"), schedule("show", "s")):
        assert "\x1b" not in done.out + done.err
        assert "\u202e" not in done.out + done.err
    assert "not a name" in schedule("add", "a\x1b", "hello", "Hi.", "--every", "1h", code=2).err


def test_an_expression_is_explained_and_the_changes_of_clocks_are_marked(schedule: Any) -> None:
    out = schedule("next", "0 3 1 1,7 *", "--tz", "Europe/Berlin").out
    assert out.startswith("At 03:00 on the first day of January and July, Europe/Berlin\n")
    assert out.count("Z") == 10
    assert "clocks were put forward by 60 min" in out
    assert "clocks were put back by 60 min" in out
    missing = schedule("next", "30 2 13,14 3 *", "--tz", "America/New_York").out
    assert "the time itself does not exist that day" in missing
    twice = schedule("next", "30 1 1-7 11 0", "--tz", "America/New_York").out
    assert "either makes a day match" in twice
    assert "the first of two 01:30" in twice
    times = schedule("next", "@hourly", "--json").json["times"]
    assert len(times) == 10
    assert set(times[0]) == {"due", "local", "note"}
    assert "bad hour" in schedule("next", "0 25 * * *", code=2).err
