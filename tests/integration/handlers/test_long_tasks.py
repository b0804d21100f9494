"""A task of hundreds of steps, with summaries, hooks and a moved message: each prompt is rebuilt from what is kept."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from pentad.contracts.records import TaskRecord
from pentad.services.archiver.handlers import record_of
from pentad.services.gateway.domain.move import MoveRequest
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.tool_worker.app import ToolWorker
from pentad.shared.actors.headers import pairs, task_header
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow
from tests.integration.handlers.test_compaction import WORDS, Answer, Talk, events, flow_of
from tests.support.rebuilding import prompts_of
from tests.support.waiting import wait_until

CALLS = 9
"""Steps of a turn that call a tool; one more answers."""


class Caller:
    """Calls a tool some times in each turn, then answers."""

    def __init__(self) -> None:
        self.left = CALLS

    def __call__(self, messages: list[dict[str, Any]]) -> Answer:
        self.left = CALLS if self.left == 0 else self.left - 1
        return ("echo", to_json({"text": f"{self.left} {WORDS}"}).decode()) if self.left != 0 else "Well."


@pytest.fixture
async def hooks(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ToolWorker]:
    monkeypatch.setenv("HOOKING", str(tmp_path))
    (tmp_path / "before_model").write_text("mark")
    plugins = ("tests.support.plugins.hooking",)
    worker = ToolWorker(Settings(redis_url=store.url, pentad_plugins=plugins, pentad_tool_env=("HOOKING",)))
    await worker.start()
    yield worker
    await worker.stop()


@pytest.mark.parametrize(
    "turns", [pytest.param(6, id="60 steps"), pytest.param(30, id="300 steps", marks=pytest.mark.slow)]
)
async def test_every_prompt_of_a_long_task_is_rebuilt_from_its_record_with_its_digest(
    store: Store, tmp_path: Path, hooks: ToolWorker, turns: int
) -> None:
    talk = Talk(Caller())
    flow = await flow_of(store, tmp_path, talk, pentad_step_limit=1_000)
    try:
        foreign = await _talked(flow, talk, turns)
    finally:
        await flow.hooks.aclose()
    own = [request for number, request in enumerate(talk.asked) if number not in foreign]
    assert len(own) >= turns * (CALLS + 1)
    assert talk.summaries >= turns // 2
    assert len(await events(flow, "compacted")) == talk.summaries
    assert len(await events(flow, "message_moved")) == 1
    prompts = prompts_of(await _record(flow))
    assert len(prompts) == len(own)
    for step, (prompt, request) in enumerate(zip(prompts, own, strict=True), 1):
        assert [to_json(message) for message in prompt.messages] == list(request.messages), f"the prompt of step {step}"
        assert "noted" in [message["content"] for message in prompt.messages], "a hook has changed it"


async def _talked(flow: Flow, talk: Talk, turns: int) -> range:
    """Talk for so many turns, and move the message of the middle one away. Return the requests of the other task."""
    foreign = range(0)
    task = ""
    for number in range(turns):
        await flow.hooks.catalog.read()
        about = {"instruction": "talker"} | ({"task_id": task} if task else {})
        await flow.say(f"turn {number}: {WORDS}", SESSION, **about)
        await _rest(flow, number + 1 + (number > turns // 2))
        task = task or await _first_task(flow)
        if number == turns // 2:
            begun = len(talk.asked)
            said = (await events(flow, "message_routed"))[-1]
            moving = MessageMoves(flow.store, Queries(flow.store, flow.records, 1))
            await moving.move("default", task, MoveRequest(said["message_id"], "new"))
            await _rest(flow, number + 2)
            foreign = range(begun, len(talk.asked))
            assert foreign
    return foreign


async def _rest(flow: Flow, ends: int) -> None:
    """Serve until so many turns have ended."""

    async def over() -> bool:
        await flow.drive()
        return len(await events(flow, "task_end")) >= ends

    await wait_until("the end of the turn", over)


async def _record(flow: Flow) -> TaskRecord:
    """The record of the first task, as the archiver writes it."""
    keys = await flow.task_named(await _first_task(flow))
    _, header, log, steps, big = await flow.store.run("whole", [keys.header, keys.log, keys.steps, keys.big], [])
    known = task_header("default", keys.task, pairs(header))
    assert known is not None
    return record_of(known, log, steps, pairs(big), 0)


async def _first_task(flow: Flow) -> str:
    return str((await events(flow, "task_start"))[0]["task_id"])
