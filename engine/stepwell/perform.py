"""Carries out one command. The only place where a run has effects."""

from collections.abc import Callable
from datetime import timedelta

from stepwell import clock
from stepwell.decide import AskModel, CallEnded, Faulted, Outcome, Replied, RunCalls
from stepwell.dispatch import Dispatcher
from stepwell.errors import ConfigurationError, ProviderError
from stepwell.messages import OnText, Provider
from stepwell.snapshot import Call, Snapshot
from stepwell.tools import Notes, ToolContext
from stepwell.workflow import Workflow

Connect = Callable[[], Provider]


class Performer:
    """The effects of one driven run.

    Args:
        workflow: whose tools are called.
        connect: gives who answers model calls, when the first one is made.
        on_text: gets the text of replies as it arrives; None where nobody listens.
    """

    def __init__(self, workflow: Workflow, connect: Connect, on_text: OnText | None) -> None:
        self._workflow = workflow
        self._connect = connect
        self._provider: Provider | None = None
        self._on_text = on_text
        self._dispatcher = Dispatcher()

    def perform(self, command: AskModel | RunCalls, snapshot: Snapshot) -> Outcome:
        """Do it, and say what came of it. Faults are outcomes; nothing is raised but interrupts."""
        if isinstance(command, AskModel):
            return self._ask(command)
        for call in command.calls:
            if call.number not in self._dispatcher.running:
                self._start(call, snapshot)
        number, done = self._dispatcher.next()
        return CallEnded(number, done.status, done.outcome, done.notes, done.ms)

    def abandon(self) -> None:
        """Stop waiting for the calls under way; what they still return is ignored."""
        self._dispatcher.abandon()

    def _ask(self, command: AskModel) -> Outcome:
        model = None
        try:
            provider = self._provider = self._provider or self._connect()
            model = provider.model
            reply = provider.complete(command.request, self._on_text)
        except ProviderError as error:
            return Faulted(error, model)
        except ConfigurationError as error:
            return Faulted(ProviderError(str(error), kind=error.type), model)
        except Exception as error:  # noqa: BLE001 - a model's code never stops the loop
            text = f"{type(error).__name__}: {error}"
            return Faulted(ProviderError(text, kind="provider_bug"), model)
        return Replied(reply, provider.model, provider.name)

    def _start(self, call: Call, snapshot: Snapshot) -> None:
        tool = self._workflow.toolbox[call.tool]
        id_ = f"{snapshot.run.id}-{call.number}"
        context = ToolContext(
            run_id=snapshot.run.id,
            call_id=id_,
            idempotency_key=id_,
            deadline=clock.now() + timedelta(seconds=tool.timeout),
            notes=Notes(snapshot.notes),
        )
        self._dispatcher.start(call.number, tool, call.effective, context)
