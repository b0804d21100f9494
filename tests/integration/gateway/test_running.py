"""What `POST /v1/instructions/{name}/run` promises."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from pentad.contracts.streams import INBOUND
from pentad.shared.store.store import Store
from tests.integration.gateway.speaker import TASK, Speaker
from tests.integration.gateway.test_instructions import COUNTER, POET, problem
from tests.support.waiting import PATIENCE_S, wait_until

RUN = {"input": "how many?", "session_id": "s1", "message_id": "m1"}


async def arrived(store: Store) -> dict[str, Any]:
    """The message that was appended."""
    await wait_until("the message", lambda: store.call("XLEN", INBOUND.key()))
    [[_, fields]] = await store.call("XRANGE", INBOUND.key(), "-", "+")
    message: dict[str, Any] = json.loads(fields[1])
    return message


async def test_a_json_instruction_gives_its_data_with_the_calls_made(
    http: httpx2.AsyncClient, speaker: Speaker, store: Store
) -> None:
    await http.post("/v1/instructions", json=COUNTER)
    more = {"user_id": "ada", "metadata": {"k": "v"}, "budget": {"steps": 3}, "deadline": "2099-01-01T00:00:00.000Z"}
    asking = asyncio.create_task(http.post("/v1/instructions/counter/run", json=RUN | more))
    message = await arrived(store)
    assert (message["content"], message["instruction"], message["tenant_id"]) == ("how many?", "counter", "default")
    assert {name: message[name] for name in more} == more
    await speaker.routed("m1")
    await speaker.say("tool_call", tool_call_id="c1", tool="echo", args={"text": "x"})
    await speaker.say("tool_result", tool_call_id="c1", tool="echo", result="x", duration_ms=2)
    await speaker.say("message", step=1, attempt=1, content='{"n":3}')
    await speaker.say("task_end", status="completed", steps=1, usage={"input_tokens": 4, "output_tokens": 2})
    done = await asking
    assert done.status_code == 200
    run = done.json()
    assert (run["instruction"], run["status"], run["data"], "content" in run) == (
        "counter",
        "completed",
        {"n": 3},
        False,
    )
    assert [(call["tool"], call["args"], call["result"]) for call in run["tool_calls"]] == [
        ("echo", {"text": "x"}, "x")
    ]
    assert run["usage"] == {"input_tokens": 4, "output_tokens": 2, "usd": 0.0}
    assert (run["session_id"], run["message_id"], run["task_id"]) == ("s1", "m1", TASK)


async def test_another_instruction_gives_its_text(http: httpx2.AsyncClient, speaker: Speaker, store: Store) -> None:
    asking = asyncio.create_task(http.post("/v1/instructions/executor/run", json=RUN))
    await arrived(store)
    await speaker.turn("m1", "forty-two")
    run = (await asking).json()
    assert (run["status"], run["content"], "data" in run) == ("completed", "forty-two", False)


async def test_a_failed_run_is_an_answer_too_and_says_why(
    http: httpx2.AsyncClient, speaker: Speaker, store: Store
) -> None:
    await http.post("/v1/instructions", json=COUNTER)
    asking = asyncio.create_task(http.post("/v1/instructions/counter/run", json=RUN))
    await arrived(store)
    await speaker.routed("m1")
    await speaker.say("error", code="model_error", message="it is not JSON")
    await speaker.say("task_end", status="failed", reason="model_error", steps=4)
    run = (await asking).json()
    assert (run["status"], run["error"]) == ("failed", {"code": "model_error", "message": "it is not JSON"})
    assert "data" not in run


async def test_when_time_is_up_it_is_202_and_the_same_id_brings_the_run(
    http: httpx2.AsyncClient, speaker: Speaker, store: Store
) -> None:
    early = await http.post("/v1/instructions/executor/run?wait=0.05", json=RUN)
    assert early.status_code == 202
    assert early.json() == {"session_id": "s1", "message_id": "m1", "task_id": None, "instruction": "executor"}
    await speaker.turn("m1", "at last")
    await store.call("SET", "pentad:{0}:seen:default:s1:m1", "1-0")
    again = await http.post("/v1/instructions/executor/run", json=RUN)
    assert (again.status_code, again.json()["content"]) == (200, "at last")
    assert await store.call("XLEN", INBOUND.key()) == 1


async def test_without_a_session_it_has_one_of_its_own(http: httpx2.AsyncClient) -> None:
    answers = [await http.post("/v1/instructions/executor/run?wait=0", json={"input": "hi"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert len({answer.json()["session_id"] for answer in answers}) == 2


async def test_the_turns_events_come_as_a_stream_that_ends_with_it(
    http: httpx2.AsyncClient, speaker: Speaker, store: Store
) -> None:
    await speaker.turn("m0", "earlier")
    accept = {"accept": "text/event-stream"}
    url = "/v1/instructions/executor/run"
    async with http.stream("POST", url, json=RUN, headers=accept) as response, asyncio.timeout(PATIENCE_S):
        assert response.headers["content-type"].startswith("text/event-stream")
        await arrived(store)
        await speaker.say("task_start", goal="another's", task="task-0-other")
        await speaker.turn("m1", "42")
        text = "".join([part async for part in response.aiter_text()])
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events if event["type"] != "content"] == [
        "message_routed",
        "task_start",
        "message",
        "task_end",
    ]
    assert {event["task_id"] for event in events} == {TASK}


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("nobody", RUN, 404),
        ("@version", RUN, 404),
        ("x" * 200, RUN, 404),
        ("executor", {}, 422),
        ("executor", {"input": ["hi"]}, 422),
        ("executor", {"input": "hi", "instruction": "poet"}, 422),
        ("executor", {"input": "hi", "session_id": 7}, 422),
        ("executor", {"input": "hi", "session_id": "a b"}, 400),
        ("executor", {"input": "hi", "message_id": "a b"}, 422),
        ("executor", {"input": "hi", "deadline": "tomorrow"}, 422),
        ("executor", {"input": "hi", "metadata": {"a": 1}}, 422),
        ("executor", {"input": "hi", "budget": {"steps": -1}}, 422),
        ("executor", {"input": "x" * (1 << 20)}, 413),
    ],
)
async def test_what_cannot_be_run_is_refused_and_nothing_is_appended(
    http: httpx2.AsyncClient, store: Store, name: str, body: dict[str, Any], status: int
) -> None:
    assert len(problem(await http.post(f"/v1/instructions/{name}/run?wait=1", json=body), status)) < 1100
    assert await store.call("XLEN", INBOUND.key()) == 0


async def test_an_instruction_that_was_just_registered_can_be_run(http: httpx2.AsyncClient) -> None:
    problem(await http.post("/v1/instructions/poet/run?wait=0", json=RUN), 404)
    await http.post("/v1/instructions", json=POET)
    assert (await http.post("/v1/instructions/poet/run?wait=0", json=RUN)).status_code == 202
