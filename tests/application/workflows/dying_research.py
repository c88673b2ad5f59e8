"""Starts a run of `research` and dies in it: dying_research.py DATABASE INPUT (SEQ | note:NUMBER).

SEQ: right after that transition was committed. note:NUMBER: inside the call that saves this note,
when it has been added and nothing of it is committed.
"""

import os
import sys

from stepwell import Engine
from stepwell.tools.context import Notes
from stepwell.views.runs import HistoryEntry
from workflows.research import research


def main(database: str, text: str, where: str) -> None:
    kind, _, number = where.rpartition(":")
    add = Notes.add
    if kind == "note":

        def add_and_die(notes: Notes, note: str) -> None:
            add(notes, note)
            if len(notes.read()) == int(number):
                os._exit(9)

        Notes.add = add_and_die  # type: ignore[method-assign, assignment]

    def recorded(entry: HistoryEntry) -> None:
        if not kind and entry.seq == int(number):
            os._exit(9)

    with Engine(database, workflows=[research]) as engine:
        engine.run("research", text, on_transition=recorded)


if __name__ == "__main__":
    main(*sys.argv[1:])
