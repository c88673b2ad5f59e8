"""`worker`: drives what is due, until it is told to stop."""

import logging
import os
import signal
import threading
from types import FrameType
from typing import Annotated

import typer

from stepwell.cli import SIGNALLED
from stepwell.cli.options import AppOption
from stepwell.cli.output import say
from stepwell.cli.schedule_text import fired_text
from stepwell.cli.session import engine
from stepwell.driving.run_log import log as ends
from stepwell.errors import ConfigurationError


def worker(
    concurrency: Annotated[int, typer.Option(min=1, help="How many runs at once.")] = 10,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Stop when nothing is due.")
    ] = False,
    no_schedules: Annotated[
        bool, typer.Option("--no-schedules", help="Leave schedules to other workers.")
    ] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Upgrade an older database, after a copy.")
    ] = False,
    app: AppOption = None,
) -> None:
    """Drive runs that are due, side by side with other workers on the same database.

    Prints one line of JSON on stderr for every run that ends.

    Only runs of workflows that the application defines are taken. Schedules that are due are
    fired, a line for each due time; those that the application declares are registered first.

    The first SIGTERM or Ctrl-C lets the effects under way end, for STEPWELL_GRACE seconds at most
    (30), and gives the runs back; a second one ends it at once. Nothing is lost either way.
    """
    stopping = threading.Event()
    received: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if received:
            os._exit(SIGNALLED + number)
        received.append(number)
        stopping.set()
        say("Stopping: what is under way may end; once more ends it at once.")

    ends.disabled = False
    ends.setLevel(logging.INFO)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    with engine(app, needs_workflows=True, creates=True, upgrade=upgrade) as opened:
        if not opened.workflows:
            raise ConfigurationError(
                "The application defines no workflow, so there is nothing to drive.",
                "Name the module that does with --app.",
            )
        say(f"Worker {os.getpid()} drives {', '.join(opened.workflows)}.")
        opened.work(
            until_idle=until_idle,
            concurrency=concurrency,
            stopping=stopping,
            schedules=not no_schedules,
            on_fired=lambda fired: say(fired_text(fired)),
        )
    if received:
        raise typer.Exit(SIGNALLED + received[0])
