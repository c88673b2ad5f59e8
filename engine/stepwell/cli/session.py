"""The engine that a command works with, and the application's workflows."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from stepwell.cli import Stopped, streams
from stepwell.engine import Engine
from stepwell.errors import ConfigurationError
from stepwell.settings import Settings, load
from stepwell.store.connections import database_file


@contextmanager
def engine(app: str | None = None, *, needs_workflows: bool = False) -> Iterator[Engine]:
    """An engine on the configured database.

    Args:
        app: the module that defines the workflows, instead of the setting.
        needs_workflows: without them, an application that cannot be imported is no obstacle.
    """
    settings = load()
    workflows = application(settings, app) if needs_workflows else ()
    with ExitStack() as stack:
        file = database_file(settings.database_url)
        if not needs_workflows and not file.exists():  # to look is no reason to make one
            file = Path(stack.enter_context(TemporaryDirectory())) / "empty.db"
        yield stack.enter_context(Engine(file, workflows=workflows, settings=settings))


def application(settings: Settings, app: str | None) -> ModuleType:
    """The module that defines the workflows. What it prints, now or later, is no result.

    Raises:
        ConfigurationError: there is none, or it cannot be imported.
    """
    streams.keep_for_results()
    name = app or settings.app
    root = str(settings.root)
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"There is no module {name!r} in {root}.",
                "Name the module that defines your workflows: --app, STEPWELL_APP, or "
                '[tool.stepwell] app = "..." in pyproject.toml.',
            ) from error
        raise ConfigurationError(
            f"The application {name!r} cannot be imported: {error}."
        ) from error
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, Stopped):
            raise
        raise ConfigurationError(
            f"The application {name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
