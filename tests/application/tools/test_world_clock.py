import zoneinfo
from datetime import UTC, datetime, timedelta

import freezegun
import pytest

from tools.world_clock import get_current_time


@freezegun.freeze_time("2026-11-30 23:30:00")
@pytest.mark.parametrize(
    ("timezone", "time", "weekday"),
    [
        ("UTC", "2026-11-30T23:30:00+00:00", "Monday"),
        ("Europe/Berlin", "2026-12-01T00:30:00+01:00", "Tuesday"),
        ("America/New_York", "2026-11-30T18:30:00-05:00", "Monday"),
        ("Asia/Kathmandu", "2026-12-01T05:15:00+05:45", "Tuesday"),
    ],
)
def test_the_time_as_a_clock_there_shows_it(timezone: str, time: str, weekday: str) -> None:
    answer = get_current_time(timezone=timezone)
    assert answer == {"timezone": timezone, "time": time, "weekday": weekday}


def test_utc_is_the_default() -> None:
    answer = get_current_time()
    assert answer["timezone"] == "UTC"
    assert abs(datetime.fromisoformat(answer["time"]) - datetime.now(UTC)) < timedelta(minutes=1)


def test_every_iana_zone_is_known() -> None:
    for zone in zoneinfo.available_timezones() - {"localtime"}:
        assert get_current_time(timezone=zone)["timezone"] == zone


@pytest.mark.parametrize(
    ("timezone", "near"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Tokyo", "Asia/Tokyo"),
        ("new york", "America/New_York"),
        ("posix/Europe/Berlin", "Europe/Berlin"),
    ],
)
def test_an_unknown_zone_gets_the_nearest_names(timezone: str, near: str) -> None:
    with pytest.raises(ValueError, match=rf"does not exist.* Did you mean {near}"):
        get_current_time(timezone=timezone)


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "timezone",
    ["", "../../etc/passwd", "/etc/passwd", "a\x00b", "\ud800", "localtime", "C:\\x", "x" * 10**6],
    ids=lambda text: text[:20].encode("ascii", "backslashreplace").decode(),
)
def test_a_path_or_nonsense_is_refused_cleanly(timezone: str) -> None:
    with pytest.raises(ValueError, match="does not exist") as caught:
        get_current_time(timezone=timezone)
    assert len(str(caught.value)) < 300


def test_the_time_is_safe_to_ask_again() -> None:
    assert get_current_time.read_only
