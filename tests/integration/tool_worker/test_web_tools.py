"""The tools of the web against servers that speak the protocols of the web, Tavily and Open-Meteo."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pentad.contracts.tools import Effect, ToolOutcome
from pentad.services.tool_worker.builtins.catalogue import Builtins
from pentad.services.tool_worker.builtins.web.weather import WeatherAddresses
from pentad.services.tool_worker.builtins.web.web_search import TAVILY_URL
from pentad.services.tool_worker.builtins.web.web_tools import WebTools
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.settings import load_settings
from tests.support.outside.web_server import Answer, WebServer, redirect, reply, web_server
from tests.support.waiting import in_time

PLACES = {
    "results": [
        {
            "id": 2950159, "name": "Berlin", "latitude": 52.52437, "longitude": 13.41053, "elevation": 74.0,
            "feature_code": "PPLC", "country_code": "DE", "timezone": "Europe/Berlin", "population": 3426354,
            "country": "Germany", "admin1": "Land Berlin",
        }
    ],
    "generationtime_ms": 0.7,
}  # fmt: skip
FORECAST = {
    "latitude": 52.52, "longitude": 13.419998, "generationtime_ms": 0.1, "utc_offset_seconds": 3600,
    "timezone": "Europe/Berlin", "timezone_abbreviation": "GMT+1", "elevation": 38.0,
    "current_units": {"time": "iso8601", "interval": "seconds", "temperature_2m": "°C"},
    "current": {
        "time": "2026-11-27T10:15", "interval": 900, "temperature_2m": 3.4, "apparent_temperature": -0.5,
        "relative_humidity_2m": 87, "precipitation": 0.0, "weather_code": 61, "wind_speed_10m": 14.8,
    },
    "daily_units": {"time": "iso8601"},
    "daily": {
        "time": ["2026-11-27", "2026-11-28"], "weather_code": [61, 1234], "temperature_2m_min": [1.2, None],
        "temperature_2m_max": [4.8, 6.0], "precipitation_sum": [2.5, 0.0], "precipitation_probability_max": [80, None],
        "wind_speed_10m_max": [22.3, 18.0],
    },
}  # fmt: skip
FOUND = {
    "query": "tea", "answer": None, "images": [], "response_time": 1.2, "request_id": "r-1",
    "results": [
        {"title": "Green tea", "url": "https://tea.example/green", "content": "It is green.", "score": 0.98},
        {"title": "Black\ntea", "url": "https://tea.example/black", "content": "It is black.", "score": 0.9},
    ],
}  # fmt: skip
KEY = "tvly-secret-key"


def answer(value: Any, status: str = "200 OK") -> bytes:
    return reply(json.dumps(value).encode(), "application/json", status)


@pytest.fixture
async def web() -> AsyncIterator[WebServer]:
    async with web_server() as server:
        server.answers |= {"/v1/search": answer(PLACES), "/v1/forecast": answer(FORECAST), "/search": answer(FOUND)}
        yield server


async def run(web: WebServer, tool: str, /, **args: Any) -> ToolOutcome:
    """Run a tool as the worker does, with the settings of an operator whose services are on this server."""
    settings = load_settings(
        {
            "PENTAD_WEB": "on",
            "PENTAD_WEB_ALLOW": web.place,
            "WEATHER_BASE_URL": web.url,
            "TAVILY_API_KEY": KEY,
            "TAVILY_BASE_URL": web.url,
        }
    )
    tools = WebTools(settings)
    async with in_time():
        outcome = await Builtins(tools.definitions, quick=False).run(ToolInvocation(tool, args, 50), lambda *_: None)
    await tools.aclose()
    return outcome


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, set()),
        ({"PENTAD_WEB": "off", "PENTAD_WEB_ALLOW": "x"}, set()),
        ({"PENTAD_WEB": "on"}, {"web_fetch", "get_weather"}),
        ({"TAVILY_API_KEY": KEY}, {"web_search"}),
        ({"PENTAD_WEB": "on", "TAVILY_API_KEY": KEY}, {"web_fetch", "get_weather", "web_search"}),
    ],
)
def test_a_tool_of_the_web_is_offered_where_its_setting_asks_for_it(given: dict[str, str], names: set[str]) -> None:
    made = WebTools(load_settings(given)).definitions
    assert set(made) == names
    for tool in made.values():
        assert tool.spec.effect is Effect.PURE
        assert tool.spec.description
        assert all(each["description"] for each in tool.spec.parameters["properties"].values())


async def test_a_page_is_fetched_as_text_with_its_title_and_links(web: WebServer) -> None:
    web.answers["/old"] = redirect("/tea/")
    web.answers["/tea/"] = reply("<title>Tea</title><h1>Grün</h1><p>See <a href=more>more</a>.</p>".encode())
    outcome = await run(web, "web_fetch", url=f"{web.url}/old")
    assert outcome.result == f"URL: {web.url}/tea/\nTitle: Tea\n\n# Grün\n\nSee [more]({web.url}/tea/more)."


async def test_of_a_long_page_as_much_is_shown_as_was_asked_for(web: WebServer) -> None:
    web.answers["/"] = reply(b"word " * 1000, "text/plain")
    outcome = await run(web, "web_fetch", url=web.url, max_chars=100)
    assert outcome.result is not None
    assert outcome.result.startswith(f"URL: {web.url}\n\nword word")
    assert outcome.result.endswith("[The first 100 of 5000 characters; max_chars gives more, up to 200000.]")


async def test_json_is_shown_as_it_is(web: WebServer) -> None:
    web.answers["/"] = answer({"a": [1, 2]})
    assert (await run(web, "web_fetch", url=web.url)).result == f'URL: {web.url}\n\n{{"a": [1, 2]}}'


async def test_of_another_type_its_name_and_size_are_told(web: WebServer) -> None:
    web.answers["/"] = reply(b"%PDF" * 100, "application/pdf")
    outcome = await run(web, "web_fetch", url=web.url)
    assert outcome.result == f"URL: {web.url}\nType: application/pdf, 400 bytes. It is no text, and was not read."


async def test_a_page_that_is_cut_and_one_without_text_say_so(web: WebServer) -> None:
    web.answers["/"] = reply(b"<p>" + b"w " * 1_200_000)
    assert "[Only the first 2097152 bytes of the page were read.]" in str(
        (await run(web, "web_fetch", url=web.url)).result
    )
    web.answers["/"] = reply(b"<script>x</script>")
    assert (await run(web, "web_fetch", url=web.url)).result == f"URL: {web.url}\n\n(The page has no text.)"


@pytest.mark.parametrize(
    ("status", "said"),
    [("404 Not Found", "answered 404 (Not Found)"), ("503 x", "answered 503"), ("999 x", "answered 999")],
)
async def test_a_page_that_is_not_there_is_an_error_that_says_its_status(
    web: WebServer, status: str, said: str
) -> None:
    web.answers["/"] = reply(b"gone", status=status)
    outcome = await run(web, "web_fetch", url=web.url)
    assert outcome.kind == "error"
    assert said in outcome.text


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]/", "file:///x"]
)
async def test_a_model_fetches_nothing_inside(web: WebServer, url: str) -> None:
    outcome = await run(web, "web_fetch", url=url)
    assert outcome.kind == "error"
    assert "only addresses" in outcome.text


async def test_the_address_of_a_service_is_not_allowed_to_pages(web: WebServer) -> None:
    async with web_server() as inside:
        settings = load_settings({"PENTAD_WEB": "on", "WEATHER_BASE_URL": inside.url})
        source = Builtins(WebTools(settings).definitions, quick=False)
        outcome = await source.run(ToolInvocation("web_fetch", {"url": inside.url}, 50), lambda *_: None)
        assert (outcome.kind, inside.received) == ("error", [])


async def test_the_weather_of_a_place_is_that_of_the_first_that_its_name_finds(web: WebServer) -> None:
    outcome = await run(web, "get_weather", place=" Berlin ", days=2)
    assert outcome.result == (
        "Berlin, Land Berlin, Germany (52.52, 13.41; times of Europe/Berlin)\n"
        "Now (2026-11-27T10:15): light rain, 3.4 °C, feels like -0.5 °C, humidity 87 %, precipitation 0 mm, "
        "wind 14.8 km/h\n"
        "2026-11-27: light rain, from 1.2 °C, to 4.8 °C, precipitation 2.5 mm, chance of it 80 %, "
        "wind up to 22.3 km/h\n"
        "2026-11-28: weather code 1234, to 6 °C, precipitation 0 mm, wind up to 18 km/h"
    )
    asked = [parse_qs(urlsplit(each.target).query) for each in web.received]
    assert asked[0] == {"name": ["Berlin"], "count": ["1"]}
    assert {key: asked[1][key] for key in ("latitude", "longitude", "timezone", "forecast_days")} == {
        "latitude": ["52.52437"], "longitude": ["13.41053"], "timezone": ["auto"], "forecast_days": ["2"],
    }  # fmt: skip


async def test_a_place_that_nobody_knows_is_told_as_that(web: WebServer) -> None:
    web.answers["/v1/search"] = answer({"generationtime_ms": 0.5})
    outcome = await run(web, "get_weather", place="Nowhere at all")
    assert outcome.error == "get_weather: no place is known as 'Nowhere at all': give the name of a town, without more"


def test_the_public_weather_service_has_two_hosts_and_one_of_your_own_has_one() -> None:
    public, own = WeatherAddresses.at(None), WeatherAddresses.at("http://w.example/meteo/")
    assert (public.places, public.forecasts) == ("https://geocoding-api.open-meteo.com", "https://api.open-meteo.com")
    assert own.places == own.forecasts == "http://w.example/meteo"


async def test_a_search_gives_pages_with_what_answers_and_sends_its_key_as_tavily_wants_it(web: WebServer) -> None:
    outcome = await run(web, "web_search", query="tea", max_results=2)
    assert outcome.result == (
        "1. Green tea\nhttps://tea.example/green\nIt is green.\n\n2. Black tea\nhttps://tea.example/black\nIt is black."
    )
    asked = web.received[0]
    assert (asked.method, asked.path, asked.headers["authorization"]) == ("POST", "/search", f"Bearer {KEY}")
    assert json.loads(asked.body) == {"query": "tea", "max_results": 2, "search_depth": "basic"}
    assert TAVILY_URL == "https://api.tavily.com"


async def test_no_more_results_are_shown_than_were_asked_for_and_none_are_told_as_that(web: WebServer) -> None:
    assert "2. " not in str((await run(web, "web_search", query="tea", max_results=1)).result)
    web.answers["/search"] = answer(FOUND | {"results": []})
    assert (await run(web, "web_search", query="tea")).result == "Nothing was found."


async def test_what_is_no_argument_of_these_tools_is_told_to_the_model(web: WebServer) -> None:
    for tool, args in (
        ("web_search", {"query": ""}),
        ("web_search", {"query": "x", "max_results": 21}),
        ("get_weather", {"place": "x", "days": 17}),
        ("get_weather", {"place": "x" * 101}),
        ("web_fetch", {"url": "http://" + "x" * 3000}),
        ("web_fetch", {"url": "http://x", "max_chars": 0}),
    ):
        assert (await run(web, tool, **args)).kind == "error"
    assert web.received == []


async def _endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
    while True:
        writer.write(b"1," * 30_000)
        await writer.drain()


FAULTS: list[tuple[str, Answer, str]] = [
    ("key", answer({"detail": {"error": "Unauthorized: no key"}}, "401 x"), "missing or wrong.*Unauthorized"),
    ("often", answer({"detail": {"error": "excessive requests"}}, "429 x"), r"too often: try again later \(excess"),
    ("plan", answer({"detail": {"error": "plan's limit"}}, "432 x"), "limit of its plan"),
    ("meteo", answer({"error": True, "reason": "Wrong day"}, "400 x"), r"400: it does not take.*\(Wrong day\)"),
    ("plain", answer({"detail": "no"}, "422 x"), r"422.*\(no\)"),
    ("fault", reply(b"<h1>oops</h1>", status="502 x"), "answered 502: it has a fault: try again later$"),
    ("moved", redirect("http://127.0.0.1:1/"), "another address|only addresses"),
    ("no json", reply(b"hello"), "did not answer in its form"),
    ("a list", answer([1]), "did not answer in its form"),
    ("wrong json", answer({"results": [{"url": 5, "name": 5}]}), "did not answer in its form"),
    ("deep json", reply(b"[" * 500_000, "application/json"), "did not answer in its form"),
    ("endless", _endless, "did not answer in its form"),
    ("nothing", b"", "did not answer in HTTP"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "said"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
@pytest.mark.parametrize("tool", ["web_search", "get_weather"])
async def test_a_service_that_fails_is_told_with_what_to_do_and_without_its_key(
    web: WebServer, tool: str, fault: Answer, said: str
) -> None:
    web.answers |= {"/v1/search": fault, "/search": fault}
    args = {"query": "tea"} if tool == "web_search" else {"place": "Berlin"}
    outcome = await run(web, tool, **args)
    assert outcome.kind == "error"
    assert re.search(said, outcome.text)
    assert len(outcome.text) < 700
    assert KEY not in outcome.text


async def test_a_forecast_that_fails_after_its_place_was_found_is_an_error(web: WebServer) -> None:
    web.answers["/v1/forecast"] = answer(FORECAST | {"daily": {"time": ["x"] * 17}})
    outcome = await run(web, "get_weather", place="Berlin")
    assert outcome.kind == "error"
    assert "daily.time" in outcome.text
