"""OpenAI's routes keep tenants apart, and refuse in OpenAI's form what they cannot read."""

import json
from typing import Any

import httpx2
import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.streams import INBOUND
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.protocols.openai.chat_request import REQUEST_LIMIT
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import NO_TLS, running
from tests.integration.gateway.speaker import Speaker
from tests.support.waiting import PATIENCE_S, wait_until

CHAT = "/openai/v1/chat/completions"
BODY: dict[str, Any] = {"model": "pentad", "messages": [{"role": "user", "content": "hi"}]}


def rest(service: GatewayService, key: str | None) -> httpx2.AsyncClient:
    held = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx2.AsyncClient(
        base_url=service.address, verify=NO_TLS, trust_env=False, timeout=PATIENCE_S, headers=held
    )


async def inbound(url: str) -> list[InboundMessage]:
    """The messages that were accepted."""
    store = Store(url)
    try:
        entries = await store.call("XRANGE", INBOUND.key(), "-", "+")
    finally:
        await store.close()
    return [InboundMessage.model_validate_json(dict(zip(f[::2], f[1::2], strict=True))[b"data"]) for _, f in entries]


async def test_nobody_is_served_without_a_key_and_tenants_have_conversations_of_their_own(redis_url: str) -> None:
    async with (
        running(redis_url, pentad_api_keys="ka:acme,kb:bolt") as service,
        rest(service, None) as nobody,
        rest(service, "ka") as acme,
        rest(service, "kb") as bolt,
    ):
        for method, path in (("POST", CHAT), ("GET", "/openai/v1/models"), ("GET", "/openai/v1/models/pentad")):
            refused = await nobody.request(method, path)
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (401, "invalid_api_key")
            assert refused.headers["content-type"] == "application/json"
        token = (await acme.post("/v1/tokens", json={"session_id": "s1", "may": ["read", "send"]})).json()["token"]
        async with rest(service, token) as page:
            refused = await page.post(CHAT, json=BODY)
            assert (refused.status_code, refused.json()["error"]["type"]) == (403, "permission_error")
        for http in (acme, bolt):
            async with http.stream("POST", CHAT, json=BODY | {"stream": True}) as response:
                assert response.status_code == 200
        said = await inbound(redis_url)
        assert [message.tenant_id for message in said] == ["acme", "bolt"]
        assert len({message.session_id for message in said}) == 2


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"", {}, 400),
        (b"[]", {}, 400),
        (b"{", {}, 400),
        (b'{"model": "pentad"}', {}, 400),
        (b'{"model": "pentad/nobody", "messages": [{"role": "user", "content": "hi"}]}', {}, 404),
        (b'{"model": "pentad", "messages": [{"role": "user", "content": "hi"}]}', {"X-Pentad-Session": "a b"}, 400),
        (b'{"model": "pentad", "messages": [{"role": "user", "content": "hi"}]}', {"X-Pentad-Chat": "a/b"}, 400),
        (b'{"model": "pentad", "messages": [{"role": "user", "content": "hi"}]}', {"Content-Encoding": "gzip"}, 415),
        (b'{"model": "pentad-utility", "messages": [7]}', {}, 400),
        (b'{"messages": ' + b"[" * 50_000, {}, 400),
        (b'{"model": "' + b"x" * (1 << 20) + b'"}', {}, 413),
        (b" " * (REQUEST_LIMIT + 1), {}, 413),
    ],
)
async def test_what_cannot_be_read_is_refused_in_openais_form_and_appends_nothing(
    http: httpx2.AsyncClient, redis_url: str, content: bytes, headers: dict[str, str], status: int
) -> None:
    refused = await http.post(CHAT, content=content, headers=headers)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (status, "false")
    assert set(refused.json()["error"]) == {"message", "type", "param", "code"}
    assert await inbound(redis_url) == []


RESPONSES = "/openai/v1/responses"


