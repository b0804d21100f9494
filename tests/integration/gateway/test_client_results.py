"""Results of tools that clients run, over REST and WebSocket: the first counts, hostile ones are refused."""

import json
from typing import Any

import httpx2
import pytest

from pentad.contracts.client_tools import MAX_CLIENT_RESULT
from pentad.services.gateway.app import GatewayService
from pentad.shared.actors.client_tools import CLIENT_CALL
from pentad.shared.keys import TaskKeys
from tests.integration.gateway.conftest import opened, running
from tests.integration.gateway.speaker import TASK, Speaker
from tests.integration.gateway.test_tokens import KEYS, rest, token_for

CALL = "call-0-a"
URL = f"/v1/tasks/{TASK}/calls/{CALL}/result"


async def asks(speaker: Speaker, call: str = CALL) -> TaskKeys:
    """A call of the task waits for its client, as the task-runner writes it."""
    opened_call = json.dumps([[call, "get_place", "", "client"]])
    keys = await speaker.task(status="waiting", reason="client_tools", open=opened_call, correlation="m1")
    await speaker.store.call("HSET", keys.calls, call, CLIENT_CALL)
    return keys


async def results(speaker: Speaker, keys: TaskKeys) -> list[dict[str, Any]]:
    """The results that the task has got."""
    mail = await speaker.store.call("ZRANGE", keys.signals, 0, -1)
    return [json.loads(each.split(b" result ", 1)[1]) for each in mail]


async def test_the_first_result_is_told_and_the_same_again_changes_nothing(
    http: httpx2.AsyncClient, speaker: Speaker
) -> None:
    keys = await asks(speaker)
    for _ in range(2):
        taken = await http.post(URL, json={"result": {"city": "Berlin"}})
        assert (taken.status_code, taken.json()) == (200, {"task_id": TASK, "tool_call_id": CALL})
    other = await http.post(URL, json={"result": "in Bonn"})
    assert (other.status_code, "another result was sent before" in other.json()["detail"]) == (409, True)
    assert [(each["content"], each["ok"]) for each in await results(speaker, keys)] == [('{"city":"Berlin"}', True)]
    (entry,) = await speaker.store.call("XRANGE", speaker.keys.events, "-", "+")
    event = json.loads(entry[1][1])
    told = ("type", "tool", "result", "correlation_id", "task_id")
    assert [event[name] for name in told] == ["tool_result", "get_place", '{"city":"Berlin"}', "m1", TASK]


@pytest.mark.parametrize(
    ("url", "body", "status", "why"),
    [
        (URL, {}, 422, "`result` is expected"),
        (URL, {"result": "x", "error": "y"}, 422, "either"),
        (URL, {"error": None}, 422, "error: a text"),
        (URL, {"error": 7}, 422, "error: a text"),
        (URL, {"result": "x", "task_id": "t"}, 422, "task_id: not known"),
        (URL, {"result": "x" * (MAX_CLIENT_RESULT + 1)}, 422, "524,288 bytes"),
        (f"/v1/tasks/{TASK}/calls/call-0-b/result", {"result": "x"}, 404, "waits for its client"),
        (f"/v1/tasks/{TASK}/calls/a%20b/result", {"result": "x"}, 404, "no such call"),
        ("/v1/tasks/task-0-nope/calls/call-0-a/result", {"result": "x"}, 404, "no task"),
        ("/v1/tasks/task-9-nope/calls/call-0-a/result", {"result": "x"}, 404, "no task"),
    ],
)
async def test_what_is_no_result_of_an_open_call_is_refused(
    http: httpx2.AsyncClient, speaker: Speaker, url: str, body: Any, status: int, why: str
) -> None:
    keys = await asks(speaker)
    refused = await http.post(url, json=body)
    assert (refused.status_code, why in refused.json()["detail"]) == (status, True), refused.text
    assert await results(speaker, keys) == []
    assert (await http.post(URL, json={"result": "x"})).status_code == 200


async def test_a_call_of_a_tool_worker_takes_no_result_of_a_client(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await asks(speaker)
    for state in ("open 0", "started 1 x", "asks 99999999999999 ab"):
        await speaker.store.call("HSET", keys.calls, CALL, state)
        assert (await http.post(URL, json={"result": "x"})).status_code == 404
    await speaker.task(status="completed")
    ended = await http.post(URL, json={"result": "x"})
    assert (ended.status_code, "has ended" in ended.json()["detail"]) == (409, True)
    assert await results(speaker, keys) == []


async def test_a_result_is_sent_over_the_websocket_and_told_to_all(gateway: GatewayService, speaker: Speaker) -> None:
    keys = await asks(speaker)
    async with opened(gateway.address) as client:
        for wrong in ({}, {"task_id": TASK}, {"task_id": TASK, "tool_call_id": CALL}, {"task_id": 7, "result": "x"}):
            await client.send(type="result", **wrong)
            assert (await client.receive())["code"] == "bad_message"
        await client.send(type="result", task_id=TASK, tool_call_id=CALL, error="nobody is here")
        event = await client.receive()
        assert (event["type"], event["error"]) == ("tool_result", "nobody is here")
        await client.send(type="result", task_id=TASK, tool_call_id=CALL, result="here")
        assert (await client.receive())["code"] == "not_allowed"
    assert [(each["content"], each["ok"]) for each in await results(speaker, keys)] == [
        ("error: nobody is here", False)
    ]


async def test_a_token_needs_the_right_to_send_and_reaches_its_session_alone(redis_url: str, speaker: Speaker) -> None:
    await asks(Speaker(speaker.store, tenant="acme"))
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        wrong: list[dict[str, Any]] = [{"may": ["read", "approve"]}, {"session_id": "s2", "may": ["send"]}]
        for asked in wrong:
            async with rest(service, await token_for(service, **asked)) as page:
                assert (await page.post(URL, json={"result": "x"})).status_code in (403, 404)
        async with rest(service, await token_for(service, may=["send"])) as page:
            assert (await page.post(URL, json={"result": "x"})).status_code == 200
