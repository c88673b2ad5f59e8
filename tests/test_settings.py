"""Settings: environment over `.env` over `[tool.stepwell]`."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwell.errors import ConfigurationError
from stepwell.settings import load

NOBODY = 65534


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """An empty folder, with nothing set; writes its pyproject.toml and `.env`."""
    for name in os.environ:
        if name.startswith("STEPWELL_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def write(table: str = "", dotenv: str | None = None) -> Path:
        (tmp_path / "pyproject.toml").write_text(f"[tool.stepwell]\n{table}\n", encoding="utf-8")
        if dotenv is not None:
            (tmp_path / ".env").write_text(dotenv, encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture
def unprivileged(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Becomes a user whom permissions bind, until the test has ended."""
    before = os.geteuid()
    yield lambda: os.seteuid(before or NOBODY)
    os.seteuid(before)
    tmp_path.chmod(0o700)


def test_without_anything_the_defaults_hold(project: Callable[..., Path], tmp_path: Path) -> None:
    settings = load()
    assert (settings.root, settings.database_url) == (tmp_path, "sqlite:///stepwell.db")
    assert (settings.app, settings.model, settings.synchronous) == ("workflows", None, "full")
    assert (settings.lease, settings.heartbeat, settings.attempts) == (30, 10, 5)
    assert (settings.retry_base, settings.retry_ceiling) == (1, 300)


def test_the_environment_comes_before_dotenv_before_pyproject(
    project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    project('app = "a"\nmodel = "a"\nlease = 1', "STEPWELL_MODEL=b\nSTEPWELL_LEASE=2\n")
    monkeypatch.setenv("STEPWELL_LEASE", "3")
    settings = load()
    assert (settings.app, settings.model, settings.lease) == ("a", "b", 3)


def test_other_words_in_dotenv_are_not_ours(project: Callable[..., Path]) -> None:
    project("", "OPENAI_API_KEY=sk-x\nSTEPWELL_APP=mine\n")
    assert load().app == "mine"


def test_the_project_is_found_from_a_folder_below(
    project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project('app = "mine"', "STEPWELL_MODEL=m\n")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    settings = load()
    assert (settings.root, settings.app, settings.model) == (tmp_path, "mine", "m")


def test_another_project_s_file_in_between_does_not_count(
    project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project('app = "mine"')
    below = tmp_path / "library"
    below.mkdir()
    (below / "pyproject.toml").write_text('[project]\nname = "x"\n', encoding="utf-8")
    monkeypatch.chdir(below)
    assert load().app == "mine"


@pytest.mark.parametrize("url", ["sqlite:///data/runs.db", "sqlite:///./data/runs.db"])
def test_a_relative_database_lies_in_the_project_s_folder(
    project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    project(f'database = "{url}"')
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    path = Path(load().database_url.removeprefix("sqlite:///"))
    assert path == tmp_path / "data" / "runs.db"


@pytest.mark.parametrize(
    "location", ["sqlite:///~/x.db", "~/x.db", "sqlite:///:memory:", "sqlite://", "sqlite:x.db"]
)
def test_a_database_that_is_not_a_relative_path_is_not_joined(
    project: Callable[..., Path], location: str
) -> None:
    project(f'database = "{location}"')
    assert load().database_url == location


def test_a_plain_path_is_relative_to_the_project_too(
    project: Callable[..., Path], tmp_path: Path
) -> None:
    project('database = "data/what?now.db"')
    assert load().database_url == f"sqlite:///{tmp_path}/data/what?now.db"


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_dotenv_in_another_encoding_is_named(
    project: Callable[..., Path], tmp_path: Path, encoding: str
) -> None:
    project()
    (tmp_path / ".env").write_bytes("STEPWELL_MODEL=grün\n".encode(encoding))
    with pytest.raises(ConfigurationError, match=r"\.env is not UTF-8"):
        load()


def test_a_dotenv_that_cannot_be_read_is_named(
    project: Callable[..., Path], tmp_path: Path
) -> None:
    project()
    (tmp_path / ".env").symlink_to("/proc/self/mem")  # opens, but its first page cannot be read
    with pytest.raises(ConfigurationError, match=r"\.env cannot be read: Input/output error"):
        load()


def test_a_folder_that_may_not_be_searched_is_named(
    project: Callable[..., Path], tmp_path: Path, unprivileged: Callable[[], None]
) -> None:
    project()
    tmp_path.chmod(0o600)
    unprivileged()
    with pytest.raises(ConfigurationError, match="cannot be read: Permission denied"):
        load()


def test_a_byte_order_mark_is_not_part_of_a_name(
    project: Callable[..., Path], tmp_path: Path
) -> None:
    project()
    (tmp_path / ".env").write_bytes("\ufeffSTEPWELL_MODEL=grün\n".encode())
    assert load().model == "grün"


def test_an_absolute_database_stays_where_it_is(project: Callable[..., Path]) -> None:
    project('database = "sqlite:////var/lib/runs.db"')
    assert load().database_url == "sqlite:////var/lib/runs.db"


def test_a_database_in_the_environment_is_taken_as_it_is(
    project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    project('database = "sqlite:///data/runs.db"')
    monkeypatch.setenv("STEPWELL_DATABASE_URL", "sqlite:///here.db")
    assert load().database_url == "sqlite:///here.db"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease", "soon"),
        ("lease", "0"),
        ("heartbeat", "-1"),
        ("attempts", "0"),
        ("retry_base", "-1"),
        ("synchronous", "sometimes"),
    ],
)
def test_a_wrong_value_is_named(
    project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"STEPWELL_{name.upper()}", value)
    with pytest.raises(ConfigurationError, match=f"(?i){name}.*got '{value}'"):
        load()


@pytest.mark.parametrize("text", ["[tool.stepwell", "\udcff"])
def test_a_file_that_is_no_toml_is_named(
    project: Callable[..., Path], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigurationError, match=r"pyproject.toml is not valid TOML"):
        load()


def test_a_table_that_is_none_is_named(project: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\nstepwell = 3\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"pyproject.toml"):
        load()


def test_settings_do_not_change(project: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().lease = 5


def test_the_retry_policy_is_made_of_them(project: Callable[..., Path]) -> None:
    project("attempts = 2\nretry_base = 0.5\nretry_ceiling = 4")
    policy = load().retry_policy
    assert policy.attempts == 2
    assert policy.wait(9, 0.5).total_seconds() == 2
