"""A model knows which day it is where the person is, and its prompt is the same all day long."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.dates import LocalDate, minute_at
from pentad.contracts.instructions import Instruction
from pentad.services.task_runner import instructions as task_instructions
from pentad.services.task_runner.questions import Questions
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow, answer
from tests.integration.handlers.test_flow import ECHO
from tests.integration.handlers.test_recall import record
from tests.support.rebuilding import prompts_of


async def flow_of(store: Store, folder: Path, **settings: Any) -> tuple[Flow, list[ChatRequest]]:
    asked: list[ChatRequest] = []

    def script(request: ChatRequest) -> ModelAnswer:
        asked.append(request)
        return answer("", ECHO) if len(asked) % 2 else answer("done")

    return await Flow(store, folder, script, **settings).prepare(), asked


def end_of_system(request: ChatRequest) -> str:
    return str(from_json(request.messages[0])["content"]).rpartition("\n\n")[2]


@pytest.mark.parametrize(
    ("settings", "message", "zone"),
    [
        ({}, {}, "UTC"),
        ({"tz": "Asia/Tokyo"}, {}, "Asia/Tokyo"),
        ({"tz": "Asia/Tokyo"}, {"metadata": {"time_zone": "America/New_York"}}, "America/New_York"),
        ({"tz": "Asia/Tokyo"}, {"metadata": {"time_zone": "Mars/Base"}}, "Asia/Tokyo"),
    ],
)
async def test_the_system_prompt_ends_with_the_date_and_the_zone_of_the_person(
    store: Store, tmp_path: Path, settings: dict[str, Any], message: dict[str, Any], zone: str
) -> None:
    flow, asked = await flow_of(store, tmp_path, **settings)
    before = LocalDate.of(await store.clock(), zone)
    await flow.say("go", **message)
    await flow.drive()
    days = {before.told.strip(), LocalDate.of(await store.clock(), zone).told.strip()}
    assert len(asked) == 2
    assert {end_of_system(request) for request in asked} <= days


async def test_a_zone_that_was_said_once_holds_for_the_task(store: Store, tmp_path: Path) -> None:
    flow, asked = await flow_of(store, tmp_path)
    await flow.say("go", metadata={"time_zone": "Asia/Shanghai"})
    await flow.drive()
    await flow.say("and on", task_id=(await flow.task()).task)
    await flow.drive()
    assert len(asked) == 4
    assert all("(time zone Asia/Shanghai)" in end_of_system(request) for request in asked)


async def test_a_prompt_is_rebuilt_with_the_day_that_it_had(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of a task that ran over midnight gives each step's request, digest and all."""
    days = iter((LocalDate.of(1_798_758_000_000, "UTC"), LocalDate.of(1_798_768_800_000, "UTC")))
    monkeypatch.setattr(Questions, "today", lambda *_: next(days))
    flow, asked = await flow_of(store, tmp_path)
    await flow.say("go")
    await flow.drive()
    assert [end_of_system(request).split(" (")[0] for request in asked] == [
        "Today is Thursday, 2026-12-31",
        "Today is Friday, 2027-01-01",
    ]
    prompts = prompts_of(await record(flow))
    assert [prompt.messages[0] for prompt in prompts] == [from_json(request.messages[0]) for request in asked]


def system_of(request: ChatRequest) -> str:
    return str(from_json(request.messages[0])["content"])


async def test_a_prompt_says_the_time_of_its_turn_where_it_is_asked_to(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: the minute is that of the turn's message in the person's zone, the same in all steps of the turn, and
    the record of the task gives each prompt again, byte for byte."""
    told: list[int] = []

    def minute(at_ms: int, zone: str) -> str:
        told.append(at_ms)
        return minute_at(1_798_758_000_000 + sorted(set(told)).index(at_ms) * 3_600_000, zone)

    monkeypatch.setattr(task_instructions, "minute_at", minute)
    clock = Instruction(name="clock", system_prompt="It is {{now}}. Help.")
    flow, asked = await flow_of(store, tmp_path, instructions=[clock])
    await flow.say("go", instruction="clock", metadata={"time_zone": "Asia/Shanghai"})
    await flow.drive()
    await flow.say("and on", task_id=(await flow.task()).task)
    await flow.drive()
    first, second = (f"It is Friday, 2027-01-01 {hour}:00 (time zone Asia/Shanghai). Help." for hour in ("07", "08"))
    assert [system_of(request) for request in asked] == [first, first, second, second]
    prompts = prompts_of(await record(flow))
    assert [prompt.messages[0] for prompt in prompts] == [from_json(request.messages[0]) for request in asked]


async def test_a_turns_time_is_that_of_its_message(store: Store, tmp_path: Path) -> None:
    flow, asked = await flow_of(
        store, tmp_path, instructions=[Instruction(name="clock", system_prompt="{{now}}|{{today}}")]
    )
    before = await store.clock()
    await flow.say("go", instruction="clock")
    await flow.drive()
    now, _, today = system_of(asked[0]).partition("|")
    minutes = {minute_at(at, "UTC") for at in (before, await store.clock())}
    assert now in minutes
    assert today in {LocalDate.of(at, "UTC").words for at in (before, await store.clock())}


async def test_a_prompt_that_says_the_day_itself_does_not_end_with_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = iter((LocalDate.of(1_798_758_000_000, "UTC"), LocalDate.of(1_798_768_800_000, "UTC")))
    monkeypatch.setattr(Questions, "today", lambda *_: next(days))
    dated = Instruction(name="dated", system_prompt="{{today}} is the day. Help.")
    flow, asked = await flow_of(store, tmp_path, instructions=[dated])
    await flow.say("go", instruction="dated")
    await flow.drive()
    assert [system_of(request) for request in asked] == [
        "Thursday, 2026-12-31 (time zone UTC) is the day. Help.",
        "Friday, 2027-01-01 (time zone UTC) is the day. Help.",
    ]
    prompts = prompts_of(await record(flow))
    assert [prompt.messages[0] for prompt in prompts] == [from_json(request.messages[0]) for request in asked]
