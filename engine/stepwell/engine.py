"""The facade that users, the command line and the web call."""

import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Self, Unpack

from ulid import ULID

from stepwell import clock
from stepwell.approval import Decision, Verdict
from stepwell.decisions import Decider, ask, decide
from stepwell.driver import Driver
from stepwell.errors import KeyConflict, LeaseLost
from stepwell.firing import Firer, OnFired
from stepwell.gate import ModelGate
from stepwell.intervention import RunOptions, cancel, new_run, resume, start
from stepwell.lease import Leases
from stepwell.machine import State
from stepwell.messages import OnText
from stepwell.schedule import declared
from stepwell.schedules import Schedules
from stepwell.settings import Settings, load
from stepwell.snapshot import ApprovePolicy
from stepwell.store import TRIES, Store, find, inspect
from stepwell.store.connections import database_file
from stepwell.views import ApprovalView, HistoryEntry, Run, RunDetail
from stepwell.watch import OnTransition, Watch
from stepwell.worker import Worker
from stepwell.workflow import Workflow, registered

_NOT_GIVEN: Any = object()


class Engine:
    """Starts, drives, decides about and shows the runs of one database.

    Args:
        database: an SQLite URL or a file's path; by default the setting `database_url`.
        workflows: those that this process knows: a list, or a module that has them as attributes.
        settings: by default read from the environment, `.env` and pyproject.toml.

    Raises:
        ConfigurationError, StoreError: a setting or the database cannot be used.
    """

    def __init__(
        self,
        database: str | Path | None = None,
        *,
        workflows: Iterable[Workflow] | ModuleType = (),
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or load()
        self.workflows = registered(workflows)
        file = database_file(str(database or self.settings.database_url))
        self.store = Store(file, self.settings.synchronous)
        length = self.settings.lease
        every = min(self.settings.heartbeat, length / 3)  # a beat may be late, or fail once
        self._gate = ModelGate(self.settings.model_concurrency)
        self._leases = Leases(self.store, timedelta(seconds=length), timedelta(seconds=every))
        firer = Firer(self.store, self.workflows, declared(workflows), self._check_runnable)
        self.schedules = Schedules(self.store, firer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is being written and close the database."""
        self._leases.close()
        self.store.close()

    def submit(
        self,
        workflow: str,
        input: str,  # noqa: A002 - the name that users know
        *,
        approve: ApprovePolicy | str = ApprovePolicy.PARK,
        **options: Unpack[RunOptions],
    ) -> RunDetail:
        """Insert a run, for `work` or a worker to drive; or find the one that has the same key.

        Args:
            workflow: its name.
            input: what the user says.
            approve: what becomes of calls that need a person: "park", "deny" or "all".
            options: see `RunOptions`.

        Raises:
            UnknownWorkflow, InvalidInput, ConfigurationError: nothing was started.
            KeyConflict: the key belongs to a run with another input.
        """
        return self._detail(self._submit(workflow, input, approve, options))

    def run(
        self,
        workflow: str,
        input: str,  # noqa: A002 - the name that users know
        *,
        approve: ApprovePolicy | str | Decider = ApprovePolicy.PARK,
        on_transition: OnTransition | None = None,
        on_text: OnText | None = None,
        **options: Unpack[RunOptions],
    ) -> RunDetail:
        """`submit`, then drive until the run has ended or waits.

        Args:
            workflow: its name.
            input: what the user says.
            approve: also a function of the question that returns True, False, a `Decision`, or None
                to leave the run parked. A call in doubt takes a `Decision` only.
            on_transition: told of every transition.
            on_text: gets the text of replies as it arrives.
            options: see `RunOptions`.
        """
        decider = approve if callable(approve) else None
        policy = ApprovePolicy.PARK if callable(approve) else approve
        number = self._submit(workflow, input, policy, options)
        watch = Watch(self.store, number, on_transition, seq=0)
        return self._go_on(watch, decider, on_text)

    def resume(
        self,
        run: str,
        *,
        max_turns: int = 0,
        max_tool_calls: int = 0,
        model: str | None = None,
        by: str | None = None,
        approve: Decider | None = None,
        on_transition: OnTransition | None = None,
        on_text: OnText | None = None,
    ) -> RunDetail:
        """Go on with a run: at once if its process is gone, following it if another one drives it.

        Args:
            run: its id, an unambiguous beginning of it, or "last".
            max_turns: how much to raise that limit of a capped or failed run.
            max_tool_calls: likewise.
            model: to go on with, instead of the one that it used.
            by: who wants it.
            approve: a function, as for `run`.
            on_transition: told of every further transition.
            on_text: gets the text of replies as it arrives.

        Raises:
            UnknownRun, UnknownWorkflow, RunNotResumable, ConfigurationError: nothing was changed.
        """
        number = self._number(run)
        before = self.store.load(number).run
        if before.state not in {State.DONE, State.CANCELLED}:
            self._check_runnable(before.workflow, model or before.model)
        watch = Watch(self.store, number, on_transition, seq=before.seq)
        if model is not None:
            self._rescue(number)
        raised = max_turns, max_tool_calls
        self.store.revise(number, lambda s: resume(s, clock.now(), by, *raised, model))
        return self._go_on(watch, approve, on_text)

    def work(
        self,
        *,
        until_idle: bool = False,
        concurrency: int = 10,
        stopping: threading.Event | None = None,
        schedules: bool = True,
        on_fired: OnFired | None = None,
    ) -> None:
        """Drive whatever is due: for ever, or until nothing is.

        Args:
            until_idle: return when nothing is due and nothing is under way.
            concurrency: how many runs are driven at once.
            stopping: once it is set, no effect begins any more; `work` returns when those under
                way have ended, or were given back after the setting `grace`.
            schedules: whether to fire schedules too; those that the application declares are
                registered first.
            on_fired: told what became of each due time.
        """
        from stepwell.pool import Pool  # with APScheduler, which is slow to import

        worker = self._worker(None, None, stopping)
        limits = self.settings.workflow_concurrency
        grace, sweep = self.settings.grace, self.settings.sweep
        fire = self.schedules.firing(on_fired) if schedules else None
        Pool(worker, concurrency, limits, sweep, grace, fire).run(until_idle=until_idle)

    def cancel(self, run: str, *, by: str | None = None) -> RunDetail:
        """End a run: at once if nobody drives it, else its driver does at its next record.

        Raises:
            RunNotResumable: it has ended otherwise.
        """
        number = self._number(run)
        for _ in range(TRIES):
            self._rescue(number)
            if self.store.request_cancel(number, by or "somebody"):
                break
            with suppress(LeaseLost):  # somebody has just begun to drive it
                self.store.revise(number, lambda s: cancel(s, by, clock.now()), tries=1)
                break
        return self._detail(number)

    def approvals(self, run: str | None = None) -> list[ApprovalView]:
        """The questions that wait for a person, the oldest first: one run's, or all."""
        number = None if run is None else self._number(run)
        with self.store.reading() as connection:
            return inspect.approvals(connection, number, pending=True)

    def approve(
        self,
        id: str,  # noqa: A002 - the name that users know
        *,
        by: str | None = None,
        edit: dict[str, Any] | None = None,
        all_of_tool: bool = False,
        result: Any = _NOT_GIVEN,
    ) -> ApprovalView:
        """Let a call run. Decides only; `resume` or a worker goes on.

        Args:
            id: the question's id, or that of a run with exactly one open question.
            by: who decides.
            edit: arguments to run instead.
            all_of_tool: also every further call of this tool in this run.
            result: for a call in doubt: it happened, and this is what it returned.

        Raises:
            UnknownApproval, ApprovalClosed, InvalidDecision: nothing was changed.
        """
        happened = {} if result is _NOT_GIVEN else {"happened": True, "result": result}
        answer = Decision(verdict=Verdict.APPROVE, edit=edit, all_of_tool=all_of_tool, **happened)
        return self.decide(id, answer, by=by)

    def deny(
        self,
        id: str,  # noqa: A002 - the name that users know
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> ApprovalView:
        """Do not let a call run; for one in doubt: it did not happen. See `approve`."""
        return self.decide(id, Decision(verdict=Verdict.DENY, reason=reason), by=by)

    def decide(
        self,
        id: str,  # noqa: A002 - the name that users know
        answer: Decision,
        *,
        by: str | None = None,
    ) -> ApprovalView:
        """Give a person's whole answer to one question. See `approve`."""
        return decide(self.store, self.workflows, id, answer, by)

    def get(self, run: str) -> RunDetail:
        """One run with everything in it. `run` is an id, the beginning of one, or "last"."""
        return self._detail(self._number(run))

    def runs(
        self, *, state: State | str | None = None, workflow: str | None = None, limit: int = 50
    ) -> list[Run]:
        """Runs, the newest first."""
        with self.store.reading() as connection:
            return inspect.runs(
                connection,
                clock.now(),
                state=None if state is None else State(state),
                workflow=workflow,
                limit=limit,
            )

    def history(self, run: str) -> list[HistoryEntry]:
        """Every transition of one run, in order."""
        number = self._number(run)
        with self.store.reading() as connection:
            return inspect.history(connection, number)

    def _submit(
        self, workflow: str, text: str, approve: ApprovePolicy | str, options: RunOptions
    ) -> int:
        self._check_runnable(workflow, options.get("model"))
        new = new_run(str(ULID()), text, approve, options)
        try:
            return self.store.begin(start(self.workflows[workflow], new, clock.now())).number
        except KeyConflict as conflict:
            with self.store.reading() as connection:
                number = find.run_with_key(connection, workflow, str(new.key))
                if number is None or inspect.input_of(connection, number) != new.input:
                    raise KeyConflict(
                        f"{conflict.message} It was started with another input.",
                        "Use another key, or the same input to find that run again.",
                    ) from None
            return number

    def _go_on(self, watch: Watch, decider: Decider | None, on_text: OnText | None) -> RunDetail:
        """Drive, asking the caller's own function about each question, until it has no answer."""
        worker = self._worker(watch, on_text)
        while True:
            watch.catch_up()
            worker.advance(watch.number, watch.catch_up)
            if not ask(self.store, self.workflows, watch.number, decider):
                return self._detail(watch.number)

    def _check_runnable(self, workflow: str, model: str | None) -> None:
        self._worker(None, None).check(workflow, model)

    def _rescue(self, number: int) -> None:
        for held in self.store.owned(number):
            self._worker(None, None).rescue(held, jitter=None)

    def _worker(
        self,
        watch: Watch | None,
        on_text: OnText | None,
        stopping: threading.Event | None = None,
    ) -> Worker:
        settings = self.settings
        driver = Driver(
            store=self.store,
            leases=self._leases,
            policy=settings.retry_policy,
            gate=self._gate,
            stopping=stopping or threading.Event(),
            default_model=settings.model,
            on_transition=watch.recorded if watch else lambda _change: None,
            on_text=on_text,
        )
        return Worker(
            driver=driver,
            workflows=self.workflows,
            default_model=settings.model,
            root=settings.root,
        )

    def _number(self, run: str) -> int:
        with self.store.reading() as connection:
            return find.run_number(connection, run)

    def _detail(self, number: int) -> RunDetail:
        with self.store.reading() as connection:
            return inspect.detail(connection, number, clock.now())
