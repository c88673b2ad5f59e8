"""Checks a database: the file, its version, and its transcripts."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from stepwell.machine import State
from stepwell.state.transcript import problems as transcript_problems
from stepwell.store import connections, load, schema
from stepwell.store.tables import run


def problems(file: Path) -> list[str]:
    """The problems of a database, in words. Nothing is changed.

    Raises:
        StoreError: the file cannot be read, or is not a Stepwell database.
    """
    file = connections.resolved(file)
    found = schema.check(file)
    if found == 0:
        return [f"{file} does not exist yet, or is empty: `stepwell db upgrade` creates it."]
    if found < schema.newest():
        return [f"{file} has schema version {found}: `stepwell db upgrade` upgrades it."]
    try:
        return _damage(file) or _illegal_transcripts(file)
    except (sqlite3.Error, DBAPIError) as error:
        return [f"{file} cannot be read: {getattr(error, 'orig', error)}."]


def _damage(file: Path) -> list[str]:
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as reader:
        answers = [row[0] for row in reader.execute("PRAGMA integrity_check")]
        strays = reader.execute("PRAGMA foreign_key_check").fetchall()
    wrong = [answer for answer in answers if answer != "ok"]
    return wrong + [f"A row of {table} has no {parent}." for table, _, parent, _ in strays]


def _illegal_transcripts(file: Path) -> list[str]:
    engine = connections.reading(file)
    wrong = []
    with engine.begin() as connection:
        for number, id_ in connection.execute(select(run.c.number, run.c.id)).all():
            try:
                snapshot = load.load(connection, number)
            except (ValueError, LookupError) as error:
                wrong.append(f"Run {id_} cannot be read: {error}.")
                continue
            complete = snapshot.run.state is State.AWAITING_MODEL
            wrong += [
                f"Run {snapshot.run.id}: the transcript is not legal: {problem}."
                for problem in transcript_problems(snapshot.transcript, complete=complete)
            ]
    engine.dispose()
    return wrong
