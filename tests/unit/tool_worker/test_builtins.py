"""The built-in tools describe themselves like anybody's."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from pentad.contracts.tools import Effect
from pentad.services.tool_worker.builtins.catalogue import BUILTINS, Builtins, builtins_of
from pentad.services.tool_worker.builtins.clock import clock_of
from pentad.services.tool_worker.builtins.echo import echo
from pentad.services.tool_worker.builtins.memory_note import memory_note
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.memory.facts import NOTE_TOOL
from pentad.shared.plugins.registry import define
from tests.support.waiting import PATIENCE_S


@pytest.mark.parametrize("name", ["calculator", "get_time", "echo", "memory_note"])
def test_every_builtin_is_pure_and_described(name: str) -> None:
    spec = BUILTINS[name].spec
    assert spec.effect is Effect.PURE
    assert spec.description
    assert all(argument["description"] for argument in spec.parameters["properties"].values())


@pytest.mark.parametrize(("timezone", "offset"), [("UTC", 0), ("utc", 0), ("Asia/Shanghai", 8), ("Etc/GMT+5", -5)])
def test_the_time_is_now_and_says_its_offset(timezone: str, offset: int) -> None:
    moment = datetime.fromisoformat(clock_of("UTC")(timezone))
    assert moment.utcoffset() == timedelta(hours=offset)
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=1)


def test_the_clock_tells_the_time_of_its_own_zone_where_no_other_is_asked_for() -> None:
    assert datetime.fromisoformat(clock_of("Asia/Tokyo")()).utcoffset() == timedelta(hours=9)
    tool = builtins_of("Asia/Tokyo")["get_time"]
    assert tool.spec.parameters["properties"]["timezone"]["default"] == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("said", "hours"),
    [("asia/tokyo", 9), (" Tokyo ", 9), ("UTC+8", 8), ("gmt-03:00", -3), ("+0530", 5.5), ("UTC +14", 14), ("Lagos", 1)],
)
def test_a_zone_may_be_said_by_its_city_its_offset_or_in_another_case(said: str, hours: float) -> None:
    assert datetime.fromisoformat(clock_of("UTC")(said)).utcoffset() == timedelta(hours=hours)


@pytest.mark.parametrize("said", ["UTC+15", "-14:01", "UTC+99"])
def test_an_offset_that_no_clock_has_is_refused_with_those_there_are(said: str) -> None:
    with pytest.raises(ValueError, match=r"offsets go from UTC-14 to UTC\+14"):
        clock_of("UTC")(said)


@pytest.mark.parametrize(
    "timezone", ["Mars/Base", "../etc/passwd", "", "Europe", "/etc/localtime", "东京", "Atlantis", "A\0", "a" * 100_000]
)
def test_an_unknown_zone_is_refused(timezone: str) -> None:
    with pytest.raises(ValueError, match=r"IANA name such as Europe/Berlin, or an offset such as UTC\+8") as refused:
        clock_of("UTC")(timezone)
    assert len(str(refused.value)) < 250


def test_a_note_is_read_from_the_call_under_the_name_of_the_tool() -> None:
    assert memory_note.__name__ == NOTE_TOOL


def test_a_note_that_matters_too_little_is_told_not_to_become_a_fact() -> None:
    assert memory_note("It rains.").startswith("Noted")
    assert "too little" in memory_note("It rains.", 0.1)


def test_echo_changes_nothing() -> None:
    assert echo(" Ünchanged\n") == " Ünchanged\n"


async def test_a_builtin_that_takes_longer_than_its_time_limit_is_ended() -> None:
    async def never() -> str:
        """Waits for what never comes."""
        await asyncio.Event().wait()
        return ""

    tool = define(never, effect=Effect.PURE)
    source = Builtins({"never": tool})
    outcome = await asyncio.wait_for(source.run(ToolInvocation("never", {}, 0.01), lambda *_: None), PATIENCE_S)
    assert (outcome.kind, outcome.error) == ("timeout", "never: no result within 0.01 s")
