"""Cron expressions that cronsim reads otherwise than crontab does, or refuses misleadingly."""

from datetime import UTC, datetime, timedelta

import pytest

from stepwell.errors import InvalidSchedule
from stepwell.recurring import cron
from stepwell.recurring.zones import zone


@pytest.mark.parametrize(
    ("fields", "plain"),
    [
        ("0 9-9/1 * * *", "0 9 * * *"),
        ("0 09-9/2 * * *", "0 9 * * *"),
        ("5-5/3,7 9 * * *", "5,7 9 * * *"),
        ("0 0 * * fri-fri/1", "0 0 * * fri"),
        ("0 0 * * FRI-fri/2", "0 0 * * fri"),
        ("0 0 3-3/1 jan-jan/1 *", "0 0 3 jan *"),
        ("0 9-10/1 * * *", "0 9-10 * * *"),
        ("0 9/6 * * *", "0 9,15,21 * * *"),
    ],
)
def test_a_range_of_one_value_with_a_step_is_that_value(fields: str, plain: str) -> None:
    stepped, wanted = (cron.parse(one, zone("UTC")) for one in (fields, plain))
    moment: datetime | None = datetime(2027, 1, 1, tzinfo=UTC)
    for _ in range(10):
        assert moment is not None
        assert stepped.after(moment) == wanted.after(moment)
        moment = stepped.after(moment)


def test_friday_to_friday_is_one_day_a_week() -> None:
    fridays = cron.parse("0 0 * * fri-fri/1", zone("UTC"))
    first = fridays.after(datetime(2027, 1, 1, 12, tzinfo=UTC))
    assert first is not None
    assert fridays.after(first) == first + timedelta(days=7)


@pytest.mark.parametrize(
    "fields", ["0 9 31-31 4 *", "0 9 30-31 2 *", "0 9 31 4-4/1 *", "0 9 31 4,6 *", "0 9 31/1 4 *"]
)
def test_a_day_that_no_such_month_has_never_comes(fields: str) -> None:
    with pytest.raises(InvalidSchedule, match="never comes"):
        cron.parse(fields, zone("UTC"))


@pytest.mark.parametrize("fields", ["0 9 32 * *", "0 9 32-32 4 *", "0 9-9/0 * * *"])
def test_a_value_out_of_range_is_still_named(fields: str) -> None:
    with pytest.raises(InvalidSchedule, match="has a bad"):
        cron.parse(fields, zone("UTC"))
