"""Whole copies of a database in use, and putting one in the place of a lost database."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory

from stepwell import clock
from stepwell.errors import StoreError
from stepwell.store import schema
from stepwell.store.connections import is_writable, resolved, writing

# https://www.sqlite.org/src/file/src/os.h: every open connection holds a lock in this range.
LOCKED_FROM, LOCKED_BYTES = 0x40000000, 512
BESIDE = ("-wal", "-shm", "-journal")


def copy(file: Path, target: Path) -> None:
    """Copy a database that may be in use, with everything that is committed.

    Raises:
        StoreError: there is nothing to copy, or the target exists. Nothing was written.
    """
    file = _existing(file)
    try:
        with _new(target) as unfinished:
            _copy(file, unfinished)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{file} cannot be copied to {target}: {error}.") from error


def restore(source: Path, file: Path) -> Path | None:
    """Put a copy of `source` in the place of a database that no process uses.

    Returns:
        where the previous database was moved, with its log; None if there was none.

    Raises:
        StoreError: the source is not a sound database, or the database is in use. Nothing changed.
    """
    source, file = _existing(source), resolved(file)
    if file.exists() and source.samefile(file):
        raise StoreError(f"{source} is the database itself.", "Name the copy to restore from.")
    kept = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=file.parent) as folder:
            unfinished = Path(folder) / file.name
            _copy(source, unfinished)
            _check(unfinished, source)
            with _unused(file):
                kept = _set_aside(file)
                os.link(unfinished, file)  # unlike a move, it never replaces another file
    except (OSError, sqlite3.Error) as error:
        where = f" The previous database is {kept}." if kept else ""
        raise StoreError(f"{source} cannot be restored: {error}.{where}") from error
    return kept


@contextmanager
def readable(file: Path) -> Iterator[tuple[Path, str]]:
    """A file that this code can read, and an explanation if it is a temporary copy.

    A database with an older schema is read from a copy with the newest one. One that cannot be
    written, such as on read-only media, is read from a copy because readers of a log need locks.
    """
    file = resolved(file)
    found = schema.check(file)
    older = 0 < found < schema.newest()
    fixed = found > 0 and not is_writable(file)
    if not older and not fixed:
        yield file, ""
        return
    with TemporaryDirectory() as folder:
        shown = Path(folder) / file.name
        _copy_files(file, shown) if fixed else _copy(file, shown)
        told = f"{file} has schema version {found}; this is read from a newer copy of it."
        if fixed:
            told = f"{file} is read-only."
            if not Path(f"{file}-wal").exists():
                told += " The last transitions may be missing: there is no log (-wal) beside it."
        if older:
            with closing(writing(shown, "off")) as writer:
                schema.prepare(writer, shown)
        yield shown, told


def _existing(file: Path) -> Path:
    file = resolved(file)
    if schema.check(file) == 0:
        raise StoreError(f"{file} does not exist or is empty.")
    return file


def _copy(file: Path, target: Path) -> None:
    """SQLite's online backup: the state of one moment, whatever is written meanwhile."""
    target.touch(mode=0o600)
    with closing(_source(file)) as source, closing(sqlite3.connect(target)) as copied:
        source.backup(copied)
    target.chmod(file.stat().st_mode & 0o777)


def _source(file: Path) -> sqlite3.Connection:
    if not is_writable(file):
        return schema.reading(file)
    return sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)  # leaves nothing behind


def _copy_files(file: Path, target: Path) -> None:
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{file}{end}", f"{target}{end}")


@contextmanager
def _new(target: Path) -> Iterator[Path]:
    """A file that appears under its name when it is complete."""
    if target.exists():
        raise StoreError(f"{target} exists already.", "Name a new file.")
    with TemporaryDirectory(dir=target.parent) as folder:
        unfinished = Path(folder) / target.name
        yield unfinished
        os.link(unfinished, target)


def _check(copied: Path, source: Path) -> None:
    with closing(sqlite3.connect(copied)) as reader:
        answers = [row[0] for row in reader.execute("PRAGMA quick_check")]
    if answers != ["ok"]:
        raise StoreError(f"{source} is damaged: {answers[0]}.", "Restore another copy.")


@contextmanager
def _unused(file: Path) -> Iterator[None]:
    """Keep every other process out of the present database."""
    if not file.exists():
        yield
        return
    import fcntl  # not on every platform

    with file.open("r+b") as opened:
        try:
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCKED_BYTES, LOCKED_FROM)
        except OSError as error:
            raise StoreError(
                f"The database {file} is in use; nothing was changed.",
                "Stop every worker and command that uses it, then try again.",
            ) from error
        yield


def _set_aside(file: Path) -> Path | None:
    """Move a database away with its log, so that the log is never read with another database."""
    at = clock.now().astimezone(UTC).strftime("%Y%m%dT%H%M%S")
    kept = file.with_name(f"{file.name}.replaced-{at}")
    found = file.exists()
    if found:
        file.rename(kept)
    for end in BESIDE:
        with suppress(FileNotFoundError):
            Path(f"{file}{end}").rename(f"{kept}{end}")
    return kept if found else None
