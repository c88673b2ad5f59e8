"""`worker`: drives due runs until it is told to stop."""

import logging
import os
import signal
import threading
from types import FrameType
from typing import Annotated

import typer
from pydantic import TypeAdapter

from stepwell.cli import SIGNALLED
from stepwell.cli.options import AppOption
from stepwell.cli.output import notice, say, write
from stepwell.cli.schedule_text import fired_text
from stepwell.cli.session import engine
from stepwell.driving.run_log import log as ends
from stepwell.engine import Engine
from stepwell.errors import ConfigurationError
from stepwell.operations.firing import Fired
from stepwell.plain_json import dumps


class _Lines(logging.Handler):
    """Writes log records, which are JSON, as results."""

    def emit(self, record: logging.LogRecord) -> None:
        write(record.getMessage())


def _write_fired(fired: Fired) -> None:
    write(dumps(TypeAdapter(Fired).dump_python(fired, mode="json")))


def _log_ends(*, json: bool) -> None:
    """Print a line for every run that ends: on stderr, or as a result."""
    ends.disabled = False
    ends.setLevel(logging.INFO)
    if json:
        ends.propagate = False
        ends.addHandler(_Lines())


def _announce(opened: Engine) -> None:
    if not opened.workflows:
        raise ConfigurationError(
            "The application defines no workflow, so there is nothing to drive.",
            "Name the module that defines workflows with --app.",
        )
    notice(f"Worker {os.getpid()} drives {', '.join(opened.workflows)}.")


def worker(
    concurrency: Annotated[int, typer.Option(min=1, help="How many runs at once.")] = 10,
    until_idle: Annotated[
        bool,
        typer.Option(
            "--until-idle", help="Stop when no run is due, in progress or waiting for a retry."
        ),
    ] = False,
    no_schedules: Annotated[
        bool, typer.Option("--no-schedules", help="Do not fire schedules.")
    ] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Upgrade an older database, after a copy.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON lines on stdout, for ended runs and schedules."),
    ] = False,
    app: AppOption = None,
) -> None:
    """Drive runs that are due, side by side with other workers on the same database.

    Prints one line of JSON on stderr for every run that ends.

    A worker takes only runs of workflows that the application defines. It registers the schedules
    that the application declares, and prints a line for every due time of a schedule.

    After the first SIGTERM or Ctrl-C the worker finishes work in progress, for at most
    STEPWELL_GRACE seconds (30), and releases its runs. A second signal stops it immediately.
    Nothing is lost either way.
    """
    stopping = threading.Event()
    received: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if received:
            os._exit(SIGNALLED + number)
        received.append(number)
        stopping.set()
        notice("Stopping: waiting for work in progress. Press Ctrl-C again to stop immediately.")

    _log_ends(json=json)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    with engine(app, needs_workflows=True, creates=True, upgrade=upgrade) as opened:
        _announce(opened)
        opened.work(
            until_idle=until_idle,
            concurrency=concurrency,
            stopping=stopping,
            schedules=not no_schedules,
            on_fired=_write_fired if json else lambda fired: say(fired_text(fired)),
        )
    if received:
        raise typer.Exit(SIGNALLED + received[0])
