"""Runs `stepwell` commands for tests: each in a process of its own, forked from one that has
imported the command line already. What is run is what the installed script runs.

Reads one JSON object a line and answers each with a number:

- A command has argv, cwd, env, output (a file to append to), and maybe errors (another one, for
  stderr) and input (a file to read). The answer is its exit status. With `"gone"`, a list of
  `output` and `errors`, these are pipes whose reader has left. With `"start"` it leads a process
  group of its own, and the answer is its process number, at once.
- `"reap"` has such a number. The answer is the exit status, or null while the process runs.
"""

import gc
import json
import os
import sys
from typing import Any, NoReturn

import apscheduler.schedulers.background  # noqa: F401 - each child has what is imported here
import yaml  # noqa: F401

import stepwell.cli.app
import stepwell.engine
import stepwell.providers.scripted  # noqa: F401
from stepwell.cli import main
from stepwell.store.prepared import Prepared


def become(job: dict[str, Any]) -> None:
    """Take on the streams, folder, environment and arguments of a command."""
    os.dup2(os.open(job.get("input", os.devnull), os.O_RDONLY), 0)
    for stream, name in ((1, "output"), (2, "errors")):
        os.dup2(without_reader() if name in job.get("gone", ()) else opened(job, name), stream)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    sys.argv = ["stepwell", *job["argv"]]


def opened(job: dict[str, Any], name: str) -> int:
    return os.open(job.get(name, job["output"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def without_reader() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def run(job: dict[str, Any]) -> NoReturn:
    """Become the command, and end without what an interpreter does at its end."""
    code: object = 1
    try:
        become(job)
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException as error:  # noqa: BLE001 - the command's test is told
        print(f"Traceback: {error!r}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


def answer(job: dict[str, Any]) -> int | None:
    """What is answered to one line; in a child it never returns."""
    if "reap" in job:
        pid, status = os.waitpid(job["reap"], os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None
    child = os.fork()
    if child:
        if "start" in job:
            return child
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if "start" in job:
        os.setsid()
    if "start" in job or "gone" in job:  # at its end an interpreter flushes, and waits for threads
        become(job)
        main()
        sys.exit()
    run(job)


def compile_statements() -> None:
    """Write the SQL of every statement once, which each child would do for itself."""
    for one in gc.get_objects():
        if isinstance(one, Prepared):
            assert one.sql


def serve() -> None:
    compile_statements()
    gc.freeze()  # the children share these pages for as long as nothing walks through them
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    serve()
