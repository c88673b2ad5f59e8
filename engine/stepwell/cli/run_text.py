"""One run on the terminal: its state, its messages and its calls."""

from decimal import Decimal

from rich.text import Text

from stepwell.cli.output import COLOURS, console, printable, state_text, turns_text
from stepwell.machine import State
from stepwell.plain_json import dumps
from stepwell.views.runs import CallView, RunDetail

# Characters of a text that are shown before --full is needed.
CUT = 400


def show_run(run: RunDetail, *, full: bool) -> None:
    """Print a run."""
    _head(run)
    calls = {call.id: call for call in run.calls}
    for message in run.messages:
        if message.role == "tool":
            _call(calls.pop(message.call or ""), full=full)
            continue
        if message.reasoning:
            _print(f"{message.role} thinks", message.reasoning, "dim italic", full=full)
        if message.text:
            _print(message.role, message.text, "bold", full=full)
    for call in calls.values():
        _call(call, full=full)
    for question in run.approvals:
        said = (
            f"{question.status} by {question.decided_by}"
            if question.decided_by
            else question.status
        )
        why = f": {question.reason}" if question.reason else ""
        _print(
            question.id.rpartition("-")[2],
            f"{question.kind} of {question.tool}: {said}{why}",
            "yellow",
            full=full,
        )
    _inbox(run, full=full)


def _inbox(run: RunDetail, *, full: bool) -> None:
    """Entries that wait; delivered ones are among the messages, or in the limits."""
    for sent in run.inbox:
        if sent.delivered_seq is None:
            who = f" by {sent.by}" if sent.by else ""
            raises = ", ".join(f"{name} +{by}" for name, by in (sent.amounts or {}).items())
            when = "" if run.state == State.CANCELLED else " yet"
            _print(f"not delivered{when}{who}", sent.text or raises, "yellow", full=full)


def show_trace(run: RunDetail, *, full: bool) -> None:
    """Print a run's reasoning, calls and observations, step by step."""
    for step in run.trace:
        text = step.text or f"{step.tool} {dumps(step.arguments)}"
        label = f"{step.step} {step.type}"
        _print(label, text, "bold" if step.type == "tool_call" else "", full=full)
    if run.answer:
        _print("answer", run.answer, "green", full=full)


def _head(run: RunDetail) -> None:
    out = console()
    head = Text(f"{run.id}  {printable(run.workflow)}  ")
    head.append(state_text(run.state, stuck=run.stuck))
    out.print(head, soft_wrap=True)
    used, limits = run.used, run.limits
    facts = [
        f"created {run.created_at:%F %T}Z",
        f"turns {turns_text(run)}",
        f"tool calls {used.tool_calls}/{limits.max_tool_calls}",
        f"tokens {used.input_tokens} in, {used.output_tokens} out{_of(limits.max_tokens)}",
    ]
    if used.cost or limits.max_cost is not None:
        spent = "unknown" if used.cost is None else f"{used.cost:f}"
        facts.append(f"cost {spent}{_of(limits.max_cost)} USD")
    if limits.max_seconds is not None:
        facts.append(f"driven for {used.active_ms // 1000}{_of(limits.max_seconds)} s")
    facts += [f"{name} {value}" for name, value in (("key", run.key), ("user", run.user)) if value]
    facts += [f"transition {run.seq}"]
    facts += [f"forked from {o.run} at {o.at}" for o in (run.forked_from,) if o]
    facts += [f"forked as {fork.run} at {fork.at}" for fork in run.forks]
    facts += [f"workflow definition changed at transition {seq}" for seq in run.redefined]
    facts += [f"driven by {run.owner}"] if run.owner else []
    if run.not_before:
        expires = run.state == State.AWAITING_APPROVAL
        word = "its question expires" if expires else "not before"
        facts.append(f"{word} {run.not_before:%F %T}Z")
    out.print(Text(printable("; ".join(facts)), style="dim"), soft_wrap=True)
    if run.error:
        out.print(Text(printable(run.error["message"]), style="red"), soft_wrap=True)
    out.print()


def _of(limit: Decimal | int | None) -> str:
    return "" if limit is None else f" of {Decimal(limit):f}"


def _call(call: CallView, *, full: bool) -> None:
    arguments = call.arguments if call.edited_arguments is None else call.edited_arguments
    edited = " (edited)" if call.edited_arguments is not None else ""
    _print(call.id.rpartition("-")[2], f"{call.tool}{edited} {dumps(arguments)}", "cyan", full=full)
    result = call.full_result if full and call.full_result else dumps(call.outcome or {})
    took = f" in {call.ms} ms" if call.ms is not None else ""
    style = "" if call.status == "ok" else COLOURS[State.FAILED]
    _print(f"  {call.status}{took}", result if call.outcome else "", style, full=full)
    if call.late_outcome is not None:
        late = "  after it was given up it came to"
        _print(late, dumps(call.late_outcome), COLOURS[State.FAILED], full=full)


def _print(label: str, text: str, style: str, *, full: bool) -> None:
    shown = printable(text if full else text[:CUT])
    if not full and len(text) > CUT:
        shown += f"… ({len(text) - CUT} more characters: --full)"
    line = Text(f"{printable(label)}: ", style=style or "default")
    line.append(shown, style="default" if style in {"bold", "cyan", "yellow", "green"} else style)
    console().print(line, soft_wrap=True)
