"""Turns stop for tools of their client, and have not ended while nobody has taken up the results that it sent."""

import json
from typing import Any

import httpx2
import pytest

from pentad.contracts.turns import ASKED, NEEDS_APPROVAL, NEEDS_CLIENT
from pentad.services.gateway.protocols.openai.kept_calls import KeptCall, KeptClientCalls
from pentad.services.gateway.tasks.event_stream import HEARTBEAT_S
from pentad.shared.actors.client_tools import CLIENT_CALL
from pentad.shared.inbound.arrival import message_digest
from pentad.shared.keys import TaskKeys
from pentad.shared.store.store import Store
from tests.integration.gateway.speaker import TASK, Speaker
from tests.integration.gateway.test_openai import CHAT, inbound

CALL = "call-0-a"
A_THOUGHT: dict[str, Any] = {"step": 1, "attempt": 1, "offset": 0, "content": "hm", "ring": False}
STEPS = {"begun": 0, "steps": 1}
RESPONSES = "/openai/v1/responses"
NESTED_TOOL = {"type": "function", "function": {"name": "get_place"}}
TOOL = {"type": "function", "name": "get_place", "parameters": {"type": "object"}}


async def waits_for_client(speaker: Speaker, message: str, *calls: str) -> TaskKeys:
    """The task of a message waits for its client, as router and runner write it."""
    await speaker.session({"role": "user", "content": "where?", "message_id": message})
    await speaker.routed(message)
    opened = json.dumps([[call, "get_place", "", "client"] for call in calls])
    keys = await speaker.task(
        status="waiting", reason=NEEDS_CLIENT, open=opened, correlation=message, step=1, turn_steps=1
    )
    about: dict[str, Any] = {"correlation_id": message}
    for call in calls:
        await speaker.store.call("HSET", keys.calls, call, CLIENT_CALL)
        await speaker.say("tool_call", tool_call_id=call, tool="get_place", args={}, client=True, **about)
    await speaker.say("task_status", status="waiting", reason=NEEDS_CLIENT, **about)
    return keys


async def goes_on(speaker: Speaker) -> None:
    """A runner takes the result up, and the task completes."""
    await speaker.task(status="active", open="[]")
    await speaker.say("message", step=2, attempt=1, content="in Berlin")
    await speaker.task(status="completed", reason="answered")
    await speaker.say("task_end", status="completed", steps=2)


async def test_a_response_in_the_background(http: httpx2.AsyncClient, redis_url: str, store: Store) -> None:
    body: dict[str, Any] = {"model": "pentad", "input": "where?", "tools": [TOOL], "background": True}
    first = (await http.post(RESPONSES, json=body)).json()
    [asked] = await inbound(redis_url)
    speaker = Speaker(store, asked.session_id or "")
    await waits_for_client(speaker, asked.message_id or "", CALL)
    stopped = (await http.get(f"{RESPONSES}/{first['id']}")).json()
    assert ([item["type"] for item in stopped["output"]], stopped["status"]) == (["function_call"], "completed")
    output = [{"type": "function_call_output", "call_id": CALL, "output": "Berlin"}]
    behind = body | {"input": output, "previous_response_id": first["id"]}
    second = (await http.post(RESPONSES, json=behind)).json()
    shown = (await http.get(f"{RESPONSES}/{second['id']}")).json()
    assert (shown["status"], shown["output"]) == ("in_progress", [])
    await goes_on(speaker)
    shown = (await http.get(f"{RESPONSES}/{second['id']}")).json()
    assert (shown["status"], shown["output"][0]["content"][0]["text"]) == ("completed", "in Berlin")


