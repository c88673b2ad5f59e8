"""`db`: the database itself."""

import typer

from stepwell.cli.options import AppOption, JsonOption
from stepwell.cli.output import write, write_json
from stepwell.settings import load
from stepwell.store import Store, check, schema
from stepwell.store.connections import database_file

db = typer.Typer(no_args_is_help=True, help="The database: where it is, its version, its health.")


@db.command()
def path(json: JsonOption = False, app: AppOption = None) -> None:
    """Print where the database is."""
    del app
    file = str(database_file(load().database_url).absolute())
    write_json({"path": file}) if json else write(file)


@db.command()
def upgrade(json: JsonOption = False, app: AppOption = None) -> None:
    """Make the database, or bring it to this version of Stepwell; an older one is copied first."""
    del app
    file = database_file(load().database_url)
    store = Store(file)
    store.close()
    backup = str(store.backup) if store.backup else None
    if json:
        write_json({"path": str(file), "version": schema.newest(), "backup": backup})
    else:
        copied = f" The older one was copied to {backup}." if backup else ""
        write(f"{file} has schema version {schema.newest()}.{copied}")


@db.command(name="check")
def check_(json: JsonOption = False, app: AppOption = None) -> None:
    """Check the file, the version and every transcript; exit code 1 if anything is wrong."""
    del app
    file = database_file(load().database_url)
    found = check.problems(file)
    if json:
        write_json({"path": str(file), "version": schema.version(file), "problems": found})
    elif not found:
        write(f"{file} is sound.")
    else:
        for problem in found:
            write(problem)
    raise typer.Exit(1 if found else 0)
