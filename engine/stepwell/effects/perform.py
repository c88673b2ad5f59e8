"""Carries out one command. The only place where a run has effects."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from stepwell import clock
from stepwell.effects.caller import LOOK
from stepwell.effects.dispatch import Dispatched, Dispatcher, OnLate
from stepwell.errors import ConfigurationError, ProviderError
from stepwell.messages import OnText, Provider, Terms
from stepwell.rules.decide import (
    AskModel,
    CallEnded,
    Faulted,
    Outcome,
    Reconcile,
    Reconciled,
    Replied,
    RunCalls,
)
from stepwell.state import tokens
from stepwell.state.circumstances import CallTerms
from stepwell.state.ids import call_id
from stepwell.state.records import Call
from stepwell.state.snapshot import Snapshot
from stepwell.tools import (
    DidNotHappen,
    Finding,
    Happened,
    Notes,
    NotKnown,
    Tool,
    ToolContext,
)
from stepwell.tools.arguments import Parameters
from stepwell.workflow import Workflow, model_name

Connect = Callable[[str | None], Provider]


class Performer:
    """The effects of one driven run.

    Args:
        workflow: whose tools are called.
        connect: gives who answers model calls, when the first one is made; takes the run's model.
        on_text: gets the text of replies as it arrives; None if there is no listener.
        on_late: gets the outcome of a call that is no longer waited for.
    """

    def __init__(
        self, workflow: Workflow, connect: Connect, on_text: OnText | None, on_late: OnLate
    ) -> None:
        self._workflow = workflow
        self._connect = connect
        self._providers: dict[str | None, Provider] = {}
        self._on_text = on_text
        self._dispatcher = Dispatcher(on_late)
        self._finding_out: set[int] = set()

    def perform(self, command: AskModel | RunCalls | Reconcile, snapshot: Snapshot) -> Outcome:
        """Carry it out and return the outcome. Faults are outcomes; only interrupts are raised."""
        if isinstance(command, AskModel):
            return self._ask(command, command.model or snapshot.run.model)
        if isinstance(command, RunCalls) and self._may_call_here(command.calls):
            (call,) = command.calls
            tool = self._workflow.toolbox[call.tool]
            context = self._context(call, snapshot, tool)
            return _ended(
                call.number,
                self._dispatcher.call_here(call.number, tool, call.effective, context),
            )
        for call in command.calls:
            if call.number not in self._dispatcher.running:
                tool = self._workflow.toolbox[call.tool]
                if isinstance(command, Reconcile):
                    self._finding_out.add(call.number)
                    self._start(call, snapshot, _reconciling(tool), {})
                else:
                    self._start(call, snapshot, tool, call.effective)
        number, done = self._dispatcher.next()
        if number in self._finding_out:  # even if it comes while other calls run
            self._finding_out.remove(number)
            return Reconciled(number, _finding(done))
        return _ended(number, done)

    def _may_call_here(self, calls: Sequence[Call]) -> bool:
        """Whether these are one call, whose time is long enough for the caller's looks."""
        if len(calls) != 1 or self._dispatcher.running:
            return False
        tool = self._workflow.toolbox[calls[0].tool]
        return not tool.is_async and tool.timeout >= LOOK

    def left(self) -> float:
        """Seconds until the call that this thread is in the middle of takes too long."""
        return self._dispatcher.left()

    def lost(self) -> CallEnded | None:
        """That call given up, if it takes too long; for another thread, see `caller.Patience`."""
        found = self._dispatcher.lost()
        return found and _ended(*found)

    def abandon(self) -> None:
        """Stop waiting for the calls in progress; their results are ignored."""
        self._dispatcher.abandon()

    def terms(self, model: str | None) -> CallTerms:
        """The terms of a call of a run's model; unknown if the model cannot be connected."""
        workflow = self._workflow
        name, terms = self._known_terms(model)
        other = model_name(workflow.summarising.model) if workflow.summarising else None
        return CallTerms(
            model=model,
            terms=terms,
            name=name,
            summariser=self._known_terms(other)[1] if other is not None else None,
            overhead=tokens.overhead(workflow.instructions, workflow.definitions),
            max_output=workflow.max_output_tokens,
            is_metered=workflow.limits.cost_per_day is not None,
        )

    def _known_terms(self, model: str | None) -> tuple[str | None, Terms]:
        try:
            provider = self._provider(model)
        except Exception:  # noqa: BLE001 - the call itself will report the fault, and costs nothing
            return model, Terms(cost=lambda _read, _written: Decimal(0))
        return provider.model, getattr(provider, "terms", Terms())

    def _provider(self, wanted: str | None) -> Provider:
        if wanted not in self._providers:
            self._providers[wanted] = self._connect(wanted)
        return self._providers[wanted]

    def _ask(self, command: AskModel, wanted: str | None) -> Outcome:
        model = wanted
        try:
            provider = self._provider(wanted)
            model = provider.model
            on_text = None if command.is_aside else self._on_text
            reply = provider.complete(command.request, on_text)
        except ProviderError as error:
            return Faulted(error, model)
        except ConfigurationError as error:
            return Faulted(ProviderError(str(error), kind=error.type), model)
        except Exception as error:  # noqa: BLE001 - a model's code never stops the loop
            text = f"{type(error).__name__}: {error}"
            return Faulted(ProviderError(text, kind="provider_bug"), model)
        return Replied(reply, provider.model, provider.name)

    def _start(self, call: Call, snapshot: Snapshot, tool: Tool, arguments: Any) -> None:
        context = self._context(call, snapshot, tool)
        self._dispatcher.start(call.number, tool, arguments, context)

    @staticmethod
    def _context(call: Call, snapshot: Snapshot, tool: Tool) -> ToolContext:
        id_ = call_id(snapshot.run.id, call.number)
        return ToolContext(
            run_id=snapshot.run.id,
            call_id=id_,
            idempotency_key=id_,
            deadline=clock.now() + timedelta(seconds=tool.timeout),
            notes=Notes(snapshot.notes),
        )


def _ended(number: int, done: Dispatched) -> CallEnded:
    return CallEnded(number, done.status, done.outcome, done.notes, done.ms)


def _reconciling(tool: Tool) -> Tool:
    """The tool's own `reconcile`, as something that can be dispatched: it changes nothing."""
    find_out = tool.reconcile or (lambda _context: NotKnown())
    return replace(
        tool,
        function=lambda context: find_out(context),  # noqa: PLW0108 - its own name for it
        is_async=inspect.iscoroutinefunction(find_out),
        parameters=Parameters({}, {}, {}),
        read_only=True,
        needs_instance=False,
        context_names=("context",),
    )


def _finding(done: Dispatched) -> Finding:
    """What `reconcile` found; whatever is not clear is not known."""
    said = done.outcome.get("result")
    match said:
        case {"finding": "happened", "result": result}:
            return Happened(result)
        case {"finding": "did_not_happen"}:
            return DidNotHappen()
        case {"finding": "not_known", "reason": str(reason)}:
            return NotKnown(reason)
    problem = done.outcome.get("error", {}).get("message", f"reconcile returned {said!r}")
    return NotKnown(str(problem))
