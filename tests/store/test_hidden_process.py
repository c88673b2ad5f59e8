"""A process that cannot be seen is not a process that does not exist."""

import os
import shutil
import subprocess
import sys
from dataclasses import astuple, replace
from typing import Any

import psutil
import pytest

from stepwell.store.owner import is_gone, this_process

# Another user, in a mount namespace whose /proc hides the processes of everybody else.
HIDDEN = (
    "mount -t proc -o hidepid=2 proc /proc && "
    "exec setpriv --reuid 12345 --regid 12345 --clear-groups "
)
ASK = """
import sys
from stepwell.store.owner import Owner, is_gone
host, boot, namespace, pid, started = sys.argv[1:]
print(is_gone(Owner(host, boot, namespace, int(pid), int(started))))
"""


def as_another_user(*command: str) -> str:
    hidden = f'{HIDDEN} "$@"'
    found = subprocess.run(
        ["unshare", "-m", "sh", "-c", hidden, "sh", *command],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return found.stdout.strip() or found.stderr.strip()


@pytest.fixture
def namespace() -> None:
    tools = shutil.which("unshare") and shutil.which("setpriv")
    if not tools or as_another_user(sys.executable, "-c", "import psutil; print(1)") != "1":
        pytest.skip("this machine has no mount namespace with another user for a test")


@pytest.mark.usefixtures("namespace")
def test_a_living_process_hidden_by_hidepid_is_not_gone() -> None:
    me = this_process()
    ended = subprocess.Popen(["true"])
    ended.wait()
    for owner, gone in ((me, "False"), (replace(me, pid=ended.pid), "True")):
        values = [str(value) for value in astuple(owner)]
        assert as_another_user(sys.executable, "-c", ASK, *values) == gone


@pytest.mark.parametrize(
    "answer",
    [psutil.NoSuchProcess(1), psutil.AccessDenied(1), PermissionError(), FileNotFoundError()],
    ids=lambda answer: type(answer).__name__,
)
def test_a_process_about_which_nothing_can_be_read_is_not_gone(
    monkeypatch: pytest.MonkeyPatch, answer: Exception
) -> None:
    def unreadable(_pid: int) -> Any:
        raise answer

    me = this_process()
    monkeypatch.setattr(psutil, "Process", unreadable)
    assert not is_gone(me)
    assert is_gone(replace(me, pid=2**22 + 1))  # the kernel itself does not know it
