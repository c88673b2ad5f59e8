"""The weather now: from a weather service, or a stored sample if the service cannot be reached."""

import json
from pathlib import Path
from typing import Annotated, Any, TypedDict

from pydantic import Field

from stepwell import tool
from tools import open_meteo
from tools.http_json import Refused, Unreachable
from tools.open_meteo import Observation, Place, Unit

SAMPLE = "offline sample"

_SAMPLE = Path(__file__).resolve().parents[1] / "data" / "weather.json"

# The codes of the World Meteorological Organization that the service uses.
_CONDITIONS = {
    0: "clear sky", 1: "mainly clear", 2: "partly cloudy", 3: "overcast",
    45: "fog", 48: "fog with rime",
    51: "light drizzle", 53: "drizzle", 55: "dense drizzle",
    56: "light freezing drizzle", 57: "freezing drizzle",
    61: "light rain", 63: "rain", 65: "heavy rain",
    66: "light freezing rain", 67: "freezing rain",
    71: "light snow", 73: "snow", 75: "heavy snow", 77: "snow grains",
    80: "light showers", 81: "showers", 82: "violent showers",
    85: "light snow showers", 86: "heavy snow showers",
    95: "thunderstorm", 96: "thunderstorm with light hail", 99: "thunderstorm with heavy hail",
}  # fmt: skip


class Weather(TypedDict):
    """The weather of one place, and its source."""

    city: str
    country: str
    temperature: float
    feels_like: float
    unit: Unit
    condition: str
    humidity_percent: int
    wind_kmh: float
    observed_at: str
    source: str
    note: str


@tool(read_only=True)
def get_weather(
    city: Annotated[str, Field(min_length=2, max_length=100)], unit: Unit = "celsius"
) -> Weather:
    """Get the current weather in a city. `source` says whether it is measured or an old sample.

    Args:
        city: The city's name, such as Lisbon; with its country if there are several: Paris, France.
        unit: Of the temperatures.
    """
    name = " ".join(city.encode("utf-8", "replace").decode().split())
    try:
        place = open_meteo.find_place(name)
        if place is None:
            raise ValueError(f"The weather service does not know {name!r}. Check the spelling.")
        seen = open_meteo.current_weather(place, unit)
        return _weather(place, seen, unit, open_meteo.NAME, note="")
    except (Unreachable, Refused) as error:
        return _from_sample(name, unit, str(error))


def _from_sample(city: str, unit: Unit, reason: str) -> Weather:
    known = {entry["name"].casefold(): entry for entry in json.loads(_SAMPLE.read_text("utf-8"))}
    entry = known.get(city.partition(",")[0].strip().casefold())
    failed = f"The weather service could not be reached ({reason})"
    if entry is None:
        names = ", ".join(entry["name"] for entry in known.values())
        raise ValueError(f"{failed}, and the offline sample has only {names}. Do not guess.")
    note = f"{failed}: these are stored example values, not the current weather."
    seen = _in_unit(entry["observation"], unit)
    return _weather(Place.model_validate(entry), seen, unit, SAMPLE, note)


def _in_unit(stored: dict[str, Any], unit: Unit) -> Observation:
    seen = Observation.model_validate(stored)
    if unit == "celsius":
        return seen
    names = ("temperature_2m", "apparent_temperature")
    converted = {name: round(getattr(seen, name) * 9 / 5 + 32, 1) for name in names}
    return seen.model_copy(update=converted)


def _weather(place: Place, seen: Observation, unit: Unit, source: str, note: str) -> Weather:
    return {
        "city": place.name,
        "country": place.country,
        "temperature": seen.temperature_2m,
        "feels_like": seen.apparent_temperature,
        "unit": unit,
        "condition": _CONDITIONS.get(seen.weather_code, f"weather code {seen.weather_code}"),
        "humidity_percent": seen.relative_humidity_2m,
        "wind_kmh": seen.wind_speed_10m,
        "observed_at": seen.time.isoformat(timespec="minutes"),
        "source": source,
        "note": note,
    }
