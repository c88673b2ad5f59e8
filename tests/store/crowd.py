"""What the processes of a crowd do: `crowd.py WHAT FILE ...`, all at once after a line is read.

create           open the store
reopen SECONDS   open and close the store, again and again
submit SECONDS   start runs, one after the other, and print how many
claim            claim what is due until there is nothing left, and print the runs' numbers
approve ID       answer a question and print what became of it
"""

import sys
import time
from pathlib import Path

from ulid import ULID

from stepwell import Agent, Engine, StepwellError, clock
from stepwell.rules.starting import Start, start
from stepwell.store import Store
from tests.store.conftest import LEASE

WORKFLOW = Agent("w")


def ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def create(file: Path) -> None:
    ready()
    Store(file).close()


def reopen(file: Path, seconds: str) -> None:
    ready()
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        Store(file).close()
    print("well")


def submit(file: Path, seconds: str) -> None:
    store = Store(file)
    ready()
    until = time.monotonic() + float(seconds)
    number = 0
    while time.monotonic() < until:
        store.begin(start(WORKFLOW, Start(id=str(ULID()), input="Hello"), clock.now()))
        number += 1
    print(number)


def claim(file: Path) -> None:
    store = Store(file)
    ready()
    while True:
        now = clock.now()
        claimed = store.claim(["w"], now, now + LEASE)
        if claimed is None:
            return
        print(claimed.run.number)


def approve(file: Path, question: str) -> None:
    with Engine(file) as engine:
        ready()
        try:
            print(engine.approve(question, by="one of us").status)
        except StepwellError as error:
            print(error.type)


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
