"""A process that fires what is due, once a line is read: `ticking.py FILE [WHEN COUNT]`.

It prints the runs that it started. With WHEN it dies at its COUNT-th firing: `before` the
transaction, `inside` it, or `after` its commit.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepwell import Agent, Engine, Reply, ScriptedModel, clock
from stepwell.operations.firing import Fired
from stepwell.settings import Settings
from stepwell.store import Store, schedules

WORKFLOW = Agent("w", model=ScriptedModel([Reply("Done.")]))


def die(store: Store, when: str, count: int) -> None:
    """Let the write that fires for the `count`-th time be this process's last."""
    write, left = store.write, [count]

    def dying(operation: Callable[[Any], Any]) -> Any:
        left[0] -= 1
        if left[0] == 0 and when == "before":
            os._exit(9)
        if left[0] == 0 and when == "inside":
            return write(lambda cursor: (operation(cursor), os._exit(9)))
        result = write(operation)
        if left[0] == 0:
            os._exit(9)
        return result

    store.write = dying  # type: ignore[method-assign]


def main(file: Path, when: str = "", count: str = "0") -> None:
    with Engine(file, workflows=[WORKFLOW], settings=Settings(synchronous="off")) as engine:
        if when:
            die(engine.store, when, int(count))

        def tell(fired: Fired) -> None:
            print(fired.run, flush=True)

        fire = engine.schedules.firing(tell)
        print("ready", flush=True)
        sys.stdin.readline()
        while is_due(engine.store):
            fire()


def is_due(store: Store) -> bool:
    with store.reading() as connection:
        return bool(schedules.due(connection, clock.now()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