async def test_events_that_are_not_kept_any_more(http: httpx2.AsyncClient, redis_url: str, store: Store) -> None:
    """A result may take longer than a session's events are kept: then the turn goes on from a snapshot."""
    body: dict[str, Any] = {"model": "pentad", "input": "where?", "tools": [TOOL], "background": True}
    first = (await http.post(RESPONSES, json=body)).json()
    [asked] = await inbound(redis_url)
    speaker = Speaker(store, asked.session_id or "")
    keys = await waits_for_client(speaker, asked.message_id or "", CALL)
    assert (await http.get(f"{RESPONSES}/{first['id']}")).json()["status"] == "completed"
    await store.call("XTRIM", speaker.keys.events, "MAXLEN", 0)
    output = [{"type": "function_call_output", "call_id": CALL, "output": "Berlin"}]
    behind = {"model": "pentad", "input": output, "previous_response_id": first["id"], "stream": True}
    told = list[dict[str, Any]]()
    async with http.stream("POST", RESPONSES, json=behind) as response:
        assert await store.call("HLEN", keys.calls) == 0
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                told.append(json.loads(line.removeprefix("data: ")))
            if line.startswith(": alive"):  # the snapshot was read
                await goes_on(speaker)
    assert "".join(each["delta"] for each in told if each["type"] == "response.output_text.delta") == "in Berlin"
    assert told[-1]["type"] == "response.completed"


@pytest.mark.parametrize("reason", [ASKED, NEEDS_APPROVAL])
async def test_a_task_that_waits_for_a_person_too_says_so_soon(
    http: httpx2.AsyncClient, redis_url: str, store: Store, reason: str
) -> None:
    """No event says again for what the task waits, and clients that run tools in a loop send results at once."""
    body: dict[str, Any] = {"model": "pentad", "input": "where?", "tools": [TOOL], "background": True}
    first = (await http.post(RESPONSES, json=body)).json()
    [asked] = await inbound(redis_url)
    speaker = Speaker(store, asked.session_id or "")
    await waits_for_client(speaker, asked.message_id or "", CALL)
    await speaker.task(status="waiting", reason=reason)
    assert (await http.get(f"{RESPONSES}/{first['id']}")).json()["status"] == "completed"
    output = [{"type": "function_call_output", "call_id": CALL, "output": "Berlin"}]
    behind = {"model": "pentad", "input": output, "previous_response_id": first["id"]}
    shown = (await http.post(RESPONSES, json=behind, timeout=HEARTBEAT_S / 2)).json()
    assert shown["output"][0]["content"][0]["text"] == f"(The task waits: {reason}.)"


async def test_a_message_instead_of_a_result(http: httpx2.AsyncClient, redis_url: str, store: Store) -> None:
    body: dict[str, Any] = {"model": "pentad", "input": "where?", "background": True, "conversation": "s1"}
    await http.post(RESPONSES, json=body)
    speaker = Speaker(store)
    keys = await waits_for_client(speaker, (await inbound(redis_url))[0].message_id or "", CALL)
    second = (await http.post(RESPONSES, json=body | {"input": "never mind"})).json()
    said = (await inbound(redis_url))[1].message_id or ""
    await speaker.routed(said, "append")
    await store.call("ZADD", keys.messages, 1, "1 user {}")
    shown = (await http.get(f"{RESPONSES}/{second['id']}")).json()
    assert (shown["status"], shown["output"]) == ("in_progress", [])


async def test_calls_that_two_gateways_kept_get_their_results_together(
    http: httpx2.AsyncClient, redis_url: str, store: Store
) -> None:
    """One was killed after the first of two calls: what it had read of the events is not what the next one reads."""
    body: dict[str, Any] = {"model": "pentad", "input": "where?", "tools": [TOOL], "background": True}
    first = (await http.post(RESPONSES, json=body)).json()
    [asked] = await inbound(redis_url)
    speaker = Speaker(store, asked.session_id or "")
    keys = await waits_for_client(speaker, asked.message_id or "", CALL, "call-0-b")
    kept = KeptCall(session=speaker.keys.session, task=TASK, after=await speaker.say("thinking", **A_THOUGHT), **STEPS)
    await KeptClientCalls(store, 1, 60).keep("default", [CALL], kept)
    assert (await http.get(f"{RESPONSES}/{first['id']}")).json()["status"] == "completed"
    output = [{"type": "function_call_output", "call_id": call, "output": "Berlin"} for call in (CALL, "call-0-b")]
    behind = body | {"input": output, "previous_response_id": first["id"]}
    assert (await http.post(RESPONSES, json=behind)).status_code == 200
    assert await store.call("HLEN", keys.calls) == 0, "both have their results"


