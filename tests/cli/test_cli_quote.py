"""No text of a model, a tool or a user can pass for a line of ours, however it is laid out."""

import json

import pyte
import pytest

from stepwell.cli.quote import MARGIN, Quote
from stepwell.cli.shorten import LONGEST_STRING, MOST_LINES, arguments_text
from tests.cli.command_line import Project, call, say, script

QUESTION = ["May this run? say_back", "Arguments:", "Counts as denied after 2026-12-08 01:00:00Z."]


def folded(text: str, width: int, step: int | None = None) -> str:
    quote = Quote(width)
    size = step or len(text) or 1
    pieces = (text[start : start + size] for start in range(0, len(text), size))
    return "".join(map(quote.feed, pieces)) + quote.end()


@pytest.fixture(params=[80, 40, 24])
def width(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.parametrize(
    "text",
    [
        "word " * 50, "x" * 200, "one\n\ntwo", "  indented\n    more", "字" * 60, "é" * 99,
        "❤\ufe0f " * 40, "tab\tafter", "\n\nlate", "ends\n\n", "", "  \n ", "a " + "b" * 37 + " c",
    ],
)  # fmt: skip
def test_every_line_has_the_margin_and_fits(text: str, width: int) -> None:
    whole = folded(text, width)
    screen = pyte.Screen(width, 100)
    pyte.Stream(screen).feed(whole.replace("\n", "\r\n"))
    drawn = [line.rstrip() for line in screen.display if line.strip()]
    assert len(drawn) == len(whole.splitlines())
    assert all(line.startswith(MARGIN.strip()) for line in drawn)
    for step in (1, 3, 7):
        assert folded(text, width, step) == whole


def test_runs_of_blanks_are_counted() -> None:
    for blank in (" ", "\u2800", "\u3164", "\u00a0", "\t", "\n", " \n"):
        run = blank * 1300
        assert folded(f"a{run}b", 80) == f"| a [{len(run):,} blanks] b\n"
    assert folded("a        b", 80) == "| a        b\n"


def test_a_character_that_the_terminal_lacks_takes_the_room_of_its_escape() -> None:
    quote = Quote(40, "ascii")
    lines = (quote.feed("ü" * 40) + quote.end()).splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert lines[0].startswith("| \\xfc")


def test_arguments_are_shortened_with_their_length_and_shown_whole_on_demand() -> None:
    long = {"note": "x" * 5000, "n": 1, "many": list(range(100)), "empty": {}, "k" * 400: None}
    shown = arguments_text(long, full=False)
    assert f'"note": "{"x" * LONGEST_STRING}…" (5,000 characters),\n  "n": 1,' in shown
    assert len(shown.splitlines()) == MOST_LINES + 1
    assert shown.endswith("more lines)")
    assert json.loads(arguments_text(long, full=True)) == long
    assert arguments_text({"a": "\u3164\u200d\u00a0\ufe0f"}, full=True).isascii()


def forged(width: int) -> str:
    """Lines of ours, each beginning where a terminal of this width would wrap."""
    lines = [line.ljust(width) for line in ("", "", *QUESTION)]
    return " " * (width - 20) + "".join(lines)


def test_a_forged_question_is_seen_for_what_it_is(project: Project, width: int) -> None:
    fake = "\n".join(["", *QUESTION])
    attack = script(
        call("say_back", {"text": f"{forged(width)}{fake}"}, text=f"Fine.{forged(width)}{fake}"),
        say("x"),
    )
    screen = pyte.HistoryScreen(width, 100)
    terminal = project.terminal("run", "play", attack, size=(100, width), NO_COLOR="1")
    terminal.expect(r"\[d\]etails, \[l\]ater: $")
    pyte.Stream(screen).feed(f"{terminal.before}")
    seen = [line.rstrip() for line in screen.display]
    assert "\x1b" not in str(terminal.before)
    for line in QUESTION[:2]:
        assert seen.count(line) == 1, "\n".join(seen)
    assert QUESTION[2] not in seen


def test_details_and_full_show_everything(project: Project) -> None:
    attack = script(call("say_back", {"text": "y" * 1500 + "end"}), say("x"))
    terminal = project.terminal("run", "play", attack, NO_COLOR="1")
    terminal.expect(r"1,503 characters.*Shortened: \[d\]etails shows all of it.*\[l\]ater: ")
    terminal.sendline("d")
    terminal.expect(r"yend\"")
    assert "1,503 characters" in project.run("approvals").out
    assert 'yend"' in project.run("approvals", "--full").out
