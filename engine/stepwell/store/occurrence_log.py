"""Reads the recorded due times of schedules for people and programs, newest first."""

from datetime import datetime

from sqlalchemy import Connection, func, select

from stepwell.store.tables import occurrence, run, schedule
from stepwell.views.schedules import OccurrenceView

_LOG = (
    select(
        schedule.c.name.label("schedule"),
        occurrence.c.due,
        occurrence.c.until,
        occurrence.c.status,
        occurrence.c.reason,
        run.c.id.label("run"),
        run.c.state,
        occurrence.c.at,
        occurrence.c.by,
    )
    .join(schedule, schedule.c.number == occurrence.c.schedule)
    .outerjoin(run, run.c.number == occurrence.c.run)
)


def latest(connection: Connection, number: int, limit: int) -> list[OccurrenceView]:
    """The last recorded due times of one schedule, newest first."""
    query = _LOG.where(occurrence.c.schedule == number).order_by(occurrence.c.due.desc())
    found = connection.execute(query.limit(limit)).mappings()
    return [OccurrenceView(**one) for one in found]


def one(connection: Connection, name: str, due: datetime) -> OccurrenceView:
    """One recorded due time."""
    query = _LOG.where(schedule.c.name == name, occurrence.c.due == due)
    return OccurrenceView(**connection.execute(query).mappings().one())


def last_of_each(connection: Connection) -> dict[str, OccurrenceView]:
    """The last one of every schedule, by its name."""
    inner = occurrence.alias()
    newest = select(func.max(inner.c.due)).where(inner.c.schedule == schedule.c.number)
    query = _LOG.where(occurrence.c.due == newest.correlate(schedule).scalar_subquery())
    found = (OccurrenceView(**one) for one in connection.execute(query).mappings())
    return {one.schedule: one for one in found}
