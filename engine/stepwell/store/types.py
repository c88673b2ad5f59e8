"""Column types: how values are stored, so that the database stays small and exact."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, Dialect, Text
from sqlalchemy.types import TypeDecorator

from stepwell.clock import EPOCH, MILLISECOND
from stepwell.plain_json import dumps

_PICODOLLARS = 10**12


def milliseconds(moment: datetime) -> int:
    """An aware datetime as milliseconds since 1970, UTC."""
    return (moment - EPOCH) // MILLISECOND


class Milliseconds(TypeDecorator[datetime]):
    """An aware datetime as milliseconds since 1970, UTC."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else milliseconds(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else EPOCH + value * MILLISECOND


class Json(TypeDecorator[Any]):
    """A JSON value as compact text; None is NULL."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


class Picodollars(TypeDecorator[Decimal]):
    """USD as whole picodollars: exact, and SQL can add them up."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> int | None:
        return None if value is None else int(value * _PICODOLLARS)

    def process_result_value(self, value: int | None, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value) / _PICODOLLARS
