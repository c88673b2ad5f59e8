"""Runs `stepwell` commands for tests: each in a process of its own, forked from one that has
imported the command line already. What is run is what the installed script runs.

Reads one JSON object a line and answers each with an exit status. It has argv, cwd, env, output (a
file to append to), and maybe errors (another one, for stderr) and input (a file to read).
"""

import gc
import json
import os
import sys
from typing import Any, NoReturn

import apscheduler.schedulers.background  # noqa: F401 - each child has what is imported here
import stepwell.cli.app
import stepwell.engine  # noqa: F401
import stepwell.providers.scripted  # noqa: F401
import yaml  # noqa: F401
from stepwell.cli import main


def run(job: dict[str, Any]) -> NoReturn:
    """Become the command."""
    code: object = 1
    try:
        os.dup2(os.open(job.get("input", os.devnull), os.O_RDONLY), 0)
        for stream, file in ((1, job["output"]), (2, job.get("errors", job["output"]))):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        os.chdir(job["cwd"])
        os.environ.clear()
        os.environ.update(job["env"])
        sys.argv = ["stepwell", *job["argv"]]
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException as error:  # noqa: BLE001 - the command's test is told
        print(f"Traceback: {error!r}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


def serve() -> None:
    gc.freeze()  # the children share these pages for as long as nothing walks through them
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
