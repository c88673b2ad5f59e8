"""When a schedule is due: against croniter, against the calendar, and where clocks are changed."""

import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.errors import InvalidSchedule
from stepwell.recurring import cron, recurrence, zones
from stepwell.recurring.recurrence import Recurrence

ZONES = {
    name.rpartition("/")[2]: ZoneInfo(name)
    for name in (
        "UTC",
        "America/New_York",
        "Europe/Berlin",
        "Europe/London",
        "Australia/Sydney",
        "Australia/Lord_Howe",
    )
}
NEW_YORK, LORD_HOWE = ZONES["New_York"], ZONES["Lord_Howe"]
YEAR = datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)


def due(what: Recurrence, after: datetime) -> Iterator[datetime]:
    while (found := what.after(after)) is not None:
        yield found
        after = found


def between(text: str, tz: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    found = []
    for moment in due(cron.parse(text, tz), begin):
        if moment >= end:
            break
        found.append(moment)
    return found


def shown(text: str, tz: ZoneInfo, begin: str, count: int) -> list[str]:
    """Local times with their offset, from a local time on."""
    start = datetime.fromisoformat(begin).replace(tzinfo=tz) - timedelta(seconds=1)
    found = islice(due(cron.parse(text, tz), start.astimezone(UTC)), count)
    return [f"{moment.astimezone(tz):%d %H:%M %z}" for moment in found]


@cache
def changes_of_clocks(tz: ZoneInfo) -> list[datetime]:
    """The hours of a year in which the clocks are changed, found without our own code."""
    hours = [YEAR[0] + timedelta(hours=n) for n in range(366 * 24)]
    return [
        a
        for a, b in pairwise(hours)
        if a.astimezone(tz).utcoffset() != b.astimezone(tz).utcoffset()
    ]


# --- croniter, an independent implementation


def random_field(chance: random.Random, low: int, high: int) -> str:
    def one() -> str:
        return str(chance.randint(low, high))

    def span() -> str:
        first, last = sorted(chance.sample(range(low, high + 1), 2))
        return f"{first}-{last}"

    kind = chance.random()
    if kind < 0.35:
        return "*"
    if kind < 0.55:
        return one()
    if kind < 0.7:
        return f"*/{chance.randint(1, (high - low) // 2)}"
    if kind < 0.8:
        return span()
    if kind < 0.9:
        return f"{span()}/{chance.randint(1, 4)}"
    return ",".join(chance.choice((one, span))() for _ in range(3))


def random_expression(chance: random.Random) -> str:
    ranges = ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6))
    return " ".join(random_field(chance, low, high) for low, high in ranges)


def agrees_with_croniter(text: str, tz: ZoneInfo, start: datetime) -> None:
    # It reads "*/2 * 1" as a union of days too, where crontab and we want both to match.
    days, weekdays = text.split()[2], text.split()[4]
    both = not (days.startswith("*") or weekdays.startswith("*"))
    other = croniter(text, start, day_or=both)
    wanted = [other.get_next(datetime) for _ in range(4)]
    found = list(islice(due(cron.parse(text, tz), start.astimezone(UTC)), 4))
    assert found == wanted, text


def test_as_croniter_says_in_utc() -> None:
    chance = random.Random(17)  # noqa: S311
    for _ in range(3000):
        start = datetime(2027, 1, 1, tzinfo=UTC) + timedelta(minutes=chance.randint(0, 10**6))
        agrees_with_croniter(random_expression(chance), ZONES["UTC"], start)


@pytest.mark.parametrize("name", [name for name in ZONES if name != "UTC"])
def test_as_croniter_says_away_from_changes_of_clocks(name: str) -> None:
    tz, compared = ZONES[name], 0
    chance = random.Random(name)  # noqa: S311
    while compared < 400:
        text = random_expression(chance)
        start = YEAR[0] + timedelta(minutes=chance.randint(0, 500_000))
        last = list(islice(due(cron.parse(text, tz), start), 4))[-1]
        times = [start, last]
        if last - start > timedelta(days=60) or any(
            min(times) - timedelta(days=2) < change < max(times) + timedelta(days=2)
            for change in changes_of_clocks(tz)
        ):
            continue
        agrees_with_croniter(text, tz, start.astimezone(tz))
        compared += 1


