"""The main job with the real command line: killed, resumed, approved, finished, read with SQL.

Run it with `make demo`. It needs no key and no network, and leaves nothing behind.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPWELL = Path(sys.executable).with_name("stepwell")
SAID = "Ada Lovelace wants her money back for the broken lamp"
REFUNDS = "SELECT order_id, amount_cents FROM refunds WHERE run_id <> 'seed'"
DONE, AWAITING_APPROVAL = 0, 3


class NotAsTold(Exception):
    """Something else happened than the demo says."""


class Demo:
    """One showing, with databases of its own in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.runs, self.orders, self.outbox = (
            folder / "runs.db",
            folder / "orders.db",
            folder / "outbox",
        )
        ours = {
            "STEPWELL_DATABASE_URL": f"sqlite:///{self.runs}",
            "STEPWELL_ORDERS_DB": str(self.orders),
            "STEPWELL_OUTBOX": str(self.outbox),
            "STEPWELL_APP": "workflows",
        }
        others = {k: v for k, v in os.environ.items() if not k.startswith("STEPWELL_")}
        self.environment = others | ours
        with closing(sqlite3.connect(self.orders)) as database:
            database.executescript((ROOT / "data" / "orders.sql").read_text("utf-8"))

    def play(self) -> None:
        """Show it all."""
        tell(
            """A run starts. Its first tool looks an order up, in a database that another program
            has locked, so the tool has to wait. Right there the run's process is killed."""
        )
        self.start_and_kill()

        tell("Every step was committed before the next one began: the run is where it was.")
        self.stepwell("runs")
        [(state, owner)] = ask(self.runs, "SELECT state, owner FROM run_overview")
        expect("the killed run is in the middle", (state, bool(owner)), ("dispatching", True))

        tell(
            """A look-up changes nothing, so it is simply made again. Then the model wants to pay
            49.00 USD back, more than the shop allows it to. The run waits for a person, and no
            process waits with it."""
        )
        self.stepwell("resume", "last", code=AWAITING_APPROVAL)
        expect("nothing is paid yet", ask(self.orders, REFUNDS), [])

        tell("The question can be read and answered from anywhere, now or tomorrow.")
        self.stepwell("approvals")
        self.stepwell("approve", "last", "--by", "ann")
        self.stepwell("resume", "last", code=DONE)

        tell("The refund in the shop's own database: there once.")
        say(f"sql> {REFUNDS}")
        paid = ask(self.orders, REFUNDS)
        for row in paid:
            print(*row, sep="|", flush=True)
        expect("the refunds", paid, [("1042", 4900)])
        expect("the emails", len(list(self.outbox.glob("*.eml"))), 1)

        tell("And what happened, transition by transition: who did it, when, and why.")
        self.stepwell("history", "last")
        people = "SELECT trigger, by FROM run_timeline WHERE trigger IN ('decided', 'answer')"
        [(_, ann), (last, _)] = ask(self.runs, people)
        expect("who decided, and how it ended", (ann, last), ("ann", "answer"))
        [(takeovers,)] = ask(self.runs, "SELECT count(*) FROM run_timeline WHERE trigger = 'retry'")
        expect("the takeovers from a dead process", takeovers, 1)
        tell("As told: killed once, approved once, paid once.")

    def start_and_kill(self) -> None:
        """Start a run and kill its process while a tool is running."""
        command = self.echo("run", "support", SAID)
        with locked(self.orders), self.running(command) as child:
            for line in child.stderr or ():
                print(line, end="", flush=True)
                if "request_tools" in line:
                    say(f"$ kill -9 {child.pid}")
                    child.kill()
                    break
            expect("how the process ended", child.wait(), -signal.SIGKILL)

    def stepwell(self, *arguments: str, code: int = 0) -> None:
        """Run one command in sight, and see to it that it ends as it should."""
        command = self.echo(*arguments)
        # Without a terminal to read from, nothing is asked interactively.
        done = subprocess.run(  # noqa: S603 - the command is ours
            command,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if code:
            tell(f"(exit code {done.returncode})", gap="")
        expect(f"the exit code of stepwell {arguments[0]}", done.returncode, code)

    def echo(self, *arguments: str) -> list[str]:
        say("$ stepwell " + " ".join(f'"{a}"' if " " in a else a for a in arguments))
        return [str(STEPWELL), *arguments]

    @contextmanager
    def running(self, command: list[str]) -> Iterator[subprocess.Popen[str]]:
        environment = self.environment
        if in_colour():
            environment = environment | {"FORCE_COLOR": "1"}
        with subprocess.Popen(  # noqa: S603 - the command is ours
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        ) as child:
            try:
                yield child
            finally:
                child.kill()


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold a database as a program would that is writing to it."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        yield


def ask(file: Path, query: str) -> list[tuple[object, ...]]:
    """The rows of a query that can change nothing."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
        return database.execute(query).fetchall()


def expect(what: str, found: object, wanted: object) -> None:
    """Stop the demo if something else happened than it says."""
    if found != wanted:
        raise NotAsTold(f"{what}: {wanted!r} was expected, but it is {found!r}")


def in_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def say(line: str) -> None:
    """A command, as it is typed."""
    print(f"\033[1m{line}\033[0m" if in_colour() else line, flush=True)


def tell(text: str, gap: str = "\n") -> None:
    """What the viewer is told."""
    lines = textwrap.wrap(" ".join(text.split()), 88, initial_indent="# ", subsequent_indent="# ")
    dim, plain = ("\033[2m", "\033[0m") if in_colour() else ("", "")
    print(f"{gap}{dim}" + "\n".join(lines) + plain, flush=True)


def main() -> int:
    """The exit code: 0 only if everything happened as told."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if not STEPWELL.exists():
        print(f"{STEPWELL} does not exist: start the demo with `make demo`.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="stepwell-demo-") as folder:
        try:
            Demo(Path(folder)).play()
        except NotAsTold as difference:
            print(f"\nThe demo went wrong: {difference}.", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
