"""Webhooks over REST: events are sent signed, in order and at least once; what is refused, removed and set aside."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

import pentad
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.events import MessageEvent
from pentad.contracts.ids import shard_of
from pentad.contracts.receivers import signing_key
from pentad.contracts.streams import DEAD
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.domain.webhooks import GIVE_UP_MS
from pentad.services.gateway.webhooks import event_collector
from pentad.services.gateway.webhooks.webhook_registry import MAX_WEBHOOKS
from pentad.shared.keys import (
    WEBHOOKS_REGISTRY,
    SessionKeys,
    bell,
    session_index,
    waiting_webhooks,
    webhook_due,
    webhook_lane,
    webhook_state,
)
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import NO_TLS, running
from tests.integration.gateway.speaker import AT, Speaker
from tests.integration.gateway.test_graph_clients import command
from tests.integration.gateway.test_instructions import problem
from tests.support.outside.web_server import redirect, reply
from tests.support.outside.webhook_receiver import (
    BROKEN,
    OK,
    OTHER_SECRET,
    SECRET,
    Receiver,
    is_signed,
    webhook_receiver,
)
from tests.support.waiting import PATIENCE_S, wait_until

Json = dict[str, Any]
ALL = ["*"]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with webhook_receiver() as made:
        yield made


@asynccontextmanager
async def asking(redis_url: str, key: str | None = None, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A gateway with these settings, and a client of it."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with (
        running(redis_url, **settings) as gateway,
        httpx2.AsyncClient(
            base_url=gateway.address, headers=headers, verify=NO_TLS, trust_env=False, timeout=PATIENCE_S
        ) as http,
    ):
        yield http


@pytest.fixture
async def http(redis_url: str, receiver: Receiver) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a gateway that may reach the receiver."""
    async with asking(redis_url, pentad_web_allow=receiver.place) as made:
        yield made


async def register(http: httpx2.AsyncClient, url: str, events: list[str] = ALL, **more: Any) -> Json:
    made = await http.post("/v1/webhooks", json={"url": url, "events": events, "secret": SECRET} | more)
    assert made.status_code in (200, 201), made.text
    shown: Json = made.json()
    return shown


async def listed(http: httpx2.AsyncClient) -> list[Json]:
    items: list[Json] = (await http.get("/v1/webhooks")).json()["items"]
    return items


def kinds(events: list[Json]) -> list[str]:
    return [each["type"] for each in events]


async def letters(store: Store) -> list[DeadLetter]:
    found = await store.call("XRANGE", DEAD.key(0), "-", "+")
    return [DeadLetter.model_validate_json(fields[1]) for _, fields in found]


async def age(store: Store, webhook: str) -> None:
    """Have all that waits for a webhook have waited for a day, and be due now."""
    for lane in await store.call("ZRANGE", webhook_due(0, webhook), 0, -1):
        key = webhook_lane(0, webhook, lane.decode())
        for index, item in enumerate(await store.call("LRANGE", key, 0, -1)):
            entry, since, event = item.split(b" ", 2)
            await store.call("LSET", key, index, b"%b %d %b" % (entry, int(since) - GIVE_UP_MS, event))
        await store.call("ZADD", webhook_due(0, webhook), 0, lane)
    await store.call("ZADD", waiting_webhooks(0), 0, webhook)


async def test_events_are_sent_in_order_signed_and_without_deltas(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker
) -> None:
    made = await register(http, receiver.url())
    assert made["id"].startswith("wh-")
    assert (made["events"], made["session_id"], made["disabled"], made["waiting"]) == (ALL, None, None, 0)
    await speaker.session()
    await speaker.turn("m1")
    await wait_until("the turn to be sent", lambda: "task_end" in kinds(receiver.events()))
    assert kinds(receiver.events()) == ["message_routed", "task_start", "message", "task_end"]
    request = receiver.requests()[0]
    assert is_signed(request, SECRET)
    assert not is_signed(request, OTHER_SECRET)
    assert request.headers["content-type"] == "application/json"
    body = json.loads(request.body)
    assert body.keys() == {"type", "timestamp", "data"}
    assert body["data"]["message_id"] == "m1"
    assert body["data"]["id"].count("-") == 1


