"""The nightly report: its sums are those of the file, it is mailed once, and a schedule drives it."""

import csv
import email
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
import time_machine

from stepwell import Schedule
from stepwell.engine import Engine
from tests.narrowing import present

ROOT = Path(__file__).parents[3]
MONDAY = datetime(2026, 12, 7, 5, tzinfo=UTC)
INPUT = """Expenses of {{ due.date() }}{% if previous.answer %}
Last time: {{ previous.answer }}{% endif %}"""


def total() -> str:
    with (ROOT / "data" / "expenses.csv").open(encoding="utf-8") as file:
        return str(sum(Decimal(row["amount"]) for row in csv.DictReader(file)))


def mails(folder: Path) -> list[Any]:
    read = (
        email.message_from_bytes(file.read_bytes(), policy=default) for file in folder.iterdir()
    )
    return sorted(read, key=lambda mail: mail["Subject"])


def test_the_report_has_the_sums_of_the_file_and_is_mailed(engine: Engine, tmp_path: Path) -> None:
    run = engine.run("nightly", "Expenses of 1 December")
    assert run.answer == f"Sent to office@example.com. Total: {total()} EUR"
    [mail] = mails(tmp_path / "outbox")
    assert (mail["To"], mail["Subject"]) == ("office@example.com", "Expenses of 1 December")
    assert f"Total: {total()} EUR" in mail.get_content()
    assert mail.get_content().startswith("Rent is the largest item.")


def test_without_expenses_nothing_is_sent(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWELL_EXPENSES", str(tmp_path / "missing.csv"))
    assert "No report was sent" in present(engine.run("nightly", "Expenses").answer)
    assert not (tmp_path / "outbox").exists()


def test_scheduled_it_knows_its_day_and_the_report_before(engine: Engine, tmp_path: Path) -> None:
    weekly = Schedule("weekly", "nightly", INPUT, cron="0 6 * * mon", tz="Europe/Berlin")
    with time_machine.travel(MONDAY - timedelta(days=1), tick=False) as clock:
        engine.schedules.add(weekly)
        for week in (0, 1):
            clock.move_to(MONDAY + timedelta(weeks=week))
            engine.work(until_idle=True)
            engine.work(until_idle=True)
    assert [run.state for run in engine.runs()] == ["done", "done"]
    first, second = mails(tmp_path / "outbox")
    assert [first["Subject"], second["Subject"]] == [
        "Expenses of 2026-12-07", "Expenses of 2026-12-14",
    ]  # fmt: skip
    assert second.get_content().startswith("Rent is the largest item, as it was")
