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


@pytest.mark.parametrize("name", ["calculator", "current_time", "echo", "memory_note"])
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
    tool = builtins_of("Asia/Tokyo")["current_time"]
    assert tool.spec.parameters["properties"]["timezone"]["default"] == "Asia/Tokyo"


@pytest.mark.parametrize("timezone", ["Mars/Base", "../etc/passwd", "", "Europe", "/etc/localtime"])
def test_an_unknown_zone_is_refused(timezone: str) -> None:
    with pytest.raises(ValueError, match="IANA name"):
        clock_of("UTC")(timezone)


def test_a_note_is_read_from_the_call_under_the_name_of_the_tool() -> None:
    assert memory_note.__name__ == NOTE_TOOL


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
