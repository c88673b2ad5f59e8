"""Settings: environment over `.env` over `[tool.stepwell]` in the project's pyproject.toml."""

import os
import re
import tomllib
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
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

# Variables that hold a provider's key: never stored, never logged.
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
DEFAULT_DATABASE = "sqlite:///stepwell.db"


class Settings(BaseSettings):
    """What can be set, each as `STEPWELL_<NAME>`. Durations are in seconds.

    Attributes:
        root: the folder of the nearest pyproject.toml with a `[tool.stepwell]` table, or the
            current one; the application and scripted models are looked for there.
        database_url: where runs are kept (`database` in pyproject.toml).
        app: the module whose workflows are registered.
        model: for workflows that name none.
        lease, heartbeat: how long a silent driver keeps a run, and how often it speaks.
        attempts, retry_base, retry_ceiling: tries of one step, and the waits between them.
        model_timeout: how long a model may be silent before its call has failed.
        sweep: how often a worker looks for stuck runs.
        grace: how long a worker that has to stop waits for what is under way.
        workflow_concurrency: by workflow, how many of its runs all workers drive at once.
        model_concurrency: by model, how many of its calls one process makes at once.
        mask: regular expressions; what they match is stored as `[masked]`.
        warn_cost, warn_turns: a run that needs more USD or model calls is logged as a warning.
        synchronous: SQLite's; "full" survives a power loss.
    """

    model_config = SettingsConfigDict(env_prefix="STEPWELL_", extra="ignore", frozen=True)

    root: Path = Field(default_factory=Path.cwd)
    database_url: str = DEFAULT_DATABASE
    app: str = "workflows"
    model: str | None = None
    lease: float = Field(default=30.0, gt=0)
    heartbeat: float = Field(default=10.0, gt=0)
    attempts: int = Field(default=5, ge=1)
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
        dotenv = DotEnvSettingsSource(settings_cls, env_file=root / ".env")
        project = InitSettingsSource(settings_cls, {"root": root, **table})
        return init_settings, env_settings, dotenv, project

    @field_validator("mask")
    @classmethod
    def _patterns(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            try:
                found = re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
            if found.search(""):
                raise ValueError(f"{pattern!r} matches the empty text, so it would mask everything")
        return patterns

    @property
    def secrets(self) -> list[str]:
        """The keys of providers that the environment or `.env` has."""
        known = {**dotenv_values(self.root / ".env"), **os.environ}
        return [value.strip() for name in KEYS if (value := known.get(name))]

    @property
    def retry_policy(self) -> RetryPolicy:
        """How faults are tried again."""
        return RetryPolicy(
            attempts=self.attempts,
            base=timedelta(seconds=self.retry_base),
            ceiling=timedelta(seconds=self.retry_ceiling),
        )


def load() -> Settings:
    """The settings in force.

    Raises:
        ConfigurationError: one of them is not valid.
    """
    try:
        return Settings()
    except SettingsError as error:  # what should be JSON is not
        raise ConfigurationError(f"A setting is not valid: {error}.") from error
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']} (got {e['input']!r})"
            for e in error.errors()
        )
        raise ConfigurationError(f"A setting is not valid: {wrong}.") from error


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigurationError(
            f"The current folder cannot be used: {error.strerror}.", "Go to one that exists."
        ) from error


def _project(start: Path) -> tuple[Path, dict[str, Any]]:
    """The nearest folder that says it is a Stepwell project, and what it says."""
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if not file.is_file():
            continue
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("stepwell")
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigurationError(f"{file} is not valid TOML: {error}.") from error
        except OSError as error:
            raise ConfigurationError(f"{file} cannot be read: {error.strerror}.") from error
        if table is None:
            continue
        if not isinstance(table, dict):
            raise ConfigurationError(f"{file}: [tool.stepwell] must be a table.")
        return folder, _absolute(table, folder)
    return start, {}


def _absolute(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """`database` under its setting's name, a relative file taken from the project's folder."""
    found = dict(table)
    url = found.pop("database", None)
    if isinstance(url, str):
        prefix, _, path = url.rpartition("sqlite:///")
        is_file = not prefix and "sqlite:///" in url
        found["database_url"] = f"sqlite:///{folder / path}" if is_file else url
    return found
