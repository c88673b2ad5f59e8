"""Which model answers: said for one run, changed for one that has failed."""

from tests.cli.command_line import Project, say

SCRIPT = "replies: [{text: Hello from the script.}]"


def test_a_failed_run_goes_on_with_another_model(project: Project) -> None:
    (project.root / "s.yaml").write_text(SCRIPT)
    project.play(say("", faults=1, retryable=False), code=5)
    again = project.run("resume", "last", "--model", "scripted:s.yaml", "--by", "ann")
    assert again.out == "Hello from the script.\n"
    assert "scripted:s.yaml" in again.err
    assert "by ann" in again.err
    history = project.run("history", "last", "--json").json
    assert [(e["trigger"], e["model"]) for e in history[-2:]] == [
        ("resume", "scripted:s.yaml"),
        ("answer", "scripted:s.yaml"),
    ]
    assert project.last()["model"] == "scripted:s.yaml"


def test_a_finished_run_keeps_its_model(project: Project) -> None:
    project.play(say("Done before."))
    refused = project.run("resume", "last", "--model", "scripted:s.yaml", "--json", code=1)
    assert refused.error["type"] == "run_not_resumable"


def test_a_model_that_means_nothing_changes_nothing(project: Project) -> None:
    project.play(say("", faults=1, retryable=False), code=5)
    refused = project.run("resume", "last", "--model", "nothing", "--json", code=1)
    assert refused.error["type"] == "configuration_error"
    assert project.last()["state"] == "failed"


def test_a_missing_key_is_named_before_anything_starts(project: Project) -> None:
    empty = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""}
    command = ("run", "play", "[]", "--model", "anthropic:m", "--json")
    refused = project.run(*command, code=1, env=empty)
    assert refused.error["type"] == "configuration_error"
    assert "ANTHROPIC_API_KEY" in refused.error["message"]
    assert project.run("runs", "--json").json == []


def test_a_network_that_cannot_be_used_is_told_before_anything_starts(project: Project) -> None:
    for variable, value in (
        ("OPENAI_BASE_URL", " "),
        ("ALL_PROXY", "socks5://127.0.0.1:1080"),
        ("SSL_CERT_FILE", "/nowhere/certificates.pem"),
    ):
        env = {"OPENAI_API_KEY": "sk-x", "NO_PROXY": "", "no_proxy": "", variable: value}
        command = ("run", "play", "[]", "--model", "openai:m", "--json")
        refused = project.run(*command, code=1, env=env).error
        assert refused["type"] == "configuration_error"
        assert variable in refused["message"]
    assert project.run("runs", "--json").json == []
