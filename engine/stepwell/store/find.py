"""Finds the run or question that a person names: an id, a beginning of one, or "last"."""

import re

from sqlalchemy import Connection, select

from stepwell.errors import UnknownApproval, UnknownRun
from stepwell.store.inspect import approvals
from stepwell.store.tables import run
from stepwell.views.runs import ApprovalView

# https://github.com/ulid/spec: Crockford's base 32
_ULID_PREFIX = re.compile(r"[0-9A-HJKMNP-TV-Z]{1,26}\Z")
_QUESTION = re.compile(r"(?P<run>[0-9A-Za-z]+)-q(?P<number>[0-9]+)\Z")


SHORTEST_END = 4


def run_number(connection: Connection, text: str) -> int:
    """The number of the run that `text` names.

    Raises:
        UnknownRun: none, or several.
    """
    query = select(run.c.number, run.c.id).order_by(run.c.number.desc()).limit(3)
    if text != "last":
        if not _ULID_PREFIX.match(text.upper()):
            raise UnknownRun(f"{text!r} is not a run id.", "`stepwell runs` lists them.")
        query = query.where(run.c.id.startswith(text.upper(), autoescape=True))
    found = connection.execute(query).all()
    if not found and len(text) >= SHORTEST_END:  # ids of one day begin alike; their ends do not
        ends = select(run.c.number, run.c.id).order_by(run.c.number.desc()).limit(3)
        found = connection.execute(ends.where(run.c.id.endswith(text.upper()))).all()
    if not found:
        if text == "last":
            raise UnknownRun("There is no run yet.", "`stepwell run WORKFLOW INPUT` starts one.")
        raise UnknownRun(
            f"No run's id begins or ends with {text!r}.", "`stepwell runs` lists them."
        )
    if len(found) > 1 and text != "last" and len(text) < len(found[0].id):
        ids = ", ".join(row.id for row in found)
        raise UnknownRun(f"Several runs begin with {text!r}: {ids}, ...", "Give more of the id.")
    return int(found[0].number)


def run_with_key(connection: Connection, workflow: str, key: str) -> int | None:
    """The number of the run that has this key."""
    query = select(run.c.number).where(run.c.workflow == workflow, run.c.key == key)
    return connection.execute(query).scalar()


def question(connection: Connection, text: str, *, pending: bool = True) -> ApprovalView:
    """The question that `text` names: its id, or the id of a run with exactly one open question.

    Args:
        connection: a reader's.
        text: the person's input.
        pending: whether only a run's open questions count.

    Raises:
        UnknownApproval, UnknownRun: it names none, or several.
    """
    exact = _QUESTION.match(text)
    if exact:
        number = run_number(connection, exact["run"])
        for one in approvals(connection, number):
            if one.id.endswith(f"-q{exact['number']}"):
                return one
        raise UnknownApproval(f"There is no question {text}.", "`stepwell approvals` lists them.")
    number = run_number(connection, text)
    id_ = connection.execute(select(run.c.id).where(run.c.number == number)).scalar_one()
    found = approvals(connection, number, pending=pending)
    if not found:
        raise UnknownApproval(
            f"Run {id_} has no open question.", "`stepwell approvals` lists all open questions."
        )
    if len(found) > 1:
        ids = ", ".join(one.id for one in found)
        raise UnknownApproval(f"Run {id_} has several open questions.", f"Name one of: {ids}.")
    return found[0]