async def test_a_run_of_ag_ui(http: httpx2.AsyncClient, store: Store) -> None:
    speaker = Speaker(store)
    await waits_for_client(speaker, "m1", CALL)
    messages = [{"id": "t", "role": "tool", "toolCallId": CALL, "content": "Berlin"}]
    body = {"threadId": "s1", "runId": "r2", "messages": messages}
    told = list[dict[str, Any]]()
    async with http.stream("POST", "/agui", json=body) as response:
        async for line in response.aiter_lines():
            if line.startswith(": alive"):  # it was looked at the task
                await goes_on(speaker)
            if line.startswith("data: "):
                told.append(json.loads(line.removeprefix("data: ")))
    assert [each["delta"] for each in told if each["type"] == "TEXT_MESSAGE_CONTENT"] == ["in Berlin"]
    assert told[-1]["type"] == "RUN_FINISHED"


@pytest.mark.parametrize(
    ("path", "said", "tool", "mark"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "where?"}]}, NESTED_TOOL, '"tool_calls":['),
        (RESPONSES, {"input": "where?"}, TOOL, '"type":"function_call"'),
    ],
)
async def test_a_client_that_leaves_as_soon_as_it_has_the_call(
    http: httpx2.AsyncClient, redis_url: str, store: Store, path: str, said: Any, tool: Any, mark: str
) -> None:
    """The turn has stopped for the client: to close the stream then does not cancel it."""
    async with http.stream("POST", path, json={"model": "pentad", "tools": [tool], "stream": True} | said) as response:
        [asked] = await inbound(redis_url)
        speaker = Speaker(store, asked.session_id or "")
        keys = await waits_for_client(speaker, asked.message_id or "", CALL)
        async for line in response.aiter_lines():
            if mark in line:
                break
        else:
            pytest.fail("no call was told")
        assert await KeptClientCalls(store, 1, 60).read("default", CALL) is not None
    assert await store.call("ZCARD", keys.signals) == 0


async def test_a_turn_whose_results_nobody_has_taken_up_goes_on(
    http: httpx2.AsyncClient, redis_url: str, store: Store
) -> None:
    """`GET /v1/runs`, and a run that is asked for again, must not tell of calls that have their results."""
    body = {"input": "where?", "session_id": "s1", "message_id": "m1", "tools": [{"name": "get_place"}]}
    run, state = "/v1/instructions/executor/run", "/v1/runs/m1?session_id=s1"
    assert (await http.post(f"{run}?wait=0", json=body)).status_code == 202
    [asked] = await inbound(redis_url)
    assert [tool.name for tool in asked.tools or ()] == ["get_place"]
    await store.call("SET", "pentad:{0}:seen:default:s1:m1", f"1-0 {message_digest(asked)}")
    speaker = Speaker(store, "s1")
    await waits_for_client(speaker, "m1", CALL)
    waits = (await http.post(run, json=body)).json()
    assert (waits["status"], waits["tool_calls"][0]["result"]) == ("waiting", None)
    assert (await http.get(state)).json()["status"] == "waiting"
    sent = await http.post(f"/v1/tasks/{TASK}/calls/{CALL}/result", json={"result": "Berlin"})
    assert sent.status_code == 200
    assert (await http.get(state)).json()["status"] == "running"
    assert (await http.post(f"{run}?wait=0.3", json=body)).status_code == 202
    await goes_on(speaker)
    assert (await http.get(state)).json()["status"] == "completed"
    ended = (await http.post(run, json=body)).json()
    assert (ended["status"], ended["content"]) == ("completed", "in Berlin")
