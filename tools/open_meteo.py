"""Open-Meteo, a weather service that needs no key: the location and the weather of a place.

https://open-meteo.com/en/docs and https://open-meteo.com/en/docs/geocoding-api. Free for
non-commercial use; its data are licensed under CC BY 4.0, so name the source when showing them.
"""

import os
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tools.http_json import Unreachable, get_json

NAME = "open-meteo.com"

_GEOCODING = "https://geocoding-api.open-meteo.com"
_FORECAST = "https://api.open-meteo.com"

Unit = Literal["celsius", "fahrenheit"]
Answer = TypeVar("Answer", bound=BaseModel)


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class _Part(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


class Place(_Part):
    """A place as the service names it."""

    name: str = Field(min_length=1, max_length=200)
    country: str = Field(default="", max_length=200)
    latitude: float = Field(ge=-90, le=90)
    longitude: float = Field(ge=-180, le=180)


class Places(_Part):
    """The places that a name may mean; the field is absent if there are none."""

    results: list[Place] = []


class Observation(_Part):
    """The weather at one moment, in the requested unit."""

    time: Annotated[datetime, AfterValidator(_in_utc)]
    temperature_2m: float
    apparent_temperature: float
    relative_humidity_2m: int = Field(ge=0, le=100)
    weather_code: int
    wind_speed_10m: float = Field(ge=0)


class Forecast(_Part):
    """The used part of a forecast."""

    current: Observation


def find_place(city: str) -> Place | None:
    """The place that a name most probably means; None if no place matches.

    Raises:
        Unreachable, Refused: the service gave no usable answer.
    """
    parameters = {"name": city, "count": "1", "language": "en", "format": "json"}
    found = _ask(_GEOCODING, "/v1/search", parameters, Places)
    return found.results[0] if found.results else None


def current_weather(place: Place, unit: Unit) -> Observation:
    """The current weather there.

    Raises:
        Unreachable, Refused: the service gave no usable answer.
    """
    parameters = {
        "latitude": str(place.latitude),
        "longitude": str(place.longitude),
        "current": ",".join(name for name in Observation.model_fields if name != "time"),
        "temperature_unit": unit,
        "timezone": "GMT",
    }
    return _ask(_FORECAST, "/v1/forecast", parameters, Forecast).current


def _ask(server: str, path: str, parameters: dict[str, str], form: type[Answer]) -> Answer:
    base = os.environ.get("STEPWELL_WEATHER_URL") or server  # a server of one's own has both
    answer: Any = get_json(base.rstrip("/") + path, parameters)
    try:
        return form.model_validate(answer)
    except ValidationError as error:
        raise Unreachable("the answer has an unexpected form") from error
