"""The facade that users, the command line and the web call."""

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Self, Unpack

from ulid import ULID

from stepwell import clock
from stepwell.driving.driver import Driver
from stepwell.driving.lease import Leases
from stepwell.driving.model_gate import ModelGate
from stepwell.driving.models import Models
from stepwell.driving.run_log import RunLog
from stepwell.driving.watch import OnTransition, Watch
from stepwell.driving.worker import Worker, check_not_within
from stepwell.errors import StepwellError
from stepwell.machine import LIVE, State
from stepwell.messages import OnText
from stepwell.operations import steering
from stepwell.operations.decisions import Decider, Deciding, ask
from stepwell.operations.firing import Firer, OnFired
from stepwell.operations.schedules import Schedules
from stepwell.operations.submission import submit
from stepwell.operations.words import checked
from stepwell.recurring.schedule import Schedule, declared
from stepwell.rules.allowances import LimitOptions
from stepwell.rules.change import Change
from stepwell.rules.fork import Fate, ForkOptions, fork
from stepwell.rules.mask import LogMask, masking
from stepwell.rules.starting import RunOptions, new_run
from stepwell.settings import Settings, load
from stepwell.state.circumstances import Circumstances
from stepwell.state.records import ApprovePolicy
from stepwell.state.snapshot import Snapshot
from stepwell.store import Store
from stepwell.store.connections import database_file
from stepwell.views.context import ContextView, context
from stepwell.views.runs import InboxView, RunDetail
from stepwell.workflow import Workflow, known, registered