async def test_an_answer_is_not_read_beyond_its_head(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker
) -> None:
    """A receiver whose answers never end holds back no event: of a body nothing is waited for, and nothing kept."""

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await writer.drain()
        await receiver.hanging.wait()

    receiver.answer("hook", endless)
    await register(http, receiver.url())
    await speaker.session()
    await speaker.turn("m1")
    await wait_until("the turn to be sent", lambda: "task_end" in kinds(receiver.events()))
    assert kinds(receiver.events()) == ["message_routed", "task_start", "message", "task_end"]
    assert len(receiver.requests()) == 4, "each event was taken at its first attempt"


async def test_only_wanted_events_of_the_session_are_sent(
    http: httpx2.AsyncClient, receiver: Receiver, store: Store
) -> None:
    await register(http, receiver.url(), ["task_end"], session="s2")
    for session in ("s1", "s2"):
        speaker = Speaker(store, session)
        await speaker.session()
        await speaker.turn(f"m-{session}")
    await wait_until("the end to be sent", receiver.events)
    assert [(each["type"], each["session_id"]) for each in receiver.events()] == [("task_end", "s2")]


async def test_events_before_the_registration_are_not_sent_and_those_after_it_all_are(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker
) -> None:
    await speaker.session()
    await speaker.turn("before")
    await register(http, receiver.url())
    await speaker.say("message", step=2, attempt=1, content="at once", ring=False)  # nobody listens yet
    await wait_until("the message to be sent", receiver.events)
    await speaker.turn("after")
    await wait_until("the turn to be sent", lambda: "task_end" in kinds(receiver.events()))
    assert kinds(receiver.events()) == ["message", "message_routed", "task_start", "message", "task_end"]


async def test_a_failure_is_tried_again_and_holds_back_its_own_task_alone(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker
) -> None:
    failures = 2

    async def at_first_broken(writer: asyncio.StreamWriter) -> None:
        nonlocal failures
        first = receiver.bodies()[-1]["data"]["task_id"] == "task-0-a"
        writer.write(BROKEN if first and failures else OK)
        failures -= first and failures > 0
        await writer.drain()

    receiver.answer("hook", at_first_broken)
    made = await register(http, receiver.url())
    await speaker.session()
    for number in range(3):
        for task in ("task-0-a", "task-0-b"):
            await speaker.say("message", task=task, step=number, attempt=1, content=str(number))
    await wait_until("a to fail", lambda: [e for e in receiver.events() if e["task_id"] == "task-0-a"])
    await wait_until("b to be sent", lambda: len([e for e in receiver.events() if e["task_id"] == "task-0-b"]) == 3)
    assert [e["step"] for e in receiver.events() if e["task_id"] == "task-0-a"] == [0], "the next ones wait behind it"
    [shown] = await listed(http)
    assert shown["waiting"] == 3
    assert "500" in shown["error"]
    await wait_until("a to be sent", lambda: len([e for e in receiver.events() if e["task_id"] == "task-0-a"]) == 3)
    for task in ("task-0-a", "task-0-b"):
        assert [e["step"] for e in receiver.events() if e["task_id"] == task] == [0, 1, 2]
    again = [each for each in receiver.requests() if json.loads(each.body)["data"]["task_id"] == "task-0-a"][:3]
    assert len({each.headers["webhook-id"] for each in again}) == 1
    assert await register(http, receiver.url()) == made | {"waiting": 0, "error": None}


async def test_a_receiver_that_hangs_holds_up_no_other(
    http: httpx2.AsyncClient, receiver: Receiver, store: Store
) -> None:
    receiver.hold("slow")
    await register(http, receiver.url("slow"))
    await register(http, receiver.url())
    for number in range(30):
        speaker = Speaker(store, f"s{number}")
        await speaker.session()
        await speaker.say("message", task=f"task-0-{number}", step=1, attempt=1, content="x")
    await wait_until("all to be sent to the other", lambda: len(receiver.events()) == 30, 10)
    assert len(receiver.requests("slow")) <= 8, "one server has so many requests at once"


