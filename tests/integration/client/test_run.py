"""`agent.run` and `agent.execute` against a gateway that answers late, is busy, goes away, or says no."""

import time
from collections import deque
from typing import Any

import pytest

import pentad
from tests.support.clients.fake_gateway import FakeGateway, fake_gateway
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, in_time

LATE: dict[str, Any] = {"session_id": "s1", "message_id": "m1", "task_id": None, "instruction": "it"}
BUSY: tuple[int, dict[str, Any]] = 429, {"title": "Too Many Requests", "detail": "later"}
AWAY: tuple[int, dict[str, Any]] = 503, {"title": "Service Unavailable", "detail": "Redis is away"}


def run(**fields: Any) -> tuple[int, dict[str, Any]]:
    return 200, LATE | {"status": "completed", "tool_calls": [], "usage": {}} | fields


async def asked(gateway: FakeGateway, **about: Any) -> Any:
    async with in_time(), pentad.connect(gateway.url) as agent:
        return await agent.run("it", "go", **about)


@pytest.mark.parametrize("value", [{"n": 3}, [], None, "text", 0])
async def test_a_json_instruction_gives_its_data_whatever_that_is(value: Any) -> None:
    async with fake_gateway(runs=deque([run(data=value)])) as gateway:
        assert await asked(gateway) == value


async def test_another_one_gives_its_text() -> None:
    async with fake_gateway(runs=deque([run(content="a poem")])) as gateway:
        assert await asked(gateway) == "a poem"


async def test_it_is_asked_under_one_id_until_it_has_ended() -> None:
    runs = deque([(202, LATE), BUSY, AWAY, (202, LATE), run(content="at last")])
    async with fake_gateway(runs=runs) as gateway:
        more = {"user_id": "ada", "metadata": {"k": "v"}, "budget": {"steps": 2}}
        assert await asked(gateway, **more) == "at last"
    bodies = [body for _, body in gateway.run_requests]
    assert len(bodies) == 5
    assert all(body == bodies[0] for body in bodies)
    assert bodies[0] | more | {"input": "go"} == bodies[0]
    assert {*bodies[0]} == {"input", "session_id", "message_id", *more}
    assert {request.path for request, _ in gateway.run_requests} == {"/v1/instructions/it/run"}


async def test_runs_of_one_agent_are_sessions_of_their_own_unless_one_is_named() -> None:
    async with fake_gateway(runs=deque([run(content="x")] * 3)) as gateway:
        for session in (None, None, "s1"):
            await asked(gateway, session_id=session)
    one, other, named = (body["session_id"] for _, body in gateway.run_requests)
    assert len({one, other, "s1"}) == 3
    assert named == "s1"


async def test_one_that_failed_raises_with_the_reason_and_execute_tells_it() -> None:
    failed = run(status="failed", content=None, error={"code": "model_error", "message": "it is no JSON"})
    async with fake_gateway(runs=deque([failed, failed])) as gateway:
        with pytest.raises(pentad.RunFailed, match="instruction it gave no answer: model_error: it is no JSON"):
            await asked(gateway)
        async with pentad.connect(gateway.url) as agent:
            told = await agent.execute("it", "go")
    assert (told.status, told.error and told.error.code, told.value) == ("failed", "model_error", None)


async def test_one_that_waits_for_a_person_has_no_answer_yet() -> None:
    async with fake_gateway(runs=deque([run(status="waiting", content="which?")])) as gateway:
        with pytest.raises(pentad.RunFailed, match="its task is waiting"):
            await asked(gateway)


async def test_what_is_refused_is_not_asked_again() -> None:
    async with fake_gateway(runs=deque([(404, {"detail": "there is no instruction it"})])) as gateway:
        with pytest.raises(pentad.NotFound, match="there is no instruction it"):
            await asked(gateway)
    with pytest.raises(pentad.Refused, match="session_id"):
        async with pentad.connect() as agent:
            await agent.run("it", "go", session_id="a b")


async def test_where_nobody_answers_that_is_told_at_once() -> None:
    begun = time.monotonic()
    with pytest.raises(pentad.GatewayUnreachable):
        async with pentad.connect(f"http://127.0.0.1:{free_port()}") as agent:
            await agent.run("it", "go")
    assert time.monotonic() - begun < PATIENCE_S / 2, "it was tried on"


async def test_a_gateway_that_stays_away_is_given_up_after_the_patience() -> None:
    async with fake_gateway(runs=deque([AWAY] * 100)) as gateway:
        with pytest.raises(pentad.GatewayUnreachable, match="Redis is away"):
            async with in_time(), pentad.connect(gateway.url, patience_s=0.2) as agent:
                await agent.run("it", "go")
