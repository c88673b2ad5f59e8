"""Input templates: what is refused when a schedule is added, and the limits of a rendering."""

from datetime import UTC, datetime

import pytest

from stepwell.errors import InvalidSchedule
from stepwell.recurring.schedule import Schedule
from stepwell.recurring.template import LONGEST, Previous, render

DUE = datetime(2027, 1, 2, 6, tzinfo=UTC)
LOOP = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{% raw %}", "empty for the first run"),
        ("{% raw %}{% endraw %}", "empty for the first run"),
        ("{{ previous.answer }}", "empty for the first run"),
        ("{{ '' if previous.due else 'x' }}", "empty for later runs"),
        ("{{ previos }}", "'previos' is undefined"),
        ("{% if x", "cannot be rendered"),
        (f"x{LOOP}", "takes too long"),
        ("{% for a in range(99999) %}{{ due }}{% endfor %}", "more than 1,000,000 characters"),
        ("{{ 'x' * 10**9 }}", "too much"),
        ("{{ 9 ** 9 ** 9 }}", "too much"),
        ("{{ '%999999999d' % 1 }}", "too much"),
        ("{{ 'x'.center(999999999) }}", "cannot be rendered"),
        ("{{ '{:999999999}'.format(1) }}", "cannot be rendered"),
        ("{{ 'x'|center(999999999) }}", "cannot be rendered"),
        ("{{ lipsum(99999999) }}", "cannot be rendered"),
    ],
)
def test_a_template_is_refused_when_its_schedule_is_added(text: str, said: str) -> None:
    with pytest.raises(InvalidSchedule, match=said):
        Schedule("s", "w", text, every="1h")


def test_a_template_of_usual_means_is_rendered() -> None:
    text = (
        "{% for line in (previous.answer or 'a\nb').splitlines() %}{{ loop.index * 2 }} {{ line }}"
        "{% endfor %} {{ due.year % 100 }} {{ due }}"
    )
    assert render(text, DUE, Previous()) == "2 a4 b 27 2027-01-02T06:00:00+00:00"


def test_a_long_answer_is_no_reason_to_refuse() -> None:
    answer = "x" * (LONGEST - 10)
    assert render("{{ previous.answer }}", DUE, Previous(DUE, answer)) == answer