class Engine(Deciding):
    """Starts, drives, decides about and shows the runs of one database.

    Args:
        database: an SQLite URL or a file's path; by default the setting `database_url`.
        workflows: those that this process knows: a list, or a module that has them as attributes.
        schedules: those that this process declares, beside the module's.
        settings: by default read from the environment, `.env` and pyproject.toml.
        upgrade: whether a database of an older version is brought to this one, after a copy.

    Raises:
        ConfigurationError, StoreError: a setting or the database cannot be used.
    """

    def __init__(
        self,
        database: str | Path | None = None,
        *,
        workflows: Iterable[Workflow] | ModuleType = (),
        schedules: Iterable[Schedule] = (),
        settings: Settings | None = None,
        upgrade: bool = False,
    ) -> None:
        self.settings = settings or load()
        self.workflows = registered(workflows)
        file = database_file(database or self.settings.database_url)
        self.models = Models.of(self.workflows, self.settings)
        mask = masking(self.settings.mask, self.models.secrets)
        self._log_mask = LogMask(mask)
        logging.getLogger("stepwell").addFilter(self._log_mask)
        self.store = Store(file, self.settings.synchronous, mask, upgrade=upgrade)
        length, beat = self.settings.lease, self.settings.heartbeat
        every = min(beat, length / 3)  # a beat may be late, or fail once
        self._log = RunLog(self.store, self.settings.warn_cost, self.settings.warn_turns)
        self._gate = ModelGate(self.settings.model_concurrency, self.settings.retry_policy)
        self._leases = Leases(self.store, timedelta(seconds=length), timedelta(seconds=every))
        known, check = declared(workflows, schedules), self.models.check_runnable
        self.schedules = Schedules(self.store, Firer(self.store, self.workflows, known, check))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is being written and close the database."""
        self._leases.close()
        self.store.close()
        logging.getLogger("stepwell").removeFilter(self._log_mask)

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
        return self._detail(self._submit(workflow, input, approve, options, str(ULID()))[0])

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
        decider, policy = (approve, ApprovePolicy.PARK) if callable(approve) else (None, approve)
        id_, until = str(ULID()), self._leases.until()
        try:
            number, begun = self._submit(workflow, input, policy, options, id_, until)
            return self._go_on(Watch(self.store, number, on_transition, 0), decider, on_text, begun)
        except BaseException:  # ours from its insert on, even if nobody drives it yet
            with suppress(StepwellError):
                self.store.release(self._number(id_), 1)
            raise

    def resume(
        self,
        run: str,
        *,
        model: str | None = None,
        by: str | None = None,
        detach: bool = False,
        approve: Decider | None = None,
        on_transition: OnTransition | None = None,
        on_text: OnText | None = None,
        **raises: Unpack[LimitOptions],
    ) -> RunDetail:
        """Go on with a run: at once if its process is gone, following it if another one drives it.

        Args:
            run: its id, an unambiguous beginning of it, or "last".
            model: to go on with, instead of the one that it used.
            by: who wants it.
            detach: only record it, for `work` or a worker to drive.
            approve: a function, as for `run`.
            on_transition: told of every further transition.
            on_text: gets the text of replies as it arrives.
            raises: by how much to raise limits of a capped or failed run: `max_turns=5`, ...

        Raises:
            UnknownRun, UnknownWorkflow, ConfigurationError: nothing was changed.
            RunNotResumable: likewise; also if the run's own tool or listener calls this.
        """
        number, by = self._number(run), checked("by", by)
        check_not_within(self.store, number)
        before, was_sent = self.store.glance(number)
        if before.state not in {State.DONE, State.CANCELLED} or was_sent:
            self.models.check_runnable(before.workflow, model or before.model)
        watch = Watch(self.store, number, on_transition, seq=before.seq)
        if model is not None:
            self._worker().free(number)
        if model is not None or any(raises.values()) or before.state not in LIVE:
            steering.record_resume(self.store, number, by, raises, model)
        if detach:
            return self._detail(number)
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
            until_idle: return when no run is due, in progress anywhere, or waiting for a retry.
            concurrency: how many runs are driven at once.
            stopping: once it is set, no effect begins any more; `work` returns when those under
                way have ended, or were given back after the setting `grace`.
            schedules: whether to fire schedules too; those that the application declares are
                registered first.
            on_fired: told what became of each due time.
        """
        from stepwell.driving.pool import Pool  # with APScheduler, which is slow to import

        worker = self._worker(stopping=stopping)
        limits = self.settings.workflow_concurrency
        grace, sweep = self.settings.grace, self.settings.sweep
        fire = self.schedules.firing(on_fired) if schedules else None
        Pool(worker, concurrency, limits, sweep, grace, fire).run(until_idle=until_idle)

    def fork(
        self,
        run: str,
        at: int,
        *,
        detach: bool = False,
        approve: Decider | None = None,
        on_transition: OnTransition | None = None,
        on_text: OnText | None = None,
        **options: Unpack[ForkOptions],
    ) -> RunDetail:
        """Begin a new run from where another was, then drive it as `run` does.

        Args:
            run: the original's id, an unambiguous beginning of it, or "last".
            at: after which of its transitions.
            detach: only insert it, for `work` or a worker to drive.
            approve: a function, as for `run`.
            on_transition: told of every further transition.
            on_text: gets the text of replies as it arrives.
            options: see `ForkOptions`.

        Raises:
            UnknownRun, UnknownTransition, UnknownWorkflow: nothing was started.
            InvalidInput, ConfigurationError: likewise.
        """
        number, id_ = self._number(run), str(ULID())
        checked("by", options.get("by"))

        def begin(past: Snapshot, fate: Fate) -> Change:
            self.models.check_runnable(past.run.workflow, options.get("model") or past.run.model)
            workflow = self.workflows[past.run.workflow]
            return fork(workflow, past, fate, id_, options, clock.now())

        begun = self.store.fork(number, at, begin)
        if detach:
            return self._detail(begun.number)
        return self._go_on(Watch(self.store, begun.number, on_transition, at), approve, on_text)

    def cancel(self, run: str, *, by: str | None = None) -> RunDetail:
        """End a run: at once if nobody drives it, else its driver does at its next record.

        Raises:
            RunNotResumable: it has ended otherwise.
        """
        number = self._number(run)
        steering.cancel(self._worker(), number, checked("by", by))
        return self._detail(number)

    def send(self, run: str, text: str, *, by: str | None = None) -> InboxView:
        """Tell a run something. Only sends: whoever drives it delivers it at a safe moment.

        One that is done goes on with it, by `resume` or a worker, as the same conversation.

        Args:
            run: its id, an unambiguous beginning of it, or "last".
            text: what its model is to read.
            by: who says it.

        Raises:
            UnknownRun, NotSent: nothing was sent.
        """
        number = self._number(run)
        return steering.send(self.store, self.workflows, number, text, checked("by", by))

    def context(self, run: str, *, at: int | None = None) -> ContextView:
        """What a run's model is shown, or was after transition `at`.

        Raises:
            UnknownRun, UnknownTransition, UnknownWorkflow: there is nothing to show.
        """
        number = self._number(run)
        snapshot = self.store.load(number, at)
        workflow = known(self.workflows, snapshot.run.workflow)
        terms = self.models.terms(workflow, snapshot.run.model)
        return context(workflow, snapshot, Circumstances(now=clock.now(), terms=terms))

    def _submit(
        self,
        workflow: str,
        text: str,
        approve: ApprovePolicy | str,
        options: RunOptions,
        id_: str,
        until: datetime | None = None,
    ) -> tuple[int, Snapshot | None]:
        """The run's number and, if it is new and ours to drive `until` then, the run itself."""
        self.models.check_runnable(workflow, options.get("model"))
        new = new_run(id_, text, approve, options)
        return submit(self.store, self.workflows[workflow], new, until)

    def _go_on(
        self,
        watch: Watch,
        decider: Decider | None,
        on_text: OnText | None,
        begun: Snapshot | None = None,
    ) -> RunDetail:
        """Drive, asking the caller's own function about each question, until it has no answer."""
        worker = self._worker(watch, on_text)
        while True:
            watch.catch_up()
            worker.advance(watch.number, watch.catch_up, begun)
            begun = None
            if not ask(self.store, self.workflows, watch.number, decider):
                return self._detail(watch.number)

    def _worker(
        self,
        watch: Watch | None = None,
        on_text: OnText | None = None,
        stopping: threading.Event | None = None,
    ) -> Worker:
        driver = Driver(
            store=self.store,
            leases=self._leases,
            policy=self.settings.retry_policy,
            gate=self._gate,
            stopping=stopping or threading.Event(),
            default_model=self.settings.model,
            log=self._log.recorded,
            on_transition=watch.recorded if watch and watch.tell else None,
            on_text=on_text,
        )
        return Worker(
            driver=driver,
            workflows=self.workflows,
            models=self.models,
        )
