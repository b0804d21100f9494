"""A message's turn is told to who comes back later: while it waits, runs, waits for a person, and after its end."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import pentad
from tests.support.models.replies import Reply, call, fail, say
from tests.support.processes.stage import Stage, new_session, stage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("runs"), {"PENTAD_APPROVE": "all"}) as system:
        yield system


async def sent(api: Any, session: str, content: str) -> str:
    accepted = await api.post("/v1/messages", {"session_id": session, "content": content})
    return str(accepted["message_id"])


async def test_a_turn_is_told_while_it_runs_and_after_its_end(runs: Stage) -> None:
    more, session = asyncio.Event(), new_session()
    async with runs.model(lambda _: say("one two", chunks=2, wait=more, wait_after=1)), runs.api() as api:
        message = await sent(api, session, "count")
        path = f"/v1/runs/{message}?session_id={session}"

        async def state() -> dict[str, Any]:
            found: dict[str, Any] = await api.get(path)
            return found

        await wait_until("it runs", lambda: _is(state, "running"))
        waited = asyncio.create_task(api.get(f"{path}&wait=60"))
        more.set()
        assert (await waited)["status"] == "completed"
        ended = await state()
    assert (ended["status"], ended["answer"], ended["message_id"]) == ("completed", "one two", message)
    assert ended["usage"]["output_tokens"] > 0
    assert ended["waiting"] == []


async def _is(state: Any, status: str) -> bool:
    return bool((await state())["status"] == status)


async def test_what_waits_for_a_person_is_told_with_the_calls(runs: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        return say(last["content"]) if last["role"] == "tool" else call(("echo", {"text": "x"}))

    session = new_session()
    async with runs.model(script), runs.api() as api, pentad.connect(runs.url) as agent:
        message = await sent(api, session, "say x")
        waiting = await agent.inspection.run(message, session, wait=60)
        assert (waiting.status, waiting.reason) == ("waiting", "approval")
        [asked] = waiting.waiting
        assert asked.tool == "echo"
        await agent.management.approve(asked.task_id, asked.tool_call_id)
        ended = await agent.inspection.run(message, session, wait=60)
        assert (ended.status, ended.answer, ended.waiting) == ("completed", "x", [])


async def test_a_message_is_known_at_once(runs: Stage) -> None:
    async with runs.model(lambda _: say("hi")), runs.api() as api:
        for _ in range(20):
            session = new_session()
            state = await api.get(f"/v1/runs/{await sent(api, session, 'hello')}?session_id={session}")
            assert state["status"] in ("accepted", "running", "completed")


async def test_a_turn_that_fails_says_why(runs: Stage) -> None:
    session = new_session()
    async with runs.model(lambda _: fail(400, message="no such model")), runs.api() as api:
        message = await sent(api, session, "go")
        ended = await api.get(f"/v1/runs/{message}?session_id={session}&wait=60")
    assert ended["status"] == "failed"
    assert "no such model" in ended["reason"]


async def test_a_message_that_the_session_does_not_have_is_unknown(runs: Stage) -> None:
    async with runs.api() as api:
        assert "no such message" in (await api.get("/v1/runs/m-1?session_id=s1", status=404))["detail"]
        assert "session_id" in (await api.get("/v1/runs/m-1", status=422))["detail"]
