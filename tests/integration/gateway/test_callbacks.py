"""The callback of a message: noted alike on each way in, before the message gets to its session, or refused."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.streams import INBOUND, INBOUND_DEAD
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.webhooks import webhook_registry
from pentad.shared.inbound import callbacks as noting
from pentad.shared.inbound.ingress import Ingress
from pentad.shared.keys import SessionKeys, callback, callbacks
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import NO_TLS, opened, running
from tests.integration.gateway.speaker import Speaker
from tests.integration.gateway.test_instructions import problem
from tests.support.outside.webhook_receiver import OTHER_SECRET, SECRET, Receiver, is_signed, webhook_receiver
from tests.support.processes.running import beside
from tests.support.waiting import PATIENCE_S, wait_until

Json = dict[str, Any]
KEYS = SessionKeys(0, "default", "s1")
NAME = KEYS.callback_id("m1")
SEALING = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


@dataclass
class System:
    """A gateway, and a router that moves messages to their sessions; nobody else works."""

    gateway: GatewayService
    http: httpx2.AsyncClient
    receiver: Receiver
    store: Store

    async def rest(self, body: Json) -> Json:
        answered = await self.http.post("/v1/messages", json=body)
        assert answered.status_code == 202, answered.text
        found: Json = answered.json()
        return found

    async def websocket(self, body: Json) -> Json:
        async with opened(self.gateway.address) as client:
            await client.send(type="message", **body)
            frames = await client.until(lambda frame: frame["type"] in ("accepted", "error"))
            return frames[-1]

    async def xadd(self, body: Json) -> Json:
        entry = await self.store.call("XADD", INBOUND.key(), "*", "data", json.dumps(body))
        return {"entry": entry.decode()}


WAYS = pytest.mark.parametrize("way", [System.rest, System.websocket, System.xadd])
Way = Callable[[System, Json], Awaitable[Json]]


@pytest.fixture
async def settings() -> Json:
    return {}


@pytest.fixture
async def system(redis_url: str, store: Store, settings: Json) -> AsyncIterator[System]:
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(webhook_receiver())
        gateway = await stack.enter_async_context(running(redis_url, pentad_web_allow=receiver.place, **settings))
        http = httpx2.AsyncClient(base_url=gateway.address, verify=NO_TLS, trust_env=False, timeout=PATIENCE_S)
        await stack.enter_async_context(http)
        routing = Settings(pentad_lease_s=0.5, pentad_web_allow=(receiver.place,))
        await stack.enter_async_context(beside(Ingress(store, routing).run()))
        yield System(gateway, http, receiver, store)


def asked(system: System, **more: Any) -> Json:
    return {"content": "hi", "session_id": "s1", "message_id": "m1", "callback_url": system.receiver.url()} | more


async def noted(store: Store) -> None:
    """Wait until a callback is noted."""
    await wait_until("the callback", lambda: store.call("EXISTS", callback(0, NAME)))


async def moved(store: Store) -> None:
    """Wait until a message lies in the mailbox of its session."""
    await wait_until("the message", lambda: store.call("EXISTS", KEYS.messages))


async def test_who_brings_tools_along_is_told_of_their_calls(system: System, speaker: Speaker) -> None:
    await system.rest(asked(system, tools=[{"name": "get_place"}]))
    await noted(system.store)
    await speaker.session()
    await speaker.routed("m1", task="task-0-m1")
    about: Json = {"task": "task-0-m1", "tool_call_id": "call-0-a", "tool": "get_place"}
    await speaker.say("tool_call", **about, args={}, client=True)
    await speaker.say("task_status", task="task-0-m1", status="waiting", reason="client_tools")
    await speaker.say("tool_result", **about, result="here")
    await speaker.say("task_end", task="task-0-m1", status="completed", steps=2)
    kinds = ["message_routed", "tool_call", "task_status", "task_end"]
    await wait_until("the end", lambda: [each["type"] for each in system.receiver.events()] == kinds)


@WAYS
async def test_the_turn_of_a_message_is_sent_to_its_callback(system: System, speaker: Speaker, way: Way) -> None:
    for _ in range(2):
        await way(system, asked(system, callback_secret=SECRET))
    await noted(system.store)
    await speaker.session()
    await speaker.turn("another")
    await speaker.routed("m1", task="task-0-m1")
    await speaker.say("task_status", task="task-0-m1", status="waiting", reason="approval")
    await speaker.say("message", step=1, attempt=1, content="not of it")
    await speaker.say("message", task="task-0-m1", step=1, attempt=1, content="the answer")
    await speaker.say("task_end", task="task-0-m1", status="completed", steps=1)
    await speaker.say("message", task="task-0-m1", step=2, attempt=1, content="of the next message")
    kinds = ["message_routed", "task_status", "message", "task_end"]
    await wait_until("the end", lambda: [each["type"] for each in system.receiver.events()] == kinds)
    assert all(is_signed(each, SECRET) for each in system.receiver.requests())
    await wait_until("nothing to be followed", lambda: _is_gone(system.store, callbacks(0)))


async def test_a_callback_that_comes_after_all_others_have_ended_is_followed(system: System, speaker: Speaker) -> None:
    for number in (1, 2, 3):
        await system.rest(asked(system, message_id=f"m{number}"))
        name = KEYS.callback_id(f"m{number}")
        await wait_until("the callback", partial(system.store.call, "EXISTS", callback(0, name)))
        await speaker.turn(f"m{number}")
        await wait_until("the end", partial(_has_come, system.receiver, 3 * number))
        await wait_until("nothing to be followed", lambda: _is_gone(system.store, callbacks(0)))


async def test_a_callback_without_a_secret_is_not_signed(system: System, speaker: Speaker) -> None:
    await system.rest(asked(system))
    await noted(system.store)
    await speaker.turn("m1")
    await wait_until("the end", lambda: len(system.receiver.events()) == 3)
    assert not [each for each in system.receiver.requests() if "webhook-signature" in each.headers]


@WAYS
@pytest.mark.parametrize("settings", [{}, {"pentad_secret_key": SEALING}])
async def test_no_session_gets_the_address_or_the_secret_of_a_callback(
    system: System, settings: Json, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """A gateway seals the secret before the message is appended; of a producer it is kept as it was written."""
    await way(system, asked(system, callback_secret=OTHER_SECRET))
    await noted(system.store)
    await moved(system.store)
    mail = str(await system.store.call("ZRANGE", KEYS.messages, 0, -1)) + caplog.text
    assert "hi" in mail
    assert OTHER_SECRET not in mail
    assert system.receiver.url() not in mail
    kept = (await system.store.call("GET", callback(0, NAME))).decode()
    entries = str(await system.store.call("XRANGE", INBOUND.key(), "-", "+"))
    sealed = bool(settings) and way is not System.xadd
    assert [OTHER_SECRET in text for text in (kept, entries)] == [not sealed, not sealed]


async def test_a_router_that_dies_behind_the_note_leaves_the_message_and_one_callback(
    store: Store, speaker: Speaker
) -> None:
    said = InboundMessage(content="hi", session_id="s1", message_id="m1", callback_url="https://example.com/")
    await store.call("XADD", INBOUND.key(), "*", "data", said.to_json())
    await noting.MessageCallbacks(store, ()).note(KEYS, said)
    first = await store.call("GET", callback(0, NAME))
    async with beside(Ingress(store, Settings(pentad_lease_s=0.5)).run()):
        await moved(store)
    assert await store.call("GET", callback(0, NAME)) == first
    assert await store.call("ZCARD", callbacks(0)) == 1


@WAYS
async def test_a_repeat_of_a_message_adds_no_callback(system: System, way: Way) -> None:
    plain = {name: value for name, value in asked(system).items() if name != "callback_url"}
    await way(system, plain)
    await moved(system.store)
    await way(system, asked(system))
    await way(system, asked(system, message_id="m2"))
    await wait_until("the last one", lambda: system.store.call("EXISTS", callback(0, KEYS.callback_id("m2"))))
    assert not await system.store.call("EXISTS", callback(0, NAME))


WRONG = pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"callback_url": "http://127.0.0.1:1/"}, "PENTAD_WEB_ALLOW"),
        ({"callback_url": "http://[::ffff:10.0.0.1]/"}, "PENTAD_WEB_ALLOW"),
        ({"callback_url": "https://example.com:99999/"}, "ports go from 1"),
        ({"callback_url": "nowhere"}, "callback_url: "),
        ({"callback_url": "https://example.com/" + "x" * 2_000}, "callback_url: "),
        ({"callback_url": 7}, "callback_url: "),
        ({"callback_secret": SECRET}, "callback_url: "),
        ({"callback_url": "https://example.com", "callback_secret": "hush-hush"}, "callback_secret: "),
        ({"callback_url": "https://example.com", "callback_secret": "pentad-secret:1:hush-hush"}, "callback_secret: "),
    ],
)


@WRONG
async def test_a_wrong_callback_is_refused_and_nothing_is_appended(system: System, change: Json, said: str) -> None:
    text = problem(await system.http.post("/v1/messages", json={"content": "hi"} | change), 422)
    frame = await system.websocket({"content": "hi", "message_id": "m1"} | change)
    assert (frame["code"], frame["message_id"]) == ("bad_message", "m1")
    for told in (text, frame["message"]):
        assert said in told
        assert "hush-hush" not in told
        assert SECRET not in told
    assert not await system.store.call("XLEN", INBOUND.key())
    assert not await system.store.call("EXISTS", callbacks(0))


@WRONG
async def test_a_producer_is_told_of_a_wrong_callback_and_the_message_is_set_aside(
    system: System, change: Json, said: str
) -> None:
    await system.xadd({"content": "hi", "session_id": "s1", "message_id": "m1"} | change)
    await system.xadd({"content": "the next", "session_id": "s1", "message_id": "m2"})
    await moved(system.store)
    ((_, fields),) = await system.store.call("XRANGE", KEYS.events, "-", "+")
    told = json.loads(fields[1])
    assert (told["type"], told["code"], told["message_id"]) == ("error", "bad_message", "m1")
    assert said.removesuffix("PENTAD_WEB_ALLOW") in told["message"]
    assert "hush-hush" not in told["message"]
    ((_, letter),) = await system.store.call("XRANGE", INBOUND_DEAD.key(), "-", "+")
    assert "hi" in str(letter)
    assert not await system.store.call("EXISTS", callbacks(0))


async def test_a_message_that_was_set_aside_is_redriven_with_its_callback(
    redis_url: str, store: Store, speaker: Speaker
) -> None:
    """The address was mended by an edit: the turn is sent there."""
    async with (
        webhook_receiver() as receiver,
        running(redis_url, pentad_web_allow=receiver.place, pentad_admin_key="boss") as gateway,
        httpx2.AsyncClient(
            base_url=gateway.address, verify=NO_TLS, trust_env=False, headers={"authorization": "Bearer boss"}
        ) as http,
        beside(Ingress(store, Settings(pentad_lease_s=0.5)).run()),
    ):
        wrong = {"content": "hi", "session_id": "s1", "message_id": "m1", "callback_url": "http://10.0.0.1/"}
        await store.call("XADD", INBOUND.key(), "*", "data", json.dumps(wrong))
        await wait_until("the letter", lambda: store.call("EXISTS", INBOUND_DEAD.key()))
        (letter,) = (await http.get("/v1/dead-letters")).json()["items"]
        path = f"/v1/dead-letters/{letter['id']}/redrive"
        assert "leave it out" in problem(await http.post(path), 409)
        assert (await http.post(path, json=wrong | {"callback_url": receiver.url()})).status_code == 202
        await moved(store)
        await speaker.turn("m1")
        await wait_until("the end", lambda: len(receiver.events()) == 3)


async def test_an_answer_that_is_busy_is_told_on_every_way(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost: what a gateway refuses was not appended, what a router refuses is set aside."""
    monkeypatch.setattr(webhook_registry, "MAX_CALLBACKS", 2)
    monkeypatch.setattr(noting, "MAX_CALLBACKS", 2)
    await system.xadd(asked(system))
    await noted(system.store)
    await system.xadd(asked(system, message_id="m2"))
    told = await wait_until("an error", lambda: _last(system.store, KEYS.events)) or {}
    assert (told["code"], told["message_id"]) == ("busy", "m2")  # a tenant has half of the places
    assert await system.store.call("XLEN", INBOUND_DEAD.key()) == 1
    await system.store.call("ZADD", callbacks(0), 7, "other:s1:x")
    refused = await system.http.post("/v1/messages", json=asked(system, message_id="m3"))
    assert refused.status_code == 429
    assert (await system.websocket(asked(system, message_id="m3")))["code"] == "busy"


async def test_a_token_needs_the_right_to_read_for_a_callback(redis_url: str) -> None:
    async with (
        running(redis_url, pentad_api_keys="ka:acme") as gateway,
        httpx2.AsyncClient(base_url=gateway.address, verify=NO_TLS, trust_env=False) as http,
    ):
        wanted = {"session_id": "s1", "may": ["send"], "ttl_s": 60}
        made = await http.post("/v1/tokens", json=wanted, headers={"authorization": "Bearer ka"})
        token = {"authorization": f"Bearer {made.json()['token']}"}
        body = {"content": "hi", "callback_url": "https://example.com/"}
        assert "read" in problem(await http.post("/v1/messages", json=body, headers=token), 403)


def _has_come(receiver: Receiver, number: int) -> bool:
    return len(receiver.events()) == number


async def _is_gone(store: Store, key: str) -> bool:
    return not await store.call("EXISTS", key)


async def _last(store: Store, events: str) -> Json | None:
    found = await store.call("XREVRANGE", events, "+", "-", "COUNT", 1)
    return json.loads(found[0][1][1]) if found else None
