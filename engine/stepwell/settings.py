"""Settings: environment over `.env` over `[tool.stepwell]` in the project's pyproject.toml."""

import re
import tomllib
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import dotenv
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from stepwell.errors import ConfigurationError
from stepwell.retry import RetryPolicy

SQLITE = "sqlite:///"
DEFAULT_DATABASE = f"{SQLITE}stepwell.db"
_ENCODING = "utf-8-sig"  # some editors put a byte order mark first


class Settings(BaseSettings):
    """All settings, each read from `STEPWELL_<NAME>`. Durations are in seconds.

    Attributes:
        root: the folder of the nearest pyproject.toml with a `[tool.stepwell]` table, or the
            current folder. The application and scripted models are looked up there.
        database_url: where runs are kept (`database` in pyproject.toml).
        app: the module whose workflows are registered.
        model: the model of workflows that do not name one.
        lease, heartbeat: how long a silent driver keeps a run, and how often a driver reports.
        attempts: how often one step may fail before its run fails.
        outage: how long a provider that is down or busy may refuse a step before its run fails.
        retry_base, retry_ceiling: the first and the longest wait between two tries.
        model_timeout: how long a model can be silent before its call fails; a whole reply may
            take six times as long.
        sweep: how often a worker looks for stuck runs.
        grace: how long a stopping worker waits for work in progress.
        workflow_concurrency: per workflow, how many runs all workers together drive at once.
        model_concurrency: per model, how many calls one process makes at once.
        mask: regular expressions; text that matches is stored as `[masked]`.
        warn_cost, warn_turns: a run that exceeds this many USD or model calls logs a warning.
        synchronous: SQLite's setting of this name; "full" survives a power loss.
    """

    model_config = SettingsConfigDict(env_prefix="STEPWELL_", extra="ignore", frozen=True)

    root: Path = Field(default_factory=Path.cwd)
    database_url: str = DEFAULT_DATABASE
    app: str = "workflows"
    model: str | None = None
    lease: float = Field(default=30.0, gt=0)
    heartbeat: float = Field(default=10.0, gt=0)
    attempts: int = Field(default=5, ge=1)
    outage: float = Field(default=6 * 3600.0, ge=0)
    retry_base: float = Field(default=1.0, ge=0)
    retry_ceiling: float = Field(default=300.0, ge=0)
    model_timeout: float = Field(default=600.0, gt=0)
    sweep: float = Field(default=10.0, gt=0)
    grace: float = Field(default=30.0, ge=0)
    workflow_concurrency: dict[str, Annotated[int, Field(ge=1)]] = {}
    model_concurrency: dict[str, Annotated[int, Field(ge=1)]] = {}
    mask: list[str] = []
    warn_cost: Decimal = Field(default=Decimal("0.50"), ge=0)
    warn_turns: int = Field(default=8, ge=0)
    synchronous: Literal["full", "normal", "off"] = "full"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - ours is the project's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        root, table = _project(_here())
        file = root / ".env"
        dotenv_values(file)  # says which file it is that cannot be read
        dotenv = DotEnvSettingsSource(settings_cls, env_file=file, env_file_encoding=_ENCODING)
        project = InitSettingsSource(settings_cls, {"root": root, **table})
        return init_settings, env_settings, dotenv, project

    @field_validator("mask")
    @classmethod
    def _patterns(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            try:
                found = re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
            if found.search(""):
                raise ValueError(f"{pattern!r} matches empty text, so it would mask everything")
        return patterns

    @property
    def retry_policy(self) -> RetryPolicy:
        """How faults are retried."""
        return RetryPolicy(
            attempts=self.attempts,
            outage=timedelta(seconds=self.outage),
            base=timedelta(seconds=self.retry_base),
            ceiling=timedelta(seconds=self.retry_ceiling),
        )


def load() -> Settings:
    """The settings in effect.

    Raises:
        ConfigurationError: one of them is not valid.
    """
    try:
        return Settings()
    except SettingsError as error:  # a value that must be JSON is not
        raise ConfigurationError(f"A setting is not valid: {error}.") from error
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']} (got {e['input']!r})"
            for e in error.errors()
        )
        raise ConfigurationError(f"A setting is not valid: {wrong}.") from error


def dotenv_values(file: Path) -> dict[str, str | None]:
    """The variables of a `.env` file; none if it does not exist.

    Raises:
        ConfigurationError: it exists and cannot be read.
    """
    try:
        return dotenv.dotenv_values(file, encoding=_ENCODING)
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file} is not UTF-8.", "Save it as UTF-8.") from error
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}.") from error


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigurationError(
            f"The current folder cannot be used: {error.strerror}.", "Change to one that exists."
        ) from error


def _project(start: Path) -> tuple[Path, dict[str, Any]]:
    """The nearest folder with a `[tool.stepwell]` table, and that table."""
    for folder in (start, *start.parents):
        table = _table(folder / "pyproject.toml")
        if table is not None:
            return folder, _absolute(table, folder)
    return start, {}


def _table(file: Path) -> dict[str, Any] | None:
    """The `[tool.stepwell]` table of one file; None if it has none."""
    try:
        if not file.is_file():
            return None
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("stepwell")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}.") from error
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}.") from error
    if table is not None and not isinstance(table, dict):
        raise ConfigurationError(f"{file}: [tool.stepwell] must be a table.")
    return table


def _absolute(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The table, with `database` under its setting's name and relative to the project's folder."""
    found = dict(table)
    location = found.pop("database", None)
    if isinstance(location, str):
        path = location.removeprefix(SQLITE)
        # What is not a relative path is taken as it is, and may be refused when it is opened.
        as_it_is = path in {"", ":memory:"} or path.startswith(("/", "~", "sqlite:"))
        relative = not as_it_is and (path != location or "://" not in path)
        found["database_url"] = f"{SQLITE}{folder / path}" if relative else location
    return found
