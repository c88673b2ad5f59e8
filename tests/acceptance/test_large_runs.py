"""H07: a run with thousands of calls and a result of megabytes can still be looked at."""

import json
import resource

from tests.cli.command_line import Project, call, say

ROUNDS, AT_ONCE, SIZE = 24, 50, 5_000_000
CALLS = ROUNDS * AT_ONCE


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_it_is_shown_within_seconds_and_cut(project: Project) -> None:
    many = [
        {"calls": [["look", {"what": f"{place}-{n}"}] for n in range(AT_ONCE)]}
        for place in range(ROUNDS)
    ]
    long = call("big", {"characters": SIZE}, text="y" * 300_000)
    replies = [*many, long, say("z" * 100_000)]
    options = ["--max-tool-calls", "5000", "--max-turns", "100", "--json"]
    env = {"STEPWELL_SYNCHRONOUS": "off"}
    run = project.run("run", "play", "-", *options, stdin=json.dumps(replies), env=env).json
    assert len(run["calls"]) == CALLS + 1
    assert len(run["calls"][-1]["full_result"]) == SIZE
    assert len(run["calls"][-1]["outcome"]["result"]) < 21_000
    began = cpu()
    project.shell("$S runs")
    usual = cpu() - began
    for args, longest in (
        ("show last", 2_000_000),
        ("show last --trace", 2_000_000),
        ("history last", 1_000_000),
        ("runs", 2_000),
        ("approvals", 0),
    ):
        began = cpu()
        done = project.shell(f"$S {args}")
        assert cpu() - began < 6 * usual, args  # to start a command takes most of `usual`
        assert done.code == 0
        assert len(done.out) <= longest
    full = project.run("show", "last", "--full").out
    assert "x" * SIZE in full
    assert "y" * 300_000 in full
