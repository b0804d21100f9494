"""What a model says at great length: whole for who waits, bounded for who listens, never much in one stream."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.events import args_ref, message_ref
from tests.integration.service.test_garbage import system
from tests.support.clients.api import Api
from tests.support.clients.line import Line
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say
from tests.support.processes.stage import new_session
from tests.support.waiting import wait_until

LONG = "ä" * 1_500_000
ARGUMENT = "1+" * 20_000 + "1"
COUNT = 300


def script(request: dict[str, Any]) -> Reply:
    last = request["messages"][-1]
    if last["role"] == "tool":
        return say("done")
    return {
        "long": lambda: say(LONG, chunks=20),
        "at once": lambda: say(LONG),
        "argument": lambda: call(("calculator", {"expression": ARGUMENT})),
        "many": lambda: call(*[("calculator", {"expression": f"{n}+1"}) for n in range(COUNT)]),
        "endless": lambda: say("a" * (5 << 20), chunks=200),
    }[last["content"]]()


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with ScriptedModel(script) as model, system(tmp_path, model) as address:
        yield address


@pytest.mark.parametrize("content", ["long", "at once"])
async def test_a_long_answer_is_whole_for_who_waits_and_bounded_for_who_listens(url: str, content: str) -> None:
    session = new_session()
    async with Line(url, session) as line, Api(url) as api:
        turn = await api.post("/v1/messages?wait=30", {"session_id": session, "content": content}, 200)
        assert (turn["status"], turn["answer"] == LONG) == ("completed", True)
        message = await line.until("message", seconds=30)
        await line.until("task_end")
        task = message["task_id"]
        assert message["content"] == "ä" * (512 * 1024)
        assert message["ref"] == message_ref(1)
        assert (await api.get(f"/v1/tasks/{task}/values/{message['ref']}"))["content"] == LONG
        (said,) = [m for m in (await api.get(f"/v1/sessions/{session}/messages"))["items"] if m["role"] == "assistant"]
        assert len(said["content"]) == 65_536
        await api.post(f"/v1/tasks/{task}/archive")
        await wait_until("the record", lambda: _archived(api, task))
        assert (await api.get(f"/v1/tasks/{task}/values/{message['ref']}"))["content"] == LONG


async def _archived(api: Api, task: str) -> bool:
    return bool((await api.get(f"/v1/tasks/{task}")).get("archived_at"))


async def test_long_arguments_are_kept_beside_their_event(url: str) -> None:
    session = new_session()
    async with Line(url, session) as line, Api(url) as api:
        await line.say("argument")
        asked = await line.until("tool_call")
        await line.until("task_end")
        assert len(asked["args"]) == 16 * 1024
        assert asked["ref"] == args_ref(asked["tool_call_id"])
        whole = await api.get(f"/v1/tasks/{asked['task_id']}/values/{asked['ref']}")
        assert ARGUMENT in whole["content"]


async def test_of_very_many_calls_the_first_are_made_and_the_rest_is_answered(url: str) -> None:
    async with Line(url, new_session()) as line:
        await line.say("many")
        end = await line.until("task_end", seconds=30)
        assert end["status"] == "completed"
        results = line.answers("tool_result")
        assert len(results) == len(line.answers("tool_call")) == COUNT
        refused = [r["error"] for r in results if r.get("error")]
        assert len(refused) == COUNT - 128
        assert all("one answer may ask for 128 calls" in error for error in refused)


async def test_an_answer_without_end_fails_its_task_at_once(url: str) -> None:
    async with Line(url, new_session()) as line:
        await line.say("endless")
        end = await line.until("task_end", seconds=30)
        assert (end["status"], end["reason"]) == ("failed", "model_error")
        assert "no end in sight" in line.answers("error")[-1]["message"]
