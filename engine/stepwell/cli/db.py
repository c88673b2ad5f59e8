"""`db`: the database itself."""

from typing import Annotated

import typer

from stepwell.cli.options import AppOption, JsonOption
from stepwell.cli.output import notice, write, write_json
from stepwell.settings import load
from stepwell.store import Store, check, copies, schema
from stepwell.store.connections import database_file

db = typer.Typer(no_args_is_help=True, help="Locate, upgrade and check the database.")


@db.command()
def path(json: JsonOption = False, app: AppOption = None) -> None:
    """Print where the database is."""
    del app
    file = str(database_file(load().database_url).absolute())
    write_json({"path": file}) if json else write(file)


@db.command()
def upgrade(json: JsonOption = False, app: AppOption = None) -> None:
    """Create the database, or upgrade it to this version after a copy."""
    del app
    file = database_file(load().database_url)
    store = Store(file, upgrade=True)
    store.close()
    backup = str(store.backup) if store.backup else None
    if json:
        write_json({"path": str(file), "version": schema.newest(), "backup": backup})
    else:
        copied = f" The older one was copied to {backup}." if backup else ""
        write(f"{file} has schema version {schema.newest()}.{copied}")


@db.command(name="copy")
def copy_(
    target: Annotated[str, typer.Argument(help="The new file.")],
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Copy the database, even while workers use it."""
    del app
    file, to = database_file(load().database_url), database_file(target)
    copies.copy(file, to)
    write_json({"path": str(file), "copy": str(to)}) if json else write(f"Copied to {to}.")


@db.command()
def restore(
    source: Annotated[str, typer.Argument(help="A copy of the database.")],
    json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Replace the database with a copy of SOURCE. No process may use it.

    The previous database is kept beside it.
    """
    del app
    file, of = database_file(load().database_url), database_file(source)
    kept = copies.restore(of, file)
    if json:
        write_json({"path": str(file), "source": str(of), "previous": kept and str(kept)})
    else:
        previous = f" The previous database is {kept}." if kept else ""
        write(f"Restored {file} from {of}.{previous}")


@db.command(name="check")
def check_(json: JsonOption = False, app: AppOption = None) -> None:
    """Check the file, the version and every transcript. Exits 1 if anything is wrong."""
    del app
    file = database_file(load().database_url)
    with copies.readable(file) as (shown, special):
        fixed = special and schema.version(file) == schema.newest()
        if fixed:
            notice(special)
        found = check.problems(shown if fixed else file)
    if json:
        write_json({"path": str(file), "version": schema.version(file), "problems": found})
    elif not found:
        write(f"{file} is sound.")
    else:
        for problem in found:
            write(problem)
    raise typer.Exit(1 if found else 0)
