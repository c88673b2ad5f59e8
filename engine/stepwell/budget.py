"""Pure: what a run has spent and reserved, against its limits, before anything is spent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal

from stepwell.messages import Message
from stepwell.offer import Today
from stepwell.records import Fault, RunRow
from stepwell.snapshot import Snapshot
from stepwell.workflow import Limits

# The longest reply that is paid for where neither the workflow nor what is left says less, in
# tokens, and the shortest that is worth a call.
LONGEST_REPLY = 16_000
SHORTEST_REPLY = 256

# What each limit is a number of.
UNITS = {
    "max_turns": "model call",
    "max_tool_calls": "tool call",
    "max_tokens": "token",
    "max_cost": "USD",
    "max_seconds": "second",
}


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one model call may use at most.

    Attributes:
        output: tokens that it may write; None for as many as the provider lets it.
        tokens: read and written; 0 where nothing limits them.
        cost: USD, likewise.
    """

    output: int | None
    tokens: int = 0
    cost: Decimal = Decimal(0)


def turns_left(run: RunRow) -> int:
    """Model calls that may still be made."""
    return max(0, run.max_turns - run.used.turns)


def tool_calls_left(run: RunRow) -> int:
    """Tool calls that the model may still ask for."""
    return max(0, run.max_tool_calls - run.used.tool_calls)


def reserve(run: RunRow, snapshot: Snapshot, more: Sequence[Message] = ()) -> Reservation | Fault:
    """What the next model call may use; or the limit that it would not keep, and why.

    Args:
        run: its limits and what was used.
        snapshot: the rest of the run.
        more: messages that the request will hold beside the snapshot's.
    """
    if turns_left(run) == 0:
        return Fault(type="max_turns", message=reached("max_turns", run))
    wanted = snapshot.offer.max_output if snapshot.offer else None
    if run.max_tokens is None and run.max_cost is None:
        return Reservation(wanted)
    overhead = snapshot.offer.overhead if snapshot.offer else 0
    read = snapshot.shown.tokens(overhead, more)
    output = min(wanted or LONGEST_REPLY, LONGEST_REPLY)
    least = min(output, SHORTEST_REPLY)
    if run.max_tokens is not None:
        output = min(output, run.max_tokens - run.used.tokens - read)
        if output < least:
            return _too_much("max_tokens", run, f"the next call takes {read + least:,} or more")
    if run.max_cost is None:
        return Reservation(output, read + output)
    return _affordable(run, snapshot, read, output, least)


def _affordable(
    run: RunRow, snapshot: Snapshot, read: int, output: int, least: int
) -> Reservation | Fault:
    """As many tokens as the run can still pay for, up to `output`."""
    cost = snapshot.offer.terms.cost if snapshot.offer else None
    spent, reading = run.used.cost, cost(read, 0) if cost else None
    whole = cost(read, output) if cost else None
    if spent is None or cost is None or reading is None or whole is None or run.max_cost is None:
        model = snapshot.offer.model if snapshot.offer else run.model
        return _too_much("max_cost", run, f"the price of {model} is not known")
    left = run.max_cost - spent
    if whole > left:
        share = (left - reading) / (whole - reading) if whole > reading else Decimal(-1)
        output = int((output * share).to_integral_value(ROUND_FLOOR))
    if output < least:
        needs = cost(read, least)
        return _too_much("max_cost", run, f"the next call may take {needs:f} USD")
    return Reservation(output, read + output, cost(read, output) or Decimal(0))


def at_most(snapshot: Snapshot, kept: Reservation) -> Decimal:
    """USD that a call may cost where the run itself has no limit of cost."""
    if snapshot.offer is None:
        return Decimal(0)
    read = snapshot.shown.tokens(snapshot.offer.overhead)
    return snapshot.offer.terms.cost(read, kept.output or LONGEST_REPLY) or Decimal(0)


def out_of_time(run: RunRow, now: datetime) -> Fault | None:
    """Why a run may not go on, if it was driven for as long as it may."""
    if run.max_seconds is None or active_ms(run, now) < run.max_seconds * 1000:
        return None
    return Fault(type="max_seconds", message=reached("max_seconds", run))


def active_ms(run: RunRow, now: datetime) -> int:
    """How long a run was driven, with the time since its last transition."""
    since = max(now - run.updated_at, type(now - now)(0)) if run.owner is not None else None
    return run.active_ms + (round(since.total_seconds() * 1000) if since else 0)


def over_today(run: RunRow, limits: Limits, today: Today, reserved: Decimal) -> Fault | None:
    """Why a run may not go on today, if its workflow's limits for a day are reached."""
    per_day = limits.runs_per_day
    if per_day is not None and run.used.turns == 0 and today.before >= per_day:
        text = f"{run.workflow} may begin {per_day:,} run{_s(per_day)} a day, and has today."
        return Fault(type="runs_per_day", message=f"Stopped unfinished: {text}")
    most = limits.cost_per_day
    if most is None:
        return None
    if today.cost is None or today.cost + reserved > most:
        spent = "an unknown amount" if today.cost is None else f"{today.cost:f} USD"
        text = f"{run.workflow} may cost {most:f} USD a day; {spent} are spent or reserved today."
        return Fault(type="cost_per_day", message=f"Stopped unfinished: {text}")
    return None


def reached(limit: str, run: RunRow) -> str:
    """What a capped run answers.

    Args:
        limit: a name of `UNITS`.
        run: the run that reached it.
    """
    many = getattr(run, limit)
    unit = UNITS[limit]
    amount = f"{many:f} USD" if unit == "USD" else f"{many} {unit}{_s(many)}"
    return f"Stopped unfinished: the limit of {amount} ({limit}) was reached."


def _too_much(limit: str, run: RunRow, why: str) -> Fault:
    """The limit that the next call would not keep, and what was spent of it."""
    used = f"{run.used.tokens:,} tokens" if limit == "max_tokens" else f"{run.used.cost or 0:f} USD"
    return Fault(type=limit, message=f"{reached(limit, run)} {used} were spent, and {why}.")


def _s(many: int) -> str:
    return "" if many == 1 else "s"
