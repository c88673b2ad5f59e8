import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from stepwell.errors import ArgumentsError
from tests.application.tools.local_service import NOBODY, Service
from tools import http_json, weather
from tools.weather import get_weather

PARIS = {"name": "Paris", "country": "France", "latitude": 48.85341, "longitude": 2.3488}
NOW = {
    "time": "2026-11-30T09:45",
    "interval": 900,
    "temperature_2m": 6.4,
    "apparent_temperature": 3.1,
    "relative_humidity_2m": 87,
    "weather_code": 61,
    "wind_speed_10m": 14,
}


@pytest.fixture
def open_meteo(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A stand-in for both of the service's servers."""
    monkeypatch.setenv("STEPWELL_WEATHER_URL", service.url + "/")
    service.answers = {
        "/v1/search": (200, {"results": [PARIS], "generationtime_ms": 0.5}),
        "/v1/forecast": (200, {"current": NOW, "current_units": {}, "latitude": 48.86}),
    }
    return service


def test_the_weather_comes_from_the_service_and_says_so(open_meteo: Service) -> None:
    assert get_weather(city=" paris,  France ") == {
        "city": "Paris",
        "country": "France",
        "temperature": 6.4,
        "feels_like": 3.1,
        "unit": "celsius",
        "condition": "light rain",
        "humidity_percent": 87,
        "wind_kmh": 14,
        "observed_at": "2026-11-30T09:45+00:00",
        "source": "open-meteo.com",
        "note": "",
    }
    (search, asked, _), (forecast, wanted, _) = open_meteo.asked
    assert (search, asked["name"], asked["count"]) == ("/v1/search", "paris, France", "1")
    assert (forecast, wanted["latitude"], wanted["longitude"]) == (
        "/v1/forecast", "48.85341", "2.3488",
    )  # fmt: skip
    assert wanted["current"] == (
        "temperature_2m,apparent_temperature,relative_humidity_2m,weather_code,wind_speed_10m"
    )
    assert (wanted["temperature_unit"], wanted["timezone"]) == ("celsius", "GMT")


def test_the_service_is_asked_in_the_unit_wanted(open_meteo: Service) -> None:
    assert get_weather(city="Paris", unit="fahrenheit")["unit"] == "fahrenheit"
    assert open_meteo.asked[1][1]["temperature_unit"] == "fahrenheit"


def test_an_unknown_weather_code_is_shown_as_it_is(open_meteo: Service) -> None:
    open_meteo.answers["/v1/forecast"] = (200, {"current": {**NOW, "weather_code": 42}})
    assert get_weather(city="Paris")["condition"] == "weather code 42"


@pytest.mark.parametrize("answer", [{"generationtime_ms": 0.1}, {"results": []}])
def test_a_city_that_does_not_exist_is_an_error_not_a_sample(
    open_meteo: Service, answer: dict[str, Any]
) -> None:
    open_meteo.answers["/v1/search"] = (200, answer)
    with pytest.raises(ValueError, match="does not know 'Berlin'"):
        get_weather(city="Berlin")


def test_a_city_is_a_parameter_and_never_a_part_of_the_address(open_meteo: Service) -> None:
    name = "x/../../admin?a=b&count=9#c"
    get_weather(city=name)
    path, asked, _ = open_meteo.asked[0]
    assert (path, asked["name"], asked["count"]) == ("/v1/search", name, "1")


def test_without_a_service_there_is_a_sample_that_says_what_it_is() -> None:
    found = get_weather(city="PARIS, France")
    assert (found["city"], found["temperature"]) == ("Paris", 7.5)
    assert found["source"] == "offline sample"
    assert "could not be reached (ConnectError)" in found["note"]
    assert "not the current weather" in found["note"]


def test_the_sample_knows_both_units() -> None:
    assert get_weather(city="Sydney", unit="fahrenheit")["temperature"] == 75.7
    assert get_weather(city="Sydney")["temperature"] == 24.3


def test_a_city_that_is_not_in_the_sample_is_not_guessed() -> None:
    with pytest.raises(ValueError, match=r"could not be reached .*only Berlin, .*Do not guess"):
        get_weather(city="Oslo")


def test_every_city_of_the_sample_can_be_asked_for() -> None:
    for entry in json.loads(weather._SAMPLE.read_text("utf-8")):
        assert get_weather(city=entry["name"])["country"] == entry["country"]


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in NOW.items() if key != name}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, {}),
        (503, b"down"),
        (429, {"reason": "Minutely API request limit exceeded."}),
        (400, {"error": True, "reason": "Invalid"}),
        (200, b"<!DOCTYPE html><title>Log in</title>"),
        (200, b""),
        (200, b'{"current": {'),
        (200, b"\xff\xfe"),
        (200, b"[" * 100_000),
        (200, []),
        (200, {}),
        (200, {"current": None}),
        (200, {"current": {**NOW, "temperature_2m": None}}),
        (200, {"current": {**NOW, "temperature_2m": "warm"}}),
        (200, {"current": {**NOW, "relative_humidity_2m": 870}}),
        (200, {"current": {**NOW, "time": "noon"}}),
        (200, {"current": {**NOW, "temperature_2m": float("nan")}}),
        (200, {"current": without("weather_code")}),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.parametrize("path", ["/v1/search", "/v1/forecast"])
