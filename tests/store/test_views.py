"""The views: what a person reads with nothing but an SQL prompt."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from stepwell import Verdict
from stepwell.state.inbox import InboxKind
from stepwell.store import Store
from stepwell.store.views import VIEWS
from tests.store.stepping import Stepping

ISO = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
Rows = list[dict[str, Any]]


@pytest.fixture
def run(store: Store) -> Stepping:
    """One that asked for two tools, ran one, and waits for a person because of the other."""
    stepping = Stepping(store, "Pay Ann", user="ann", key="k")
    calls = [("look", {"q": "x"}), ("wire", {"amount": 5})]
    stepping.record(stepping.replied(*calls, text="Looking.", reasoning="She is owed 5."))
    stepping.record(stepping.ended(1, "found"))
    stepping.settle()
    return stepping


def select(file: Path, query: str) -> Rows:
    """As somebody else's program reads it, while the store is open."""
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(query)]
    finally:
        connection.close()


def times(rows: Rows) -> list[Any]:
    names = ("at", "_at", "not_before", "lease_until")
    return [v for row in rows for k, v in row.items() if k.endswith(names) and v is not None]


# Those that nothing of a run is in, or only of one that somebody has sent something.
OTHERS = {"schedule_overview", "occurrence_log", "sent"}


@pytest.mark.parametrize("view", sorted(set(VIEWS) - OTHERS))
def test_a_view_speaks_of_runs_by_id_and_of_times_in_iso(
    run: Stepping, file: Path, view: str
) -> None:
    rows = select(file, f"SELECT * FROM {view}")  # noqa: S608 - ours
    ids = {row["run"] if "run" in row else row["id"] for row in rows}
    assert ids == {run.snapshot.run.id}
    assert all(ULID.fullmatch(id_) for id_ in ids)
    assert all(ISO.fullmatch(moment) for moment in times(rows))
    assert bool(times(rows)) is (view != "transcript")


def test_times_are_exact_to_the_millisecond(run: Stepping, file: Path) -> None:
    [row] = select(file, "SELECT created_at, updated_at FROM run_overview")
    stored = run.snapshot.run
    for name in row:
        expected = getattr(stored, name).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert row[name] == expected


def test_run_overview(run: Stepping, file: Path) -> None:
    [row] = select(file, "SELECT * FROM run_overview")
    shown = {name: row[name] for name in ("workflow", "state", "user", "key", "input", "answer")}
    assert shown == {
        "workflow": "w",
        "state": "awaiting_approval",
        "user": "ann",
        "key": "k",
        "input": "Pay Ann",
        "answer": None,
    }
    assert (row["turns"], row["tool_calls"], row["owner"]) == (1, 2, None)


def test_run_timeline(run: Stepping, file: Path) -> None:
    rows = select(file, "SELECT * FROM run_timeline ORDER BY run, seq")
    assert [(r["seq"], r["trigger"], r["source"], r["dest"]) for r in rows] == [
        (1, "start", None, "awaiting_model"),
        (2, "request_tools", "awaiting_model", "dispatching"),
        (3, "call_finished", "dispatching", "dispatching"),
        (4, "ask", "dispatching", "awaiting_approval"),
    ]
    assert rows[0]["by"] == "ann"
    assert re.fullmatch(r".+:\d+", rows[1]["by"])


def test_transcript(run: Stepping, file: Path) -> None:
    rows = select(file, "SELECT * FROM transcript")
    assert [(r["role"], r["tool"], r["status"]) for r in rows] == [
        ("user", None, None),
        ("assistant", None, None),
        ("tool", "look", "ok"),
        ("tool", "wire", "waiting"),
    ]
    assert [r["text"] for r in rows[:2]] == ["Pay Ann", "Looking."]
    assert json.loads(rows[2]["text"]) == {"ok": True, "result": "found"}
    assert json.loads(rows[3]["arguments"]) == {"amount": 5}


def test_pending_approval(run: Stepping, file: Path) -> None:
    [row] = select(file, "SELECT * FROM pending_approval")
    id_ = run.snapshot.run.id
    assert (row["id"], row["call"], row["tool"]) == (f"{id_}-q1", f"{id_}-2", "wire")
    assert (json.loads(row["arguments"]), row["reasoning"]) == ({"amount": 5}, "She is owed 5.")
    assert row["expires_at"] > row["asked_at"]


def test_tool_call(run: Stepping, file: Path) -> None:
    rows = select(file, "SELECT * FROM tool_call ORDER BY number")
    names = ("tool", "status", "ms", "requested_seq", "finished_seq", "edited")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("look", "ok", 7, 2, 3, 0),
        ("wire", "waiting", None, 2, None, 0),
    ]
    assert json.loads(rows[0]["result"]) == "found"
    assert rows[0]["requested_at"] <= rows[0]["started_at"] <= rows[0]["finished_at"]
    assert (rows[1]["started_at"], rows[1]["finished_at"], rows[1]["result"]) == (None, None, None)


def test_approval_history(run: Stepping, file: Path) -> None:
    [row] = select(file, "SELECT * FROM approval_history")
    assert (row["status"], row["decided_at"], row["seconds_waited"]) == ("pending", None, None)
    run.record(run.answered(1, Verdict.DENY, "bob", reason="no"), driven=False)
    [row] = select(file, "SELECT * FROM approval_history")
    assert (row["tool"], row["status"], row["decided_by"], row["reason"]) == (
        "wire", "denied", "bob", "no",
    )  # fmt: skip
    assert row["seconds_waited"] >= 0


def test_sent(store: Store, run: Stepping, file: Path) -> None:
    store.send(run.number, InboxKind.MESSAGE, "ann", text="Hurry!")
    [row] = select(file, "SELECT * FROM sent")
    id_ = run.snapshot.run.id
    assert ISO.fullmatch(row.pop("sent_at"))
    assert row == {
        "id": f"{id_}-m1",
        "run": id_,
        "kind": "message",
        "text": "Hurry!",
        "amounts": None,
        "by": "ann",
        "delivered_seq": None,
    }


def test_costs_are_dollars(store: Store, file: Path) -> None:
    select(file, "SELECT cost FROM run_overview")
    Stepping(store)
    assert select(file, "SELECT cost FROM run_overview") == [{"cost": 0.0}]
