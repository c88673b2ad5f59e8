"""One line of JSON for every run that ends, through `logging`: logger `stepwell.runs`."""

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from stepwell.machine import LIVE, State
from stepwell.rules.change import Change
from stepwell.state.records import RunRow
from stepwell.store import Store, story

log = logging.getLogger("stepwell.runs")


@dataclass(frozen=True, slots=True)
class RunLog:
    """Logs the ends of runs that this process records.

    Attributes:
        warn_cost, warn_turns: a run that needed more is a warning; one with errors is an error.
    """

    store: Store
    warn_cost: Decimal
    warn_turns: int

    def recorded(self, change: Change) -> None:
        """A transition was committed: log the run's result if it has ended."""
        run = change.run
        # Python itself would print warnings of a library where an application set up no logging.
        if run.state in LIVE or not (log.hasHandlers() and log.isEnabledFor(logging.ERROR)):
            return
        try:
            with self.store.reading() as connection:
                told = story.of(connection, run.number, run.seq)
            line = self.store.mask.value(_line(run, told))
            log.log(self._level(run, told), "%s", json.dumps(line))
        except Exception:  # a log line is not a part of the run
            logging.getLogger("stepwell").exception("The end of run %s was not logged.", run.id)

    def _level(self, run: RunRow, told: story.Story) -> int:
        if run.state is State.FAILED or told.errors:
            return logging.ERROR
        used = run.used
        is_much = used.turns > self.warn_turns or (used.cost or 0) > self.warn_cost
        return logging.WARNING if is_much else logging.INFO


def _line(run: RunRow, told: story.Story) -> dict[str, Any]:
    used = run.used
    return {
        "run": run.id,
        "state": run.state.value,
        "workflow": run.workflow,
        "user": run.user,
        "query": told.query,
        "model": told.model or run.model,
        "started": _iso(run.created_at),
        "finished": _iso(run.finished_at or run.updated_at),
        "answer_length": len(run.answer or ""),
        "input_tokens": used.input_tokens,
        "cached_tokens": used.cached_tokens,
        "output_tokens": used.output_tokens,
        "cost": None if used.cost is None else str(used.cost),
        "turns": used.turns,
        "parallel_turns": told.parallel_turns,
        "tool_calls": used.tool_calls,
        "errors": told.errors,
        "error": run.error.as_json() if run.error else None,
        "latency_seconds": told.live_ms / 1000,
        "human_waiting_seconds": told.parked_ms / 1000,
    }


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
