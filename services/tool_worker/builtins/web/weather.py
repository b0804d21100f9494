"""The tool that tells the weather, by Open-Meteo's protocol: a place is found by its name, then its forecast is got."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from pydantic import Field

from pentad.contracts.tools import Effect
from pentad.services.tool_worker.builtins.web.service_answers import ServiceAnswer, read_answer
from pentad.shared.clipping import plain
from pentad.shared.outbound.address_guard import OutboundError
from pentad.shared.outbound.outside_client import TIMEOUT_S, OutsideClient
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define

MAX_DAYS = 16
_SERVICE = "the weather service"
_MAX_NAME_CHARS = 100
_CURRENT = "temperature_2m,apparent_temperature,relative_humidity_2m,precipitation,weather_code,wind_speed_10m"
_DAILY = (
    "weather_code,temperature_2m_min,temperature_2m_max,precipitation_sum,precipitation_probability_max,"
    "wind_speed_10m_max"
)
_SKIES = {
    0: "clear", 1: "mostly clear", 2: "partly cloudy", 3: "overcast", 45: "fog", 48: "freezing fog",
    51: "light drizzle", 53: "drizzle", 55: "heavy drizzle", 56: "light freezing drizzle", 57: "freezing drizzle",
    61: "light rain", 63: "rain",
    65: "heavy rain", 66: "light freezing rain", 67: "freezing rain", 71: "light snow", 73: "snow", 75: "heavy snow",
    77: "snow grains", 80: "light showers", 81: "showers", 82: "violent showers", 85: "light snow showers",
    86: "snow showers", 95: "thunderstorm", 96: "thunderstorm with hail", 99: "thunderstorm with heavy hail",
}  # fmt: skip
"""Codes of the World Meteorological Organization that Open-Meteo gives, in words."""
_Values = Annotated[tuple[float | None, ...], Field(max_length=MAX_DAYS)]


@dataclass(frozen=True, slots=True)
class WeatherAddresses:
    """Addresses of the two parts of Open-Meteo: its search for places and its forecasts have hosts of their own."""

    places: str
    forecasts: str

    @classmethod
    def at(cls, base: str | None) -> "WeatherAddresses":
        """Return the addresses at one base, which serves both, or the public ones."""
        if base is None:
            return cls("https://geocoding-api.open-meteo.com", "https://api.open-meteo.com")
        return cls(base.rstrip("/"), base.rstrip("/"))


class FoundPlace(ServiceAnswer):
    """A place of the search for places."""

    name: str
    latitude: Annotated[float, Field(ge=-90, le=90)]
    longitude: Annotated[float, Field(ge=-180, le=180)]
    admin1: str | None = None
    country: str | None = None

    def shown(self) -> str:
        parts = (plain(part, _MAX_NAME_CHARS) for part in (self.name, self.admin1, self.country) if part)
        return ", ".join(dict.fromkeys(parts))


class _Places(ServiceAnswer):
    results: tuple[FoundPlace, ...] = ()


class _Current(ServiceAnswer):
    time: str
    temperature_2m: float | None = None
    apparent_temperature: float | None = None
    relative_humidity_2m: float | None = None
    precipitation: float | None = None
    weather_code: int | None = None
    wind_speed_10m: float | None = None


class _Daily(ServiceAnswer):
    time: Annotated[tuple[str, ...], Field(max_length=MAX_DAYS)]
    weather_code: Annotated[tuple[int | None, ...], Field(max_length=MAX_DAYS)] = ()
    temperature_2m_min: _Values = ()
    temperature_2m_max: _Values = ()
    precipitation_sum: _Values = ()
    precipitation_probability_max: _Values = ()
    wind_speed_10m_max: _Values = ()


class _Forecast(ServiceAnswer):
    timezone: str = ""
    current: _Current
    daily: _Daily


def weather_tool(client: OutsideClient, addresses: WeatherAddresses) -> ToolDefinition:
    """Make the tool ``get_weather``."""

    async def get_weather(
        place: Annotated[str, Field(min_length=1, max_length=100)],
        days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 1,
    ) -> str:
        """Tells the weather at a place now, and its forecast from today on, in degrees Celsius, mm and km/h.

        Args:
            place: Name of a town or a region, or a postal code, without a country.
            days: Days of the forecast, from today on.
        """
        found = await client.get(f"{addresses.places}/v1/search?{urlencode({'name': place.strip(), 'count': 1})}")
        places = read_answer(_SERVICE, _Places, found).results
        if not places:
            raise OutboundError(f"no place is known as {plain(place, 100)!r}: give the name of a town, without more")
        asked = {
            "latitude": places[0].latitude, "longitude": places[0].longitude, "current": _CURRENT, "daily": _DAILY,
            "timezone": "auto", "forecast_days": days,
        }  # fmt: skip
        told = await client.get(f"{addresses.forecasts}/v1/forecast?{urlencode(asked)}")
        return "\n".join(_lines(places[0], read_answer(_SERVICE, _Forecast, told), days))

    return define(get_weather, effect=Effect.PURE, timeout=2 * TIMEOUT_S + 5)


def _lines(place: FoundPlace, forecast: _Forecast, days: int) -> Iterator[str]:
    now, daily = forecast.current, forecast.daily
    zone = plain(forecast.timezone, 50) or "UTC"
    yield f"{place.shown()} ({place.latitude:.2f}, {place.longitude:.2f}; times of {zone})"
    facts = (
        _sky(now.weather_code),
        _said("", now.temperature_2m, " °C"),
        _said("feels like ", now.apparent_temperature, " °C"),
        _said("humidity ", now.relative_humidity_2m, " %"),
        _said("precipitation ", now.precipitation, " mm"),
        _said("wind ", now.wind_speed_10m, " km/h"),
    )
    yield f"Now ({plain(now.time, 30)}): {', '.join(fact for fact in facts if fact)}"
    for number, day in enumerate(daily.time[:days]):
        code = daily.weather_code[number] if number < len(daily.weather_code) else None
        facts = (
            _sky(code),
            _said("from ", _at(daily.temperature_2m_min, number), " °C"),
            _said("to ", _at(daily.temperature_2m_max, number), " °C"),
            _said("precipitation ", _at(daily.precipitation_sum, number), " mm"),
            _said("chance of it ", _at(daily.precipitation_probability_max, number), " %"),
            _said("wind up to ", _at(daily.wind_speed_10m_max, number), " km/h"),
        )
        yield f"{plain(day, 30)}: {', '.join(fact for fact in facts if fact)}"


def _at(values: tuple[float | None, ...], number: int) -> float | None:
    return values[number] if number < len(values) else None


def _sky(code: int | None) -> str:
    return "" if code is None else _SKIES.get(code, f"weather code {code}")


def _said(before: str, value: float | None, unit: str) -> str:
    return "" if value is None else f"{before}{value:g}{unit}"