async def test_a_response_is_its_tenants_alone(redis_url: str) -> None:
    async with (
        running(redis_url, pentad_api_keys="ka:acme,kb:bolt") as service,
        rest(service, "ka") as acme,
        rest(service, "kb") as bolt,
    ):
        body = {"model": "pentad", "input": "hi", "background": True}
        made = (await acme.post(RESPONSES, json=body)).json()
        assert made["status"] == "queued"
        place = f"{RESPONSES}/{made['id']}"
        for method, path in (("GET", place), ("DELETE", place), ("POST", f"{place}/cancel")):
            assert (await bolt.request(method, path)).status_code == 404
        stolen = {"model": "pentad", "input": "hi", "previous_response_id": made["id"]}
        assert (await bolt.post(RESPONSES, json=stolen)).status_code == 404
        assert (await acme.get(place)).json()["status"] == "in_progress"
        assert {message.tenant_id for message in await inbound(redis_url)} == {"acme"}


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b'{"model": "pentad"}', 400),
        (b'{"model": "pentad", "input": "hi", "previous_response_id": "resp_x"}', 404),
        (b'{"model": "pentad", "input": "hi", "conversation": "a b"}', 400),
        (b'{"model": "pentad-utility", "input": "hi"}', 400),
    ],
)
async def test_no_response_is_begun_of_what_cannot_be_read(
    http: httpx2.AsyncClient, redis_url: str, content: bytes, status: int
) -> None:
    assert (await http.post(RESPONSES, content=content)).status_code == status
    for name in ("x", "resp_x", "resp_%00", "resp_" + "x" * 200):
        assert (await http.get(f"{RESPONSES}/{name}")).status_code == 404
    assert await inbound(redis_url) == []


async def test_paths_and_methods_that_are_not_there_are_refused_in_openais_form(http: httpx2.AsyncClient) -> None:
    absent = [("GET", CHAT, 405), ("GET", "/openai/v1/files", 404), ("GET", "/openai/v1/models/x", 404)]
    for method, path, status in absent:
        refused = await http.request(method, path)
        assert (refused.status_code, set(refused.json())) == (status, {"error"})


async def test_a_gateway_that_stops_cancels_nothing_and_the_same_request_at_another_is_the_same_message(
    redis_url: str,
) -> None:
    answers = set[str]()
    for _ in range(3):
        async with (
            running(redis_url) as service,
            rest(service, None) as http,
            http.stream("POST", CHAT, json=BODY | {"stream": True}) as response,
        ):
            lines = response.aiter_lines()
            answers.add(json.loads((await anext(lines)).removeprefix("data: "))["id"])
            await service.stop()
            assert [line async for line in lines if "data" in line] == []
    said = {(message.message_id, message.session_id) for message in await inbound(redis_url)}
    assert len(said) == 1, "the router accepts an id once in a session"
    assert answers == {f"chatcmpl-{message_id}" for message_id, _ in said}


async def test_every_key_of_a_conversation_has_an_end(redis_url: str) -> None:
    chat = {"X-Pentad-Chat": "c1"}
    async with running(redis_url) as service, rest(service, None) as http:
        for headers in ({}, chat, {"Idempotency-Key": "k1"}):
            async with http.stream("POST", CHAT, json=BODY | {"stream": True}, headers=headers):
                pass
        store = Store(redis_url)
        try:

            async def found() -> list[bytes]:
                keys: list[bytes] = await store.call("KEYS", "pentad:{*}:chat:*")
                return keys

            keys = await wait_until("the keys", found)
            assert all([await store.call("TTL", key) > 0 for key in keys])
            assert any(b":request:" in key for key in keys)
            assert any(b":place:" in key for key in keys)
        finally:
            await store.close()


@pytest.mark.parametrize(
    ("path", "form"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "count"}], "response_format": {"type": "json_object"}}),
        ("/openai/v1/responses", {"input": "count", "text": {"format": {"type": "json_object"}}}),
    ],
)
async def test_json_is_one_value_in_a_stream_also_of_a_turn_that_has_said_two(
    http: httpx2.AsyncClient, redis_url: str, store: Store, path: str, form: dict[str, Any]
) -> None:
    """A message that overtakes the end has the task answer twice."""
    async with http.stream("POST", path, json={"model": "pentad", "stream": True} | form) as response:
        [asked] = await inbound(redis_url)
        speaker = Speaker(store, asked.session_id or "")
        await speaker.routed(asked.message_id or "")
        for step in (1, 2):
            await speaker.delta(f'{{"n": {step}', 0, step=step)
            await speaker.say("message", step=step, attempt=1, content=f'{{"n": {step}}}')
        await speaker.say("task_end", status="completed", steps=2)
        lines = [line.removeprefix("data: ") async for line in response.aiter_lines() if line.startswith("data: {")]
    told = [json.loads(line) for line in lines]
    if path == CHAT:
        texts = [text for each in told for choice in each["choices"] if (text := choice["delta"].get("content"))]
    else:
        texts = [each["delta"] for each in told if each["type"] == "response.output_text.delta"]
        kept = (await http.get(f"{path}/{told[0]['response']['id']}")).json()
        assert [json.loads(item["content"][0]["text"]) for item in kept["output"]] == [{"n": 2}]
    assert [json.loads(text) for text in texts] == [{"n": 2}]