# --- what crontab means


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 9 * * 0", "Sun Sun"),
        ("0 9 * * 7", "Sun Sun"),
        ("0 9 * * sun", "Sun Sun"),
        ("0 9 * * 0,7", "Sun Sun"),
        ("0 9 * * 1-5", "Mon Tue Wed Thu Fri Mon"),
        ("0 9 * * mon-fri", "Mon Tue Wed Thu Fri Mon"),
        ("0 9 * * */2", "Tue Thu Sat Sun Tue"),
        ("0 9 * * 5-7", "Fri Sat Sun Fri"),
    ],
)
def test_weekdays_are_those_of_crontab(text: str, days: str) -> None:
    """D01."""
    monday = datetime(2027, 1, 4, 0, 0, tzinfo=UTC)
    wanted = days.split()
    found = islice(due(cron.parse(text, ZONES["UTC"]), monday), len(wanted))
    assert [f"{moment:%a}" for moment in found] == wanted


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 13 * 5", "01-01 01-08 01-13 01-15"),  # either
        ("0 0 */2 * 1", "01-11 01-25 02-01"),  # both, for one begins with a star
        ("0 0 31 * *", "01-31 03-31 05-31"),
        ("0 0 L * *", "01-31 02-28 03-31"),
        ("0 0 * * 1#2", "01-11 02-08 03-08"),
        ("0 0 * * 5L", "01-29 02-26"),
        ("0 0 1 jan,jul *", "01-01 07-01 01-01"),
    ],
)
def test_days_are_those_of_crontab(text: str, days: str) -> None:
    start = datetime(2026, 12, 31, 12, tzinfo=UTC)
    found = islice(due(cron.parse(text, ZONES["UTC"]), start), len(days.split()))
    assert " ".join(f"{moment:%m-%d}" for moment in found) == days


def test_the_29th_of_february_comes_in_leap_years() -> None:
    """D11."""
    start = datetime(2027, 1, 1, tzinfo=UTC)
    found = islice(due(cron.parse("0 0 29 2 *", ZONES["UTC"]), start), 2)
    assert [moment.date().isoformat() for moment in found] == ["2028-02-29", "2032-02-29"]


@pytest.mark.parametrize("nickname", cron.NICKNAMES)
def test_nicknames(nickname: str) -> None:
    start = datetime(2027, 5, 5, 5, 5, tzinfo=UTC)
    found = cron.parse(nickname, ZONES["UTC"]).after(start)
    assert found == croniter(nickname, start).get_next(datetime)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 0 31 2 *", "never comes"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 4 *", "never comes"),
        ("0 0 30,31 2 *", "never comes"),
        ("0 0 31 4,6,9,11 *", "never comes"),
        ("61 * * * *", "bad minute: '61'"),
        ("* 24 * * *", "bad hour: '24'"),
        ("* * 0 * *", "bad day-of-month: '0'"),
        ("* * 32 * *", "bad day-of-month: '32'"),
        ("* * * foo *", "bad month: 'foo'"),
        ("0 9 * * 5-1", "bad day-of-week: '5-1'.*go upwards"),
        ("0 9 * * 8", "bad day-of-week: '8'.*0 and 7 for Sunday"),
        ("*/0 * * * *", "bad minute: '\\*/0'"),
        ("* * * *", "has 4 fields instead of 5"),
        ("0 * * * * *", "has 6 fields instead of 5"),
        ("", "has 0 fields instead of 5"),
        ("@reboot", "There are @yearly"),
        ("0 0 ? * *", "bad day-of-month"),
    ],
)
def test_what_is_no_expression_is_refused_at_once_and_says_what_would_be(
    text: str, says: str
) -> None:
    """D11."""
    begun = time.perf_counter()
    with pytest.raises(InvalidSchedule, match=says) as refused:
        cron.parse(text, ZONES["UTC"])
    assert time.perf_counter() - begun < 1
    assert refused.value.hint