async def test_an_event_that_is_refused_for_a_day_is_set_aside_and_redriven(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker, store: Store
) -> None:
    receiver.answer("hook", BROKEN)
    made = await register(http, receiver.url())
    await speaker.session()
    first = await speaker.say("message", step=1, attempt=1, content="first", correlation_id="m1")
    await speaker.say("message", step=2, attempt=1, content="second")
    await wait_until("a failure", receiver.requests)
    await age(store, made["id"])
    await wait_until("both letters", lambda: _count(store, 2))
    letter = (await letters(store))[0]
    assert (letter.tenant_id, letter.session_id, letter.task_id) == ("default", "s1", "task-0-abc")
    assert (letter.entry_id, letter.chain[0].id) == (first, "m1")
    assert "500" in letter.reason
    assert SECRET not in letter.to_json().decode()
    assert not await store.call("EXISTS", waiting_webhooks(0))
    receiver.answer("hook", OK)
    items = (await http.get("/v1/dead-letters")).json()["items"]
    sent = await http.post(f"/v1/dead-letters/{items[-1]['id']}/redrive")
    assert (sent.status_code, sent.json()["webhook_id"]) == (202, made["id"]), sent.text
    await wait_until("it to be sent", lambda: len(receiver.requests()) >= 4)
    assert receiver.bodies()[-1]["data"]["content"] == "first"
    assert receiver.requests()[-1].headers["webhook-id"] == receiver.requests()[0].headers["webhook-id"]
    await http.delete(f"/v1/webhooks/{made['id']}")
    [left] = (await http.get("/v1/dead-letters")).json()["items"]
    assert "was removed" in problem(await http.post(f"/v1/dead-letters/{left['id']}/redrive"), 409)


async def _count(store: Store, number: int) -> bool:
    return len(await letters(store)) == number


async def test_a_server_that_is_gone_gets_nothing_more_until_it_is_registered_again(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker, store: Store
) -> None:
    receiver.answer("hook", reply(status="410 Gone"))
    made = await register(http, receiver.url())
    await speaker.session()
    await speaker.turn("m1")
    await wait_until("it to be disabled", lambda: _disabled(http))
    await wait_until("what waits to be set aside", lambda: _nothing_waits(store))
    assert len(receiver.requests()) == 1
    assert len(await letters(store)) == 4
    receiver.answer("hook", OK)
    await speaker.say("message", step=2, attempt=1, content="meanwhile")
    again = await register(http, receiver.url())
    assert (again["id"], again["disabled"]) == (made["id"], None)
    await wait_until("the next to be sent", lambda: len(receiver.requests()) > 1)
    assert receiver.bodies()[-1]["data"]["content"] == "meanwhile"


async def _disabled(http: httpx2.AsyncClient) -> bool:
    return (await listed(http))[0]["disabled"] is not None


async def _nothing_waits(store: Store) -> bool:
    return not await store.call("EXISTS", waiting_webhooks(0))


async def test_no_redirect_is_followed_and_no_large_answer_read(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker
) -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    receiver.answer("moved", redirect(receiver.url("inside"), "307 Temporary Redirect"))
    receiver.answer("large", endless)
    for path in ("moved", "large"):
        await register(http, receiver.url(path), ["message"])
    await speaker.session()
    for step in range(3):
        await speaker.say("message", step=step, attempt=1, content="x")
    await wait_until("all to be taken by one that answers a gigabyte", lambda: len(receiver.events("large")) == 3)
    assert sent < 64 << 20
    await wait_until("the redirect", lambda: receiver.requests("moved"))
    moved = await wait_until("its failure", lambda: _error(http, "moved"))
    assert "redirects are not followed" in str(moved)
    assert receiver.requests("inside") == []


async def _error(http: httpx2.AsyncClient, path: str) -> str | None:
    [found] = [each for each in await listed(http) if each["url"].endswith(path)]
    error: str | None = found["error"]
    return error


async def test_addresses_inside_are_refused_and_a_name_that_leads_there_gets_nothing(
    redis_url: str, receiver: Receiver, speaker: Speaker
) -> None:
    async with asking(redis_url) as http:
        for url in (receiver.url(), "http://[::1]/x", "http://2130706433/", "http://169.254.169.254/latest"):
            refused = await http.post("/v1/webhooks", json={"url": url, "events": ALL, "secret": SECRET})
            assert problem(refused, 422).startswith("url: "), url
        await register(http, f"http://localhost:{receiver.server.port}/hook")
        await speaker.session()
        await speaker.turn("m1")
        assert "loopback" in str(await wait_until("the refusal", lambda: _error(http, "hook")))
    assert receiver.requests() == []


