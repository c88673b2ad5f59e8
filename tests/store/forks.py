"""`forks.py WHAT FILE`: a process that forks while its store is open. Prints how many runs it made.

share    three children write 200 runs each while the parent goes on writing
outlive  the parent ends before the child has written; somebody else opens and closes the file
busy     the process forks again and again while its threads are reading and writing
"""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

from stepwell import Agent, Engine, Reply, ScriptedModel

FORKS = 15
WORKFLOW = Agent("w", model=ScriptedModel([Reply("Done.")]))


def child(engine: Engine, runs: int) -> int:
    """The process id of a child that makes runs, and drives the last one to its end."""
    pid = os.fork()
    if pid:
        return pid
    for _ in range(runs - 1):
        engine.submit("w", "from a child")
    assert engine.run("w", "from a child").state == "done"
    engine.close()
    os._exit(0)


def ended_well(*pids: int) -> None:
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0


def share(engine: Engine) -> int:
    engine.run("w", "first")
    children = [child(engine, 200) for _ in range(3)]
    for _ in range(200):
        engine.submit("w", "from the parent")
    ended_well(*children)
    return 801


def outlive(engine: Engine) -> int:
    engine.submit("w", "first")
    closed, wait_until_closed = os.pipe()[::-1]
    pid = os.fork()
    if not pid:
        engine.submit("w", "while the parent lives")
        os.read(wait_until_closed, 1)
        engine.submit("w", "afterwards")
        engine.close()
        os._exit(0)
    with closing(sqlite3.connect(engine.store.file, timeout=10)) as reader:
        while reader.execute("SELECT count(*) FROM run").fetchone() != (2,):
            pass
    engine.close()
    with closing(sqlite3.connect(engine.store.file)) as other, other:
        other.execute("UPDATE run SET user = 'other'")  # closing the last one would drop the log
    os.write(closed, b".")
    ended_well(pid)
    return 3


def busy(engine: Engine) -> int:
    stop, made = Event(), []

    def write() -> None:
        while not stop.is_set():
            made.append(engine.submit("w", "from a thread"))

    def read() -> None:
        while not stop.is_set():
            engine.runs(limit=5)

    threads = [Thread(target=each, daemon=True) for each in (write, write, read, read)]
    for thread in threads:
        thread.start()
    for _ in range(FORKS):
        ended_well(child(engine, 1))
    stop.set()
    for thread in threads:
        thread.join()
    return len(made) + FORKS


if __name__ == "__main__":
    with Engine(Path(sys.argv[2]), workflows=[WORKFLOW]) as opened:
        print(globals()[sys.argv[1]](opened))