@settings(max_examples=500)
@given(st.text("0123456789*/-,LW#?@ monfjaul", max_size=24))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        found = cron.parse(text, ZONES["Berlin"])
    except InvalidSchedule:
        return
    assert found.after(YEAR[0]) is not None
    assert found.explain()


# --- where clocks are changed


@pytest.mark.parametrize("tz", ZONES.values(), ids=list(ZONES))
@pytest.mark.parametrize(
    "text", ["30 1 * * *", "30 2 * * *", "15 2 * * *", "45 1 * * *", "0 0 * * *"]
)
def test_a_daily_time_comes_once_each_day_of_the_year(text: str, tz: ZoneInfo) -> None:
    begin, end = (moment.replace(tzinfo=tz).astimezone(UTC) for moment in YEAR)
    found = between(text, tz, begin - timedelta(seconds=1), end)
    assert [moment.astimezone(tz).timetuple().tm_yday for moment in found] == list(range(1, 366))
    minute, hour = map(int, text.split()[:2])
    moved = [
        one for one in found if one.astimezone(tz).strftime("%H:%M") != f"{hour:02}:{minute:02}"
    ]
    assert len(moved) <= 1
    for one in moved:  # to the end of the gap: a moment before, the clocks were elsewhere
        before = one - timedelta(seconds=1)
        assert before.astimezone(tz).utcoffset() != one.astimezone(tz).utcoffset()


@pytest.mark.parametrize("tz", ZONES.values(), ids=list(ZONES))
@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("* * * * *", range(60)),
        ("*/30 * * * *", range(0, 60, 30)),
        ("*/20 * * * *", range(0, 60, 20)),
        ("0 * * * *", [0]),
        ("45 * * * *", [45]),
    ],
)
def test_what_comes_every_hour_comes_whenever_the_clocks_show_it(
    text: str, minutes: Sequence[int], tz: ZoneInfo
) -> None:
    for change in changes_of_clocks(tz):
        begin, end = change - timedelta(hours=5), change + timedelta(hours=5)
        each_minute = (begin + timedelta(minutes=n) for n in range(1, 600))
        wanted = [one for one in each_minute if one.astimezone(tz).minute in minutes]
        assert between(text, tz, begin, end) == wanted


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_next_due_time_is_later_and_there_is_none_between(data: st.DataObject) -> None:
    tz = data.draw(st.sampled_from(list(ZONES.values())[1:]))
    chance = random.Random(data.draw(st.integers()))  # noqa: S311
    what = cron.parse(random_expression(chance), tz)
    change = data.draw(st.sampled_from(changes_of_clocks(tz)))
    after = change + timedelta(minutes=data.draw(st.integers(-300, 300)))
    found = what.after(after)
    assert found is not None
    assert found > after
    between_them = after + (found - after) * data.draw(st.floats(0, 0.999))
    assert what.after(between_them) == found


def test_new_york_in_spring() -> None:
    """D04."""
    assert shown("30 2 * * *", NEW_YORK, "2027-03-13T12:00", 2) == [
        "14 03:00 -0400",
        "15 02:30 -0400",
    ]
    assert shown("*/30 * * * *", NEW_YORK, "2027-03-14T01:10", 3) == [
        "14 01:30 -0500", "14 03:00 -0400", "14 03:30 -0400",
    ]  # fmt: skip
    assert shown("*/30 2 * * *", NEW_YORK, "2027-03-14T00:00", 3) == [
        "14 03:00 -0400", "15 02:00 -0400", "15 02:30 -0400",
    ]  # fmt: skip


def test_new_york_in_autumn() -> None:
    """D03."""
    assert shown("30 1 * * *", NEW_YORK, "2027-11-07T00:00", 2) == [
        "07 01:30 -0400",
        "08 01:30 -0500",
    ]
    assert shown("0 * * * *", NEW_YORK, "2027-11-07T01:00", 3) == [
        "07 01:00 -0400", "07 01:00 -0500", "07 02:00 -0500",
    ]  # fmt: skip


def test_asked_within_the_repeated_hour_the_daily_time_is_over() -> None:
    again = datetime(2027, 11, 7, 1, 10, tzinfo=NEW_YORK, fold=1).astimezone(UTC)
    found = cron.parse("30 1 * * *", NEW_YORK).after(again)
    assert found == datetime(2027, 11, 8, 6, 30, tzinfo=UTC)


