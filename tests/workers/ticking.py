"""Processes that fire what is due, all from the moment a byte comes for each: `ticking.py FILE DEATHS`.

They print the runs that they started. DEATHS is a JSON list with an item for each process: null, or
where it dies: [when, count] is `before` its count-th firing, `inside` its transaction, or `after`
its commit. The exit code is 1 if a process ended in any other way.
"""

import json
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


def main(file: Path, deaths: list[tuple[str, int] | None]) -> None:
    children = [fork(file, death) for death in deaths]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    expected = [{0} if death is None else {0, 9} for death in deaths]
    sys.exit(any(code not in fine for code, fine in zip(codes, expected, strict=True)))


def fork(file: Path, death: tuple[str, int] | None) -> int:
    child = os.fork()
    if child == 0:
        tick(file, death)
        os._exit(0)
    return child


def tick(file: Path, death: tuple[str, int] | None) -> None:
    with Engine(file, workflows=[WORKFLOW], settings=Settings(synchronous="off")) as engine:
        if death is not None:
            die(engine.store, *death)

        def tell(fired: Fired) -> None:
            os.write(1, f"{fired.run}\n".encode())

        fire = engine.schedules.firing(tell)
        os.write(1, b"ready\n")
        os.read(0, 1)
        while is_due(engine.store):
            fire()


def is_due(store: Store) -> bool:
    with store.reading() as connection:
        return bool(schedules.due(connection, clock.now()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
