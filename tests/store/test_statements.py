"""What a run costs the database, pinned: commits, statements, bytes. See `docs/architecture.md`."""

from pathlib import Path

import pytest

from stepwell import Agent, Engine, Limits, Reply, ScriptedModel, tool
from stepwell.messages import Request
from stepwell.settings import Settings
from tests.tracing import tracing

START = ["INSERT run", "INSERT transition", "INSERT message"]
WORKER = ["INSERT worker"]
REQUEST = ["UPDATE run", "INSERT transition", "INSERT message", "INSERT call"]
RESULT = ["UPDATE run", "INSERT transition", "UPDATE call"]
ANSWER = ["UPDATE run", "INSERT transition", "INSERT message"]
# Beside the 2N + 1 of N rounds.
BEFORE = [WORKER, START]
BYTES_A_ROUND = 1_300


@tool(read_only=True)
def look(place: int) -> str:
    """Look something up."""
    return f"At place {place} there is nothing of interest. " * 6


def rounds(number: int) -> Agent:
    """A workflow whose every run has this many rounds with one call each, and then an answer."""

    def play(request: Request) -> Reply:
        if request.turn >= number:
            return Reply("Done.")
        return Reply("Then I look there, too. " * 12, calls=[("look", {"place": request.turn})])

    limits = Limits(max_turns=number + 1, max_tool_calls=number)
    return Agent(f"rounds-{number}", tools=[look], model=ScriptedModel([play]), limits=limits)


def parallel(calls: int) -> Agent:
    wanted = [("look", {"place": place}) for place in range(calls)]
    return Agent("parallel", tools=[look], model=ScriptedModel([Reply(calls=wanted), Reply("x")]))


def traced(file: Path, workflow: Agent) -> list[str]:
    """All statements of one run, from its start to its end."""
    with tracing() as statements, Engine(file, workflows=[workflow]) as engine:
        statements.clear()
        assert engine.run(workflow.name, "Go.").state == "done"
        return list(statements)


def written(statements: list[str]) -> list[list[str]]:
    """What each transaction that was committed by the writer did."""
    found: list[list[str]] = []
    is_open = False
    for statement in statements:
        verb, *rest = statement.split()
        if statement == "BEGIN IMMEDIATE":
            found.append([])
            is_open = True
        elif verb == "COMMIT":
            is_open = False
        elif is_open:
            table = rest[1] if verb == "INSERT" else rest[0]
            found[-1].append(f"{verb} {table}")
    return found


@pytest.mark.parametrize("number", [0, 1, 2, 50])
def test_n_rounds_are_2n_and_1_commits_and_nothing_is_read_in_between(
    file: Path, number: int
) -> None:
    transitions = [REQUEST, RESULT] * number + [ANSWER]
    assert written(traced(file, rounds(number))) == BEFORE + transitions
    assert len(transitions) == 2 * number + 1


@pytest.mark.parametrize("calls", [2, 5, 8])
def test_each_outcome_of_parallel_calls_is_one_commit(file: Path, calls: int) -> None:
    """Those that wait for a free slot are marked as running in the commit that frees it."""
    request = [*REQUEST, *["INSERT call"] * (calls - 1)]
    waiting = [[*RESULT, "UPDATE call"]] * max(0, calls - 5)
    results = waiting + [RESULT] * min(calls, 5)
    expected = [*BEFORE, request, *results, ANSWER]
    assert written(traced(file, parallel(calls))) == expected


def is_record(statement: str) -> bool:
    """Whether it is the guarded update that each transition begins with."""
    return statement.startswith("UPDATE run SET") and "run.seq =" in statement


def test_a_run_is_read_once_when_it_is_claimed_however_long_it_is(file: Path) -> None:
    reads = set()
    for number in (1, 40):
        workflow = rounds(number)
        file = file.with_name(f"{number}.db")
        with tracing() as statements, Engine(file, workflows=[workflow]) as engine:
            run = engine.submit(workflow.name, "Go.")
            statements.clear()
            assert engine.resume(run.id).state == "done"
        records = [place for place, s in enumerate(statements) if is_record(s)]
        assert len(records) == 2 * number + 1
        loaded = statements.index("BEGIN")
        assert loaded < records[0]
        driven = statements[records[0] : records[-1]]
        assert not [s for s in driven if s.startswith(("SELECT", "BEGIN")) and "IMM" not in s]
        reads.add(sum(s.startswith("SELECT") for s in statements))
    assert len(reads) == 1


def test_the_written_text_of_a_transition_does_not_grow_with_the_run(file: Path) -> None:
    """Rows are appended; no column holds the past."""
    records = [s for s in traced(file, rounds(60)) if is_record(s)]
    first, *_, last, _end = map(len, records)
    assert last < first + 20


def test_a_round_takes_few_bytes(file: Path) -> None:
    """At most 1,300 (aim 1,000) with 600 characters said. Closing has emptied the log."""

    def size(number: int) -> int:
        path = file.with_name(f"{number}.db")
        settings = Settings(synchronous="off")
        with Engine(path, workflows=[rounds(number)], settings=settings) as engine:
            assert engine.run(f"rounds-{number}", "Go.").state == "done"
        assert not path.with_name(f"{number}.db-wal").exists()
        return path.stat().st_size

    a_round = (size(1000) - size(0)) / 1000
    print(f"{a_round:.0f} bytes a round")
    assert a_round <= BYTES_A_ROUND
