"""AG-UI's routes keep tenants apart and refuse what they cannot read."""

from typing import Any

import httpx2
import pytest

from pentad.services.gateway.app import GatewayService
from pentad.shared.actors.client_tools import CLIENT_CALL
from tests.integration.gateway.conftest import NO_TLS, running
from tests.integration.gateway.speaker import TASK, Speaker
from tests.integration.gateway.test_approvals import asks
from tests.support.waiting import PATIENCE_S

BODY: dict[str, Any] = {"threadId": "s1", "runId": "r1", "messages": [{"id": "u", "role": "user", "content": "hi"}]}


def rest(service: GatewayService, key: str | None) -> httpx2.AsyncClient:
    held = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx2.AsyncClient(
        base_url=service.address, verify=NO_TLS, trust_env=False, timeout=PATIENCE_S, headers=held
    )


async def test_nothing_is_served_without_a_key_and_nobody_elses_run(redis_url: str) -> None:
    async with running(redis_url, pentad_api_keys="ka:acme,kb:bolt") as service, rest(service, "ka") as acme:
        async with rest(service, None) as nobody, rest(service, "kb") as bolt:
            for http, status in ((nobody, 401), (bolt, 404)):
                assert (await http.get("/agui/runs/r1?threadId=s1")).status_code == status
            assert (await nobody.post("/agui", json=BODY)).status_code == 401
            resumed = BODY | {"resume": [{"interruptId": "task-0-a/call-0-b", "status": "resolved", "payload": True}]}
            assert (await bolt.post("/agui", json=resumed)).status_code == 404
        async with acme.stream("POST", "/agui", json=BODY) as response:
            assert response.status_code == 200
            async for line in response.aiter_lines():
                assert line.startswith('data: {"type":"RUN_STARTED"')
                break


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        (BODY | {"threadId": "a/b c"}, 422),
        (BODY | {"messages": []}, 422),
        (BODY | {"forwardedProps": {"pentad": {"tenant_id": "acme"}}}, 422),
        (BODY | {"forwardedProps": {"pentad": {"state": 7}}}, 422),
        (BODY | {"messages": [{"role": "tool", "toolCallId": "a b", "content": "x"}, *BODY["messages"]]}, 422),
        (BODY | {"messages": [*BODY["messages"], {"role": "tool", "toolCallId": "c", "content": 7}]}, 422),
        (BODY | {"messages": [*BODY["messages"], {"role": "tool", "toolCallId": "c", "content": "x"}]}, 404),
        (BODY | {"tools": [{"name": "ask_user", "description": "", "parameters": {}}]}, 422),
        (BODY | {"resume": [{"interruptId": "task-0-a", "status": "resolved"}]}, 422),
        (BODY | {"resume": [{"interruptId": "task-0-a/c", "status": "resolved", "payload": "yes"}]}, 422),
        (BODY | {"resume": [{"interruptId": "task-0-a/c", "status": "resolved", "payload": True}]}, 404),
    ],
)
async def test_what_cannot_be_read_is_refused_and_appends_nothing(
    http: httpx2.AsyncClient, body: dict[str, Any], status: int
) -> None:
    assert (await http.post("/agui", json=body)).status_code == status
    assert (await http.get("/v1/sessions")).json()["items"] == []


async def test_a_wrong_cursor_and_an_unknown_run_are_told(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/agui/runs/r1?threadId=s1&after=x")).status_code == 400
    assert (await http.get("/agui/runs/r1?threadId=s1")).status_code == 404
    assert (await http.get("/agui/runs/r1")).status_code == 400


@pytest.mark.parametrize("call", ["/call-0-a", ""], ids=["a decision", "an answer"])
async def test_results_that_come_with_an_answer_to_the_task_are_taken_too(
    http: httpx2.AsyncClient, speaker: Speaker, call: str
) -> None:
    """Else the task would wait for what its client has sent already."""
    keys = await asks(speaker)
    await speaker.session()
    await speaker.task(open='[["call-0-a", "send_mail", "", "approval"], ["call-0-c", "get_place", "", "client"]]')
    await speaker.store.call("HSET", keys.calls, "call-0-c", CLIENT_CALL)
    answered = {"interruptId": f"{TASK}{call}", "status": "resolved", "payload": True if call else "yes"}
    messages = [*BODY["messages"], {"id": "t", "role": "tool", "toolCallId": "call-0-c", "content": "in Berlin"}]
    async with http.stream("POST", "/agui", json=BODY | {"messages": messages, "resume": [answered]}) as response:
        assert response.status_code == 200, await response.aread()
    assert await speaker.store.call("HGET", keys.calls, "call-0-c") is None
    mail = await speaker.store.call("ZRANGE", keys.signals, 0, -1)
    assert [each.split(b" ")[1] for each in mail] == ([b"result", b"approval"] if call else [b"result"])
