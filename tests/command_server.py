"""Runs `stepwell` commands for the docs' tests: each in a process of its own, forked from one that
has imported the command line already. What is run is what the installed script runs.

Reads one JSON object a line (argv, cwd, env, output) and answers each with an exit status.
"""

import json
import os
import sys
from typing import Any, NoReturn

import stepwell.cli.app
import stepwell.engine  # noqa: F401 - so that each child has it
from stepwell.cli import main


def run(job: dict[str, Any]) -> NoReturn:
    """Become the command."""
    code: object = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
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
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