async def test_a_removed_webhook_gets_nothing_more(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker, store: Store
) -> None:
    receiver.answer("hook", BROKEN)
    made = await register(http, receiver.url())
    await speaker.session()
    await speaker.turn("m1")
    await wait_until("a failure", receiver.requests)
    assert (await http.delete(f"/v1/webhooks/{made['id']}")).status_code == 204
    assert problem(await http.delete(f"/v1/webhooks/{made['id']}"), 404) == "there is no such webhook"
    assert await listed(http) == []
    before = len(receiver.requests())
    await speaker.turn("m2")
    await wait_until("nothing to wait", lambda: _nothing_waits(store))
    left = [key async for key in store.redis.scan_iter("*webhook*")]
    assert {each for each in left if b"webhook-cursors" not in each and b"lease" not in each} == {b"pentad:webhooks"}
    receiver.answer("hook", OK)
    await register(http, receiver.url("second"))
    receiver.answer("second", OK)
    await speaker.turn("m3")
    await wait_until("the other to get it", lambda: receiver.events("second"))
    assert len(receiver.requests()) == before


async def test_registered_again_it_gets_what_comes_then(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker
) -> None:
    made = await register(http, receiver.url())
    await speaker.session()
    await speaker.turn("m1")
    await wait_until("the turn", lambda: len(receiver.events()) == 4)
    await http.delete(f"/v1/webhooks/{made['id']}")
    await speaker.turn("between")
    await register(http, receiver.url())
    await speaker.say("message", step=9, attempt=1, content="then")
    await wait_until("the next", lambda: len(receiver.events()) > 4)
    assert receiver.events()[4]["content"] == "then"


async def test_a_tenant_has_its_own_webhooks_alone(redis_url: str, receiver: Receiver, store: Store) -> None:
    keys = {"pentad_api_keys": "a:acme,b:beta", "pentad_web_allow": receiver.place}
    async with asking(redis_url, "a", **keys) as acme, asking(redis_url, "b", **keys) as beta:
        made = await register(acme, receiver.url())
        assert await listed(beta) == []
        assert problem(await beta.delete(f"/v1/webhooks/{made['id']}"), 404)
        for tenant in ("beta", "acme"):
            speaker = Speaker(store, tenant=tenant)
            await speaker.session()
            await speaker.turn(f"m-{tenant}")
        await wait_until("the turn", lambda: len(receiver.events()) == 4)
        assert {each["tenant_id"] for each in receiver.events()} == {"acme"}


@pytest.mark.parametrize("sealed", [True, False])
async def test_a_secret_is_sealed_where_there_is_a_key_and_never_shown(
    redis_url: str, receiver: Receiver, speaker: Speaker, store: Store, sealed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    key = {"pentad_secret_key": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="} if sealed else {}
    async with asking(redis_url, pentad_web_allow=receiver.place, **key) as http:
        made = await register(http, receiver.url())
        await speaker.session()
        await speaker.turn("m1")
        await wait_until("the turn", lambda: len(receiver.events()) == 4)
        assert is_signed(receiver.requests()[0], SECRET)
        shown = (await http.get("/v1/webhooks")).text + json.dumps(made) + caplog.text
    kept = str(await store.call("HGETALL", WEBHOOKS_REGISTRY))
    assert SECRET not in shown
    assert (SECRET in kept) is not sealed


async def test_a_secret_that_no_key_opens_is_told(redis_url: str, receiver: Receiver, speaker: Speaker) -> None:
    first = {"pentad_secret_key": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
    async with asking(redis_url, pentad_web_allow=receiver.place, **first) as http:
        await register(http, receiver.url())
    async with asking(redis_url, pentad_web_allow=receiver.place) as http:
        await speaker.session()
        await speaker.turn("m1")
        assert "PENTAD_SECRET_KEY" in str(await wait_until("the reason", lambda: _error(http, "hook")))
    assert receiver.requests() == []


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"url": "ftp://example.com"}, 422, "url: must be an address"),
        ({"url": "https://user:pw@example.com/"}, 422, "url: must be an address"),
        ({"url": "https://example.com/#x"}, 422, "url: must be an address"),
        ({"url": "https://exa mple.com/"}, 422, "url: must be an address"),
        ({"url": "https://example.com:99999/"}, 422, "ports go from 1"),
        ({"url": "https://example.com/" + "x" * 2_000}, 422, "at most 2000 characters"),
        ({"url": 7}, 422, "url: "),
        ({"url": "https://example.com/\r\nx: y"}, 422, "url: must be an address"),
        ({"events": []}, 422, "events: "),
        ({"events": ["content"]}, 422, "no type of event"),
        ({"events": ["x" * 5_000]}, 422, "no type of event"),
        ({"events": ["*"] * 65}, 422, "events: "),
        ({"events": "task_end"}, 422, "events: "),
        ({"secret": "hush-hush"}, 422, "secret: must be whsec_"),
        ({"secret": "whsec_" + "A" * 8}, 422, "secret: must be whsec_"),
        ({"secret": "whsec_" + "A" * 200}, 422, "secret: "),
        ({"secret": None}, 422, "secret: "),
        ({"session": "a b"}, 422, "session: "),
        ({"session": {}}, 422, "session: "),
        ({"colour": "red"}, 422, "colour: "),
    ],
)
async def test_a_wrong_request_is_refused_with_the_reason_and_without_its_secret(
    http: httpx2.AsyncClient, change: Json, status: int, said: str
) -> None:
    body = {"url": "https://example.com/hook", "events": ALL, "secret": SECRET} | change
    text = problem(await http.post("/v1/webhooks", json=body), status)
    assert said in text
    assert "hush-hush" not in text
    assert SECRET not in text
    assert len(text) < 2_000