def test_lord_howe_changes_by_half_an_hour() -> None:
    """D03."""
    assert shown("45 1 * * *", LORD_HOWE, "2027-04-04T00:00", 2) == [
        "04 01:45 +1100",
        "05 01:45 +1030",
    ]
    assert shown("45 * * * *", LORD_HOWE, "2027-04-04T01:40", 3) == [
        "04 01:45 +1100", "04 01:45 +1030", "04 02:45 +1030",
    ]  # fmt: skip
    assert shown("15 2 * * *", LORD_HOWE, "2027-10-02T12:00", 2) == [
        "03 02:30 +1100",
        "04 02:15 +1100",
    ]


# --- intervals and single moments


def test_an_interval_does_not_drift() -> None:
    anchor = datetime(2027, 3, 13, 14, tzinfo=UTC)  # 09:00 in New York
    every = recurrence.Every(recurrence.duration("15m"), anchor)
    assert every.after(anchor + timedelta(minutes=44, seconds=59)) == anchor + timedelta(minutes=45)
    assert every.after(anchor + timedelta(minutes=45)) == anchor + timedelta(hours=1)
    assert every.after(anchor - timedelta(days=9)) == anchor + timedelta(minutes=15)
    daily = recurrence.Every(recurrence.duration("24h"), anchor)
    assert f"{daily.after(anchor).astimezone(NEW_YORK):%H:%M}" == "10:00"  # real hours


def test_an_interval_of_seconds_goes_on_where_clocks_are_changed() -> None:
    """D04."""
    anchor = datetime(2027, 3, 14, 6, 59, tzinfo=UTC)
    found = list(islice(due(recurrence.Every(timedelta(seconds=10), anchor), anchor), 360))
    assert {b - a for a, b in pairwise(found)} == {timedelta(seconds=10)}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("90s", 90), ("1h30m", 5400), ("2d", 172_800), ("1w", 604_800), (" 1s ", 1)],
)
def test_time_spans(text: str, seconds: int) -> None:
    assert recurrence.duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "15", "m", "0s", "-5m", "1.5h", "30m1h", "15 m", "11y", "99999w"]
)
def test_what_is_no_time_span_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match='such as "90s"'):
        recurrence.duration(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2027-01-01T09:00", "2027-01-01T14:00Z"),
        ("2027-07-01 09:00", "2027-07-01T13:00Z"),
        ("2027-01-01T09:00Z", "2027-01-01T09:00Z"),
        ("2027-11-07T01:30-04:00", "2027-11-07T05:30Z"),
    ],
)
def test_single_moments(text: str, moment: str) -> None:
    once = recurrence.once(text, NEW_YORK)
    wanted = datetime.fromisoformat(moment)
    assert list(due(once, YEAR[0] - timedelta(days=1))) == [wanted]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tomorrow", 'Write "2027-01-01T09:00"'),
        ("2027-01-01", "is not a date and time"),
        ("09:00", "is not a date and time"),
        ("2027-02-30T09:00", "is not a date and time"),
        ("9999-12-31T23:59", "is not a date and time"),
        ("2027-11-07T01:30", '"2027-11-07T01:30-04:00" or "2027-11-07T01:30-05:00"'),
        ("2027-03-14T02:30", 'The first time after it is "2027-03-14T03:00"'),
    ],
)
def test_moments_that_are_none_or_two_are_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says):
        recurrence.once(text, NEW_YORK)


@pytest.mark.parametrize(
    ("name", "example"),
    [("Europe/Berln", "Europe/Berlin"), ("europe/berlin", "Europe/Berlin"), ("+02:00", "IANA"),
     ("", "IANA"), ("../secret", "IANA"), ("Europe", "IANA"), ("\0", "IANA")],
)  # fmt: skip
def test_a_zone_that_does_not_exist_is_refused_with_one_that_does(name: str, example: str) -> None:
    with pytest.raises(InvalidSchedule, match=example):
        zones.zone(name)