def test_an_answer_that_is_none_leads_to_the_sample(
    open_meteo: Service, path: str, status: int, body: Any
) -> None:
    if path == "/v1/search" and status == 200 and isinstance(body, dict):
        body = {"results": [{**PARIS, "latitude": 91}]}
    open_meteo.answers[path] = (status, body)
    assert get_weather(city="Paris")["source"] == "offline sample"


def test_an_answer_that_is_too_long_is_not_read_to_its_end(open_meteo: Service) -> None:
    answer = json.dumps({"current": NOW}).encode()
    open_meteo.answers["/v1/forecast"] = (200, answer.rjust(http_json.MAX_BYTES))
    assert get_weather(city="Paris")["source"] == "open-meteo.com"
    open_meteo.answers["/v1/forecast"] = (200, answer.rjust(http_json.MAX_BYTES + 1))
    assert "more than 1,000,000 bytes" in get_weather(city="Paris")["note"]


def test_a_redirect_is_not_followed(open_meteo: Service) -> None:
    open_meteo.headers = {"location": f"{open_meteo.url}/v1/elsewhere"}
    open_meteo.answers["/v1/search"] = (302, {})
    assert "a redirect" in get_weather(city="Paris")["note"]
    assert [path for path, _, _ in open_meteo.asked] == ["/v1/search"]


def test_what_unfolds_is_not_asked_for(open_meteo: Service) -> None:
    get_weather(city="Paris")
    assert {headers["accept-encoding"] for _, _, headers in open_meteo.asked} == {"identity"}


def test_a_connection_that_is_cut_leads_to_the_sample(open_meteo: Service) -> None:
    def cut(handler: Any) -> None:
        handler.connection.close()
        handler.close_connection = True

    open_meteo.answers["/v1/forecast"] = (200, cut)
    assert get_weather(city="Paris")["source"] == "offline sample"


def drip(handler: Any) -> None:
    """Never silent for long, and never at an end."""
    handler.send_response(200)
    handler.end_headers()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.02)


def drip_headers(handler: Any) -> None:
    handler.send_response(200)
    handler.flush_headers()
    for number in range(500):
        handler.wfile.write(b"X-%d: y\r\n" % number)
        time.sleep(0.02)


def silence(_handler: Any) -> None:
    time.sleep(1.5)


@pytest.mark.parametrize("answer", [drip, drip_headers, silence])
def test_a_slow_service_is_not_waited_for(
    open_meteo: Service, monkeypatch: pytest.MonkeyPatch, answer: Callable[..., Any]
) -> None:
    monkeypatch.setattr(http_json, "SECONDS", 0.4)
    open_meteo.answers["/v1/search"] = (200, answer)
    began = time.monotonic()
    assert get_weather(city="Paris")["source"] == "offline sample"
    assert time.monotonic() - began < 1.4


@pytest.mark.parametrize("url", ["nonsense", "file:///etc/passwd", "http://[::1", NOBODY])
def test_a_wrong_setting_leads_to_the_sample(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("STEPWELL_WEATHER_URL", url)
    assert get_weather(city="Paris")["source"] == "offline sample"


def test_both_requests_fit_into_the_tools_time() -> None:
    assert get_weather.timeout > 2 * (http_json.SECONDS + http_json.SECONDS / 2)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"city": "P"},
        {"city": "x" * 101},
        {"city": ["Paris"]},
        {"city": "Paris", "unit": "kelvin"},
        {"city": "Paris", "unit": "Celsius"},
        {"city": "Paris", "unit": None},
        {"city": "Paris", "url": "http://127.0.0.1"},
    ],
)
def test_arguments_are_strict(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsError):
        get_weather.parameters.validate(arguments)


def test_looking_at_the_weather_changes_nothing() -> None:
    assert get_weather.read_only