async def test_hostile_bodies_are_refused(http: httpx2.AsyncClient) -> None:
    for body in (b"", b"[]", b"{", b'{"url":' * 10_000, b"\xff\xfe", b'{"url":1e999}', b"null"):
        assert (await http.post("/v1/webhooks", content=body)).status_code == 400
    assert (await http.post("/v1/webhooks", content=b'{"url":"' + b"x" * (1 << 20))).status_code == 413
    for name in ("x" * 200, "wh-%00", "..%2f..", "%F0%9F%92%A9"):
        assert (await http.delete(f"/v1/webhooks/{name}")).status_code == 404


async def test_a_tenant_has_a_limited_number_of_webhooks(http: httpx2.AsyncClient) -> None:
    for number in range(MAX_WEBHOOKS):
        await register(http, f"https://example.com/{number}")
    body = {"url": "https://example.com/more", "events": ALL, "secret": SECRET}
    assert "remove one" in problem(await http.post("/v1/webhooks", json=body), 409)
    await register(http, "https://example.com/0", ["task_end"])


async def test_what_was_not_kept_until_it_could_be_sent_is_told(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker, store: Store
) -> None:
    await register(http, receiver.url(), ["task_end"])
    await speaker.session()
    await speaker.turn("m1")
    await wait_until("the end", lambda: len(receiver.events()) == 1)
    await speaker.say("message", step=2, attempt=1, content="lost", ring=False)
    last = await speaker.say("message", step=3, attempt=1, content="kept", ring=False)
    await store.call("XTRIM", speaker.keys.events, "MINID", last)
    await speaker.ring()
    await wait_until("the gap", lambda: len(receiver.events()) == 2)
    assert receiver.events()[1]["code"] == "cursor_expired"


async def test_while_there_are_no_webhooks_a_message_costs_no_call_more(redis_url: str, store: Store) -> None:
    async with asking(redis_url) as http:
        await http.post("/v1/messages", json={"content": "hi"})
        before = await _calls(store)
        for number in range(20):
            await http.post("/v1/messages", json={"content": "hi", "session_id": f"s{number}"})
        after = await _calls(store)
    grown = {name: count - before.get(name, 0) for name, count in after.items()}
    assert not [key async for key in store.redis.scan_iter("*webhook*")]
    assert grown.get("xadd") == 20
    assert not {"rpush", "zadd", "zrangebyscore", "hset"} & {name for name, count in grown.items() if count}, grown


async def _calls(store: Store) -> dict[str, int]:
    found = await store.redis.info("commandstats")
    return {name.removeprefix("cmdstat_"): each["calls"] for name, each in found.items()}


async def test_commands_and_python_list_add_and_remove(
    gateway: GatewayService, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await command(gateway, capsys, "webhooks"))[1].startswith("no webhooks")
    code, out, _ = await command(gateway, capsys, "webhooks", "add", "https://example.com/a", "--event", "task_end")
    name, secret = out.split()[0], out.split()[-1]
    assert (code, len(signing_key(secret))) == (0, 32)
    _, out, _ = await command(gateway, capsys, "webhooks")
    assert [name, "https://example.com/a", "task_end", "all", "0", "good"] == out.splitlines()[1].split()
    async with pentad.connect(gateway.address) as agent:
        made = await agent.management.register_webhook("https://example.com/b", ["*"], SECRET, session_id="s1")
        assert [each["url"][-1] for each in await agent.inspection.webhooks()] == ["a", "b"]
        with pytest.raises(pentad.Refused, match="loopback"):
            await agent.management.register_webhook("http://127.0.0.1/", ["*"], SECRET)
        await agent.management.delete_webhook(made["id"])
        with pytest.raises(pentad.NotFound):
            await agent.management.delete_webhook(made["id"])
    assert secret not in (await command(gateway, capsys, "webhooks", "--json"))[1]
    assert (await command(gateway, capsys, "webhooks", "remove", name))[:2] == (
        0,
        f"{name} is removed: nothing more is sent there\n",
    )
    code, _, err = await command(gateway, capsys, "webhooks", "remove", name)
    assert (code, "`pentad webhooks` lists them" in err) == (1, True)


