"""Pure: checks a run's spending and reservations against its limits, before anything is spent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal

from stepwell.machine import State
from stepwell.messages import Message
from stepwell.state.circumstances import Circumstances, Today
from stepwell.state.records import Fault, RunRow
from stepwell.state.snapshot import Snapshot
from stepwell.workflow import Limits

# In tokens: the longest reply that is paid for, unless the workflow or the budget says less, and
# the shortest that is worth a call.
LONGEST_REPLY = 16_000
SHORTEST_REPLY = 256

# The unit of each limit.
UNITS = {
    "max_turns": "model call",
    "max_tool_calls": "tool call",
    "max_tokens": "token",
    "max_cost": "USD",
    "max_seconds": "second",
}


@dataclass(frozen=True, slots=True)
class Reservation:
    """The most that one model call may use.

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
    return max(0, run.limits.max_turns - run.used.turns)


def tool_calls_left(run: RunRow) -> int:
    """Tool calls that the model may still ask for."""
    return max(0, run.limits.max_tool_calls - run.used.tool_calls)


def reserve(
    run: RunRow, snapshot: Snapshot, given: Circumstances, more: Sequence[Message] = ()
) -> Reservation | Fault:
    """The reservation of the next model call; or the limit that it would exceed, and why.

    Args:
        run: its limits and its usage.
        snapshot: the rest of the run.
        given: the terms of the call.
        more: messages that the request will hold beside the snapshot's.
    """
    if turns_left(run) == 0:
        return Fault(type="max_turns", message=reached("max_turns", run))
    wanted = given.terms.max_output if given.terms else None
    if not is_metered(run, given):
        return Reservation(wanted)
    read = snapshot.shown.tokens(given.overhead, more)
    output = min(wanted or LONGEST_REPLY, LONGEST_REPLY)
    least = min(output, SHORTEST_REPLY)
    if run.limits.max_tokens is not None:
        output = min(output, run.limits.max_tokens - run.used.tokens - read)
        if output < least:
            return _too_much("max_tokens", run, f"the next call takes {read + least:,} or more")
    return _affordable(run, given, read, output, least)


def is_metered(run: RunRow, given: Circumstances) -> bool:
    """Whether a limit applies to the run's model calls, beside their number."""
    per_day = given.terms is not None and given.terms.is_metered
    return per_day or run.limits.max_tokens is not None or run.limits.max_cost is not None


def _affordable(
    run: RunRow, given: Circumstances, read: int, output: int, least: int
) -> Reservation | Fault:
    """As many tokens as the run can still pay for, up to `output`."""

    def cost(written: int) -> Decimal | None:
        return given.terms.cost(run.state, read, written) if given.terms else None

    reading, whole = cost(0), cost(output)
    is_limited = run.limits.max_cost is not None or (given.terms and given.terms.is_metered)
    if is_limited and (reading is None or whole is None):
        return _not_known(f"the price of {_model(run, given)} is not")
    if run.limits.max_cost is not None and run.used.cost is None:
        return _not_known("the cost of the run so far is not")
    if run.limits.max_cost is not None:
        left = run.limits.max_cost - (run.used.cost or 0)
        reading, whole = reading or Decimal(0), whole or Decimal(0)
        if whole > left:
            share = (left - reading) / (whole - reading) if whole > reading else Decimal(-1)
            output = int((output * share).to_integral_value(ROUND_FLOOR))
        if output < least:
            return _too_much("max_cost", run, f"the next call may take {_usd(cost(least))}")
    return Reservation(output, read + output, cost(output) or Decimal(0))


def _model(run: RunRow, given: Circumstances) -> str:
    name = given.terms.name if given.terms else None
    return name or run.model or "its model"


def _not_known(what: str) -> Fault:
    """Why a limit of cost cannot be kept."""
    text = f"Stopped unfinished: there is a limit of cost, and {what} known."
    return Fault(type="unknown_price", message=text)


def out_of_time(snapshot: Snapshot, given: Circumstances) -> Fault | None:
    """Why a run may not continue, if it was driven for as long as it may be."""
    run = snapshot.run
    if run.limits.max_seconds is None or active_ms(snapshot, given) < run.limits.max_seconds * 1000:
        return None
    return Fault(type="max_seconds", message=reached("max_seconds", run))


def active_ms(snapshot: Snapshot, given: Circumstances) -> int:
    """How long a run was driven, with the time since its last transition by its present driver."""
    run, since = snapshot.run, given.driven_since
    if run.owner is None or since is None:
        return run.active_ms
    passed = given.now - max(since, run.updated_at)
    return run.active_ms + max(0, round(passed.total_seconds() * 1000))


def lost_ms(run: RunRow, now: datetime) -> int:
    """How long a driver that was lost has worked, at most, since its last transition.

    Its last sign of life is not known, only that it had the run until its lease was over.
    """
    if run.lease_until is None or run.state is State.AWAITING_APPROVAL:
        return 0
    begun = max(run.updated_at, run.claimed_at or run.updated_at)
    return max(0, round((min(now, run.lease_until) - begun).total_seconds() * 1000))


def over_today(run: RunRow, limits: Limits, today: Today, reserved: Decimal) -> Fault | None:
    """Why a run may not continue today, if its workflow's limits for a day are reached."""
    per_day = limits.runs_per_day
    if per_day is not None and run.used.turns == 0 and today.before >= per_day:
        text = f"{run.workflow} may begin {per_day:,} run{_s(per_day)} a day, and has today."
        return Fault(type="runs_per_day", message=f"Stopped unfinished: {text}")
    most = limits.cost_per_day
    if most is None:
        return None
    if today.cost is None or today.cost + reserved > most:
        spent = "an unknown amount is" if today.cost is None else f"{_usd(today.cost)} are"
        needs = "" if today.cost is None else f", and the next call may take {_usd(reserved)}"
        text = f"{run.workflow} may cost {_usd(most)} a day; {spent} spent or reserved{needs}."
        return Fault(type="cost_per_day", message=f"Stopped unfinished: {text}")
    return None


def reached(limit: str, run: RunRow) -> str:
    """The answer of a capped run.

    Args:
        limit: a name of `UNITS`.
        run: the run that reached it.
    """
    many = getattr(run.limits, limit)
    unit = UNITS[limit]
    amount = _usd(many) if unit == "USD" else f"{many} {unit}{_s(many)}"
    return f"Stopped unfinished: the limit of {amount} ({limit}) was reached."


def _too_much(limit: str, run: RunRow, why: str) -> Fault:
    """The limit that the next call would exceed, with the amount that was spent."""
    used = f"{run.used.tokens:,} tokens" if limit == "max_tokens" else _usd(run.used.cost)
    return Fault(type=limit, message=f"{reached(limit, run)} {used} were spent, and {why}.")


def _usd(amount: Decimal | None) -> str:
    return f"{(amount or Decimal(0)).normalize():f} USD"


def _s(many: int) -> str:
    return "" if many == 1 else "s"
