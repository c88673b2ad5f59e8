"""Calls functions at intervals, on threads of its own, until it is stopped."""

import logging
from collections.abc import Callable
from datetime import UTC

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from stepwell import clock

# APScheduler logs under these names, which are ours alone: a host's configuration of "apscheduler"
# is not touched. A missed beat is not worth a warning, an exception in a job is.
_EXECUTOR = "stepwell"
_LOGGERS = ("stepwell.ticker", f"apscheduler.executors.{_EXECUTOR}")
_THREADS = 10


class Ticker:
    """Interval jobs. A beat that comes late still counts; several late ones count as one."""

    def __init__(self) -> None:
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.ERROR)
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            daemon=True,
            logger=logging.getLogger(_LOGGERS[0]),
            executors={_EXECUTOR: ThreadPoolExecutor(_THREADS)},
        )

    def every(self, seconds: float, job: Callable[[], object]) -> None:
        """Call `job` at this interval."""
        self._scheduler.add_job(
            job,
            "interval",
            seconds=seconds,
            coalesce=True,
            misfire_grace_time=None,
            executor=_EXECUTOR,
        )

    def start(self) -> None:
        """Begin to tick."""
        self._scheduler.start()

    def tick_now(self) -> None:
        """Let every job run now, and then at its interval again."""
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=clock.now())

    def stop(self) -> None:
        """Start no further job, and do not wait for those that run."""
        self._scheduler.shutdown(wait=False)
