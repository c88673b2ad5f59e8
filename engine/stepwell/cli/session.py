"""The engine that a command works with, and the application's workflows."""

import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from stepwell.cli import Stopped, streams
from stepwell.cli.output import notice
from stepwell.engine import Engine
from stepwell.errors import ConfigurationError
from stepwell.settings import Settings, load
from stepwell.store import copies
from stepwell.store.connections import database_file
from stepwell.workflow import registered

# Frames of these files say nothing about the application.
_NOT_THEIRS = (str(Path(__file__).parents[1]), str(Path(importlib.__file__).parent), "<frozen")


@contextmanager
def engine(
    app: str | None = None,
    *,
    needs_workflows: bool = False,
    creates: bool = False,
    looks: bool = False,
    upgrade: bool = False,
) -> Iterator[Engine]:
    """An engine on the configured database.

    Args:
        app: the module that defines the workflows, instead of the setting.
        needs_workflows: whether the application must be imported.
        creates: whether a missing database is created. If not, the command sees an empty one.
        looks: whether the command changes nothing. Then it can also read a database that is
            read-only or has an older schema.
        upgrade: whether an older schema is upgraded.
    """
    settings = load()
    workflows = application(settings, app) if needs_workflows else ()
    with ExitStack() as stack:
        file = database_file(settings.database_url)
        missing = not file.exists()
        if missing and not creates:
            file = Path(stack.enter_context(TemporaryDirectory())) / "empty.db"
        if looks:
            file, special = stack.enter_context(copies.readable(file))
            if special:
                notice(special)
        opened = stack.enter_context(
            Engine(file, workflows=workflows, settings=settings, upgrade=upgrade)
        )
        if missing:
            what = "New database" if creates else "There is no database yet"
            notice(f"{what}: {database_file(settings.database_url).absolute()}")
        yield opened


def application(settings: Settings, app: str | None) -> ModuleType:
    """The module that defines the workflows. Anything it prints goes to stderr.

    Raises:
        ConfigurationError: there is no such module, or it cannot be imported.
    """
    streams.keep_for_results()
    name = app or settings.app
    root = str(settings.root)
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"There is no module {name!r} in {root}.",
                "Name the module that defines your workflows: --app, STEPWELL_APP, or "
                '[tool.stepwell] app = "..." in pyproject.toml.',
            ) from error
        raise _cannot_be_imported(name, error) from error
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, Stopped):
            raise
        raise _cannot_be_imported(name, error) from error
    if not registered(module):
        file = getattr(module, "__file__", None) or root
        notice(f"The module {name!r} ({file}) defines no workflow: no Agent and no Pipeline.")
    return module


def _cannot_be_imported(name: str, error: BaseException) -> ConfigurationError:
    """The error, with the last line of the application's own code that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [(f.filename, f.lineno) for f in frames if not f.filename.startswith(_NOT_THEIRS)]
    what = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
        what = f"{type(error).__name__}: {error.msg}"
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    return ConfigurationError(f"The application {name!r} cannot be imported: {what}{where}.")