async def test_what_a_webhook_cannot_take_stays_in_its_session(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_collector, "MAX_WAITING", 5)
    monkeypatch.setattr(event_collector, "_FULL_S", 0.1)
    receiver.hold("hook")
    made = await register(http, receiver.url())
    await speaker.session()
    for step in range(100):
        await speaker.say("message", step=step, attempt=1, content="x")
    await wait_until("the webhook to be full", lambda: _waits(store, made["id"], 5))
    assert await _waiting(store, made["id"]) < 100
    receiver.hanging.set()
    await wait_until("all", lambda: len(receiver.events()) == 100)
    assert [each["step"] for each in receiver.events()] == list(range(100))


async def _waiting(store: Store, webhook: str) -> int:
    return int(await store.call("HGET", webhook_state(0, webhook), "count") or 0)


async def _waits(store: Store, webhook: str, number: int) -> bool:
    return await _waiting(store, webhook) >= number


async def test_rings_that_were_cut_off_unheard_are_made_up_for(
    http: httpx2.AsyncClient, receiver: Receiver, store: Store
) -> None:
    await register(http, receiver.url())
    speakers = [Speaker(store, f"s{number}") for number in range(20)]
    for speaker in speakers:
        await speaker.session()
    await speakers[0].turn("m")
    await wait_until("the turn", lambda: len(receiver.events()) == 4)
    for number, speaker in enumerate(speakers):
        await speaker.say("message", step=9, attempt=1, content="x", ring=number == 0)
    await store.call("XADD", bell(0), "MAXLEN", 1, "*", "s", "default/s0")
    await wait_until("all", lambda: len(receiver.events()) == 24)


async def test_a_webhook_of_a_newer_version_keeps_what_waits_for_it(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker, store: Store
) -> None:
    receiver.answer("hook", BROKEN)
    made = await register(http, receiver.url())
    await speaker.session()
    await speaker.turn("m1")
    await wait_until("a failure", receiver.requests)
    kept = await store.call("HGET", WEBHOOKS_REGISTRY, made["id"])
    await store.call("HSET", WEBHOOKS_REGISTRY, made["id"], '{"form": 2}')
    await store.call("ZADD", webhook_due(0, made["id"]), 0, "default/s1/task-0-abc")
    await store.call("ZADD", waiting_webhooks(0), 0, made["id"])
    await wait_until("it to be passed over", lambda: _is_later(store, made["id"]))
    assert await _waiting(store, made["id"]) == 4
    receiver.answer("hook", OK)
    await store.call("HSET", WEBHOOKS_REGISTRY, made["id"], kept)
    await wait_until("all", lambda: len(receiver.events()) == 4)


async def _is_later(store: Store, webhook: str) -> bool:
    return int(await store.call("ZSCORE", waiting_webhooks(0), webhook)) > 0


async def test_each_shard_is_served(redis_url: str, receiver: Receiver, store: Store) -> None:
    async with asking(redis_url, pentad_web_allow=receiver.place, pentad_shards=3) as http:
        await register(http, receiver.url(), ["message"])
        sessions = [f"s{number}" for number in range(12)]
        for session in sessions:
            keys = SessionKeys(shard_of("default", session, 3), "default", session)
            await store.call("XADD", keys.events, "*", "data", about_message(session))
            await store.call("ZADD", session_index(keys.shard, "default"), 1, keys.name)
            await store.call("XADD", bell(keys.shard), "*", "s", keys.actor)
        await wait_until("all", lambda: len(receiver.events()) == len(sessions))
        assert len({shard_of("default", session, 3) for session in sessions}) == 3


def about_message(session: str) -> bytes:
    return MessageEvent(
        event_id="e", at=AT, tenant_id="default", session_id=session, step=1, attempt=1, content="x"
    ).to_json()
