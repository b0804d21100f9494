"""Push notifications of A2A: the updates of a task are sent as webhooks are, and what clients ask for is bounded."""

import json
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

import httpx2
import pytest

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.streams import DEAD
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.protocols.a2a import a2a_routes
from pentad.services.gateway.webhooks import followed
from pentad.services.gateway.webhooks.push_configs import MAX_PUSH_CONFIGS
from pentad.shared.keys import CALLBACK_TTL_S, TaskKeys, callbacks, waiting_webhooks, webhook_state
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.speaker import AT, TASK, Speaker
from tests.integration.gateway.test_a2a import INVALID, KEYS, NOT_FOUND, VERSION, asking, begun, code_of, rest
from tests.integration.gateway.test_callbacks import SEALING
from tests.support.outside.web_server import reply
from tests.support.outside.webhook_receiver import BROKEN, OK, Receiver, webhook_receiver
from tests.support.waiting import wait_until

Json = dict[str, Any]
CONFIGS = f"/a2a/rest/tasks/{TASK}/pushNotificationConfigs"
PUSHED = TaskKeys(0, "default", TASK).push_configs


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with webhook_receiver() as made:
        yield made


@pytest.fixture
async def service(redis_url: str, receiver: Receiver) -> AsyncIterator[GatewayService]:
    async with running(redis_url, pentad_web_allow=receiver.place) as made:
        yield made


@pytest.fixture
async def http(service: GatewayService) -> AsyncIterator[httpx2.AsyncClient]:
    async with rest(service, None) as made:
        yield made


@pytest.fixture(params=["JSON-RPC", "REST"])
def binding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def call(http: httpx2.AsyncClient, binding: str, method: str, **params: Any) -> Json:
    """Ask for something about the configs of the task in a binding; return the result, or the error."""
    if binding == "JSON-RPC":
        asked = asking(f"{method}TaskPushNotificationConfig{'s' * (method == 'List')}", taskId=TASK, **params)
        answered: Json = (await http.post("/a2a", json=asked, headers=VERSION)).json()
        return dict(answered.get("result") or {}) if "error" not in answered else answered
    path = f"{CONFIGS}/{params['id']}" if method in ("Get", "Delete") else CONFIGS
    verb = {"Create": "POST", "Delete": "DELETE"}.get(method, "GET")
    answered = (await http.request(verb, path, json=params if verb == "POST" else None, headers=VERSION)).json()
    return dict(answered)


async def create(http: httpx2.AsyncClient, **config: Any) -> Json:
    return await call(http, "JSON-RPC", "Create", **config)


def states(receiver: Receiver) -> list[str]:
    found = [each["statusUpdate"]["status"]["state"] for each in receiver.bodies() if "statusUpdate" in each]
    return [each.removeprefix("TASK_STATE_") for each in found]


async def test_a_config_is_created_shown_listed_and_deleted(
    http: httpx2.AsyncClient, store: Store, speaker: Speaker, binding: str
) -> None:
    await speaker.task()
    secret = {"token": "tok-123", "authentication": {"scheme": "Bearer", "credentials": "cred-456"}}
    made = await call(http, binding, "Create", id="c1", url="https://example.com/a", **secret)
    shown = {"id": "c1", "taskId": TASK, "url": "https://example.com/a", "authentication": {"scheme": "Bearer"}}
    assert made == shown
    second = await call(http, binding, "Create", url="https://example.com/b")
    assert second == {"id": TASK, "taskId": TASK, "url": "https://example.com/b"}
    assert await call(http, binding, "Get", id="c1") == shown
    listed = (await call(http, binding, "List"))["configs"]
    assert sorted(each["id"] for each in listed) == sorted(["c1", TASK])
    assert "tok-123" not in json.dumps([made, listed])
    assert "cred-456" not in json.dumps([made, listed])
    for _ in range(2):
        assert await call(http, binding, "Delete", id="c1") == {}
    assert (await call(http, binding, "Get", id="c1"))["error"]["code"] in (NOT_FOUND, 404)
    assert [each["id"] for each in (await call(http, binding, "List"))["configs"]] == [TASK]
    assert await store.call("ZCARD", callbacks(0)) == 1
    assert 0 < await store.call("TTL", PUSHED) <= CALLBACK_TTL_S


async def test_the_updates_of_a_task_come_in_order_as_a_stream_has_them(
    http: httpx2.AsyncClient, receiver: Receiver, store: Store
) -> None:
    speaker = await begun(store, tenant="default")
    await create(
        http, url=receiver.url(), token="tok-123", authentication={"scheme": "Bearer", "credentials": "cred-456"}
    )
    await speaker.say("task_status", status="active", reason="message")
    await speaker.delta("4", 0)
    await speaker.say("message", task="task-0-other", step=1, attempt=1, content="of another task")
    await speaker.say("tool_call", tool_call_id="c1", tool="echo", args={}, step=1)
    kept = {"path": "out/a b.png", "media_type": "image/png", "size": 3}
    await speaker.say("tool_result", tool_call_id="c0", tool="echo", result="plain", duration_ms=1)
    await speaker.say("tool_result", tool_call_id="c1", tool="echo", result="x", duration_ms=1, artifacts=[kept, kept])
    await speaker.say("message", step=1, attempt=1, content="")
    await speaker.say("message", step=2, attempt=1, content="It is 42.")
    await speaker.say("task_status", status="waiting", reason="question")
    await speaker.say("task_end", status="failed", reason="model_error", detail="no answer", steps=2)
    await wait_until("the end", lambda: "FAILED" in states(receiver))
    assert states(receiver) == ["WORKING", "INPUT_REQUIRED", "FAILED"]
    pieces = [each["artifactUpdate"] for each in receiver.bodies() if "artifactUpdate" in each]
    assert [each["artifact"]["artifactId"] for each in pieces] == ["file:out/a b.png", "file:out/a b.png", "step-2"]
    assert pieces[0]["artifact"]["parts"][0]["url"].endswith("/v1/sessions/s1/files/out/a%20b.png")
    assert (pieces[2]["artifact"]["parts"], pieces[2]["lastChunk"]) == ([{"text": "It is 42."}], True)
    assert all((each["taskId"], each["contextId"]) == (TASK, "s1") for each in pieces)
    waits, end = [each["statusUpdate"]["status"] for each in receiver.bodies() if "statusUpdate" in each][1:]
    assert waits["message"]["parts"] == [{"text": "Well.\n\nWhen?"}]
    assert end["message"]["parts"] == [{"text": "model_error: no answer"}]
    assert {each["timestamp"] for each in (waits, end)} == {AT.replace(".000", "")}
    for request in receiver.requests():
        assert request.headers["content-type"] == "application/a2a+json"
        assert request.headers["x-a2a-notification-token"] == "tok-123"
        assert request.headers["authorization"] == "Bearer cred-456"
        assert "webhook-signature" not in request.headers
    ids = [each.headers["webhook-id"] for each in receiver.requests()]
    assert len(set(ids)) == len(ids) == 6


async def test_what_was_said_before_a_config_is_not_sent_and_a_deleted_one_gets_nothing(
    http: httpx2.AsyncClient, receiver: Receiver, store: Store, speaker: Speaker
) -> None:
    receiver.answer("other", OK)
    await speaker.task()
    await speaker.say("message", step=1, attempt=1, content="before")
    await create(http, id="c1", url=receiver.url())
    await create(http, id="c2", url=receiver.url("other"))
    await speaker.say("message", step=2, attempt=1, content="after")
    await wait_until("the update", receiver.bodies)
    await call(http, "REST", "Delete", id="c1")
    await speaker.say("message", step=3, attempt=1, content="later")
    await wait_until("the other's", lambda: len(receiver.requests("other")) == 2)
    assert [each["artifactUpdate"]["artifact"]["artifactId"] for each in receiver.bodies()] == ["step-2"]
    await wait_until("nothing to wait", lambda: _none(store, waiting_webhooks(0)))
    await create(http, id="c1", url=receiver.url())
    await speaker.say("message", step=4, attempt=1, content="again")
    await wait_until("the update", lambda: len(receiver.bodies()) == 2)
    assert receiver.bodies()[1]["artifactUpdate"]["artifact"]["artifactId"] == "step-4"


async def test_a_config_that_is_sent_again_replaces_the_first_and_misses_nothing(
    http: httpx2.AsyncClient, receiver: Receiver, speaker: Speaker
) -> None:
    await speaker.task()
    receiver.answer("hook", BROKEN)
    await create(http, url=receiver.url())
    await speaker.say("message", step=1, attempt=1, content="one")
    await wait_until("a failure", receiver.requests)
    receiver.answer("other", OK)
    await create(http, url=receiver.url("other"))
    await speaker.say("message", step=2, attempt=1, content="two")
    await wait_until("both", lambda: len(receiver.requests("other")) == 2)
    found = [each["artifactUpdate"]["artifact"]["artifactId"] for each in receiver.bodies("other")]
    assert found == ["step-1", "step-2"]


async def test_two_gateways_one_after_the_other_leave_nothing_out(
    redis_url: str, receiver: Receiver, speaker: Speaker
) -> None:
    """The first stops with an update that was not taken; the next one goes on behind what was collected."""
    await speaker.task()
    receiver.answer("hook", BROKEN)
    async with running(redis_url, pentad_web_allow=receiver.place) as service, rest(service, None) as http:
        await create(http, url=receiver.url())
        await speaker.say("message", step=1, attempt=1, content="one")
        await wait_until("a failure", receiver.requests)
    await speaker.say("message", step=2, attempt=1, content="two")
    receiver.answer("hook", OK)
    seen = len(receiver.requests())
    async with running(redis_url, pentad_web_allow=receiver.place):
        await wait_until("both", lambda: len(receiver.requests()) == seen + 2)
    found = [each["artifactUpdate"]["artifact"]["artifactId"] for each in receiver.bodies()[seen:]]
    assert found == ["step-1", "step-2"]


async def test_the_end_is_sent_after_the_task_is_archived_and_then_nothing_is_followed(
    http: httpx2.AsyncClient, receiver: Receiver, store: Store, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "LOOK_S", 0.05)
    keys = await speaker.task()
    await create(http, url=receiver.url())
    await wait_until("the look", lambda: store.call("EXISTS", callbacks(0)))
    receiver.answer("hook", BROKEN)
    await speaker.say("task_end", status="completed", steps=1)
    await store.call("DEL", *keys.all())
    await wait_until("nothing to be followed", lambda: _none(store, callbacks(0)))
    assert await store.call("EXISTS", PUSHED), "what waits is sent for a day"
    receiver.answer("hook", OK)
    await wait_until("the end", lambda: "COMPLETED" in states(receiver))
    assert "archived" not in str(await call(http, "REST", "List"))


async def test_a_task_that_lives_keeps_its_configs_from_ending(
    http: httpx2.AsyncClient, store: Store, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "LOOK_S", 0.05)
    await speaker.task()
    await create(http, url="https://example.com/")
    for key in (PUSHED, callbacks(0)):
        await store.call("EXPIRE", key, 100)
    await wait_until("more time", lambda: _lives_long(store, PUSHED, callbacks(0)))


async def test_an_address_that_is_gone_gets_nothing_more(
    http: httpx2.AsyncClient, receiver: Receiver, store: Store, speaker: Speaker
) -> None:
    await speaker.task()
    receiver.answer("hook", reply(b"", "", "410 Gone"))
    await create(http, url=receiver.url())
    await speaker.say("message", step=1, attempt=1, content="one")
    await speaker.say("message", step=2, attempt=1, content="two")
    await wait_until("two dead letters", lambda: _letters(store, 2))
    assert len(receiver.requests()) == 1
    (_, fields), _ = await store.call("XRANGE", DEAD.key(0), "-", "+")
    letter = DeadLetter.model_validate_json(fields[1])
    assert letter.task_id == TASK
    assert "410" in letter.reason


async def test_a_gap_is_told_by_the_task_as_it_is(redis_url: str, receiver: Receiver, store: Store) -> None:
    speaker = await begun(store, tenant="default")
    async with running(redis_url, pentad_web_allow=receiver.place) as service, rest(service, None) as http:
        await create(http, url=receiver.url())
        await speaker.say("message", step=1, attempt=1, content="one")
        await wait_until("the first", receiver.bodies)
    await store.call("DEL", speaker.keys.events)
    await speaker.say("message", step=5, attempt=1, content="five")
    async with running(redis_url, pentad_web_allow=receiver.place):
        await wait_until("the others", lambda: len(receiver.bodies()) == 3)
    (gap,) = [each["task"] for each in receiver.bodies() if "task" in each]
    assert (gap["id"], gap["status"]["state"]) == (TASK, "TASK_STATE_INPUT_REQUIRED")


@pytest.mark.parametrize("sealed", [True, False])
async def test_tokens_and_credentials_are_sealed_where_there_is_a_key(
    redis_url: str, receiver: Receiver, store: Store, speaker: Speaker, sealed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await speaker.task()
    key = {"pentad_secret_key": SEALING} if sealed else {}
    async with (
        running(redis_url, pentad_web_allow=receiver.place, **key) as service,
        rest(service, None) as http,
    ):
        given = {"token": "tok-123", "authentication": {"scheme": "Bearer", "credentials": "cred-456"}}
        await create(http, url=receiver.url(), **given)
        await speaker.say("task_end", status="completed", steps=1)
        await wait_until("the end", receiver.requests)
    assert receiver.requests()[0].headers["authorization"] == "Bearer cred-456"
    kept = str(await store.call("HGETALL", PUSHED))
    assert ("cred-456" in kept, "tok-123" in kept) == (not sealed, not sealed)
    assert "cred-456" not in caplog.text


WRONG = pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": "http://169.254.169.254/latest"}, "PENTAD_WEB_ALLOW"),
        ({"url": "http://127.0.0.1:1/"}, "PENTAD_WEB_ALLOW"),
        ({"url": ""}, "url"),
        ({"url": "ftp://example.com/"}, "url"),
        ({"url": "https://example.com:99999/"}, "ports go from 1"),
        ({"url": "https://example.com/" + "x" * 2_000}, "2,000 characters"),
        ({"url": "https://u:hush-hush@example.com/"}, "url"),
        ({"id": "a b"}, "id of the push"),
        ({"id": "x" * 129}, "id of the push"),
        ({"token": "hush-hush\r\nx: y"}, "token"),
        ({"token": "x" * 2_049}, "token"),
        ({"token": "h\u00fcsh"}, "token"),
        ({"authentication": {"scheme": "Bea rer", "credentials": "hush-hush"}}, "scheme"),
        ({"authentication": {"scheme": "x" * 65}}, "scheme"),
        ({"authentication": {"credentials": "hush-hush"}}, "credentials"),
        ({"authentication": {"scheme": "Bearer", "credentials": "hush-hush\r\nx: y"}}, "credentials"),
        ({"authentication": {"scheme": "Bearer", "credentials": "x" * 4_097}}, "credentials"),
    ],
)


@WRONG
async def test_a_wrong_config_is_refused_and_a_message_with_it_is_not_appended(
    http: httpx2.AsyncClient, store: Store, speaker: Speaker, change: Json, said: str
) -> None:
    await speaker.task()
    config = {"url": "https://example.com/"} | change
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    with_message = asking("SendMessage", message=message, configuration={"taskPushNotificationConfig": config})
    created = asking("CreateTaskPushNotificationConfig", taskId=TASK, **config)
    for body in (created, with_message):
        error = (await http.post("/a2a", json=body, headers=VERSION)).json()["error"]
        assert (error["code"], said in error["message"]) == (INVALID, True), error
        assert "hush-hush" not in error["message"]
    assert not await store.call("EXISTS", "pentad:inbound", PUSHED, callbacks(0))


async def test_a_task_has_a_limited_number_of_configs(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    await speaker.task()
    for number in range(MAX_PUSH_CONFIGS):
        assert "error" not in await create(http, id=f"c{number}", url="https://example.com/")
    assert "delete one" in (await create(http, id="more", url="https://example.com/"))["error"]["message"]
    assert "error" not in await create(http, id="c0", url="https://example.com/again")
    await call(http, "REST", "Delete", id="c1")
    assert "error" not in await create(http, id="more", url="https://example.com/")


async def test_a_task_that_is_not_there_or_is_archived_has_no_configs(
    http: httpx2.AsyncClient, store: Store, speaker: Speaker
) -> None:
    for method in ("Create", "Get", "Delete"):
        params = {"taskId": "task-0-none", "id": "c1", "url": "https://example.com/"}
        params = params if method == "Create" else {"taskId": "task-0-none", "id": "c1"}
        assert await code_of(http, f"{method}TaskPushNotificationConfig", **params) == NOT_FOUND
    assert await code_of(http, "ListTaskPushNotificationConfigs", taskId="../x") == NOT_FOUND
    keys = await speaker.task()
    await create(http, url="https://example.com/")
    await store.call("HSET", keys.erased, "at", 1)
    assert "archived" in (await create(http, id="c2", url="https://example.com/"))["error"]["message"]


async def test_others_tenants_and_sessions_see_and_change_no_config(redis_url: str, store: Store) -> None:
    await begun(store)
    async with running(redis_url, pentad_api_keys=KEYS) as service, rest(service, "ka") as acme:
        assert "error" not in await create(acme, id="c1", url="https://example.com/")

        async def token(session: str, *may: str) -> str:
            given = await acme.post("/v1/tokens", json={"session_id": session, "may": [*may]})
            return str(given.json()["token"])

        for key in ("kb", await token("s2", "read", "send")):
            async with rest(service, key) as other:
                for method in ("Create", "Get", "Delete", "List"):
                    params = {} if method == "List" else {"id": "c1"}
                    params |= {"url": "https://example.com/x"} if method == "Create" else {}
                    assert (await call(other, "JSON-RPC", method, **params))["error"]["code"] == NOT_FOUND, method
        async with rest(service, await token("s1", "send")) as writer:
            asked = asking("CreateTaskPushNotificationConfig", taskId=TASK, url="https://example.com/")
            assert (await writer.post("/a2a", json=asked, headers=VERSION)).status_code == 403
        assert (await call(acme, "REST", "List"))["configs"] == [
            {"id": "c1", "taskId": TASK, "url": "https://example.com/"}
        ]


async def test_without_the_sdk_an_update_waits(
    redis_url: str, receiver: Receiver, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another gateway of the same system may have the SDK: what waits is tried again."""
    await speaker.task()
    async with running(redis_url, pentad_web_allow=receiver.place) as service, rest(service, None) as http:
        await create(http, url=receiver.url())
    monkeypatch.setattr(a2a_routes, "find_spec", lambda _: None)
    async with running(redis_url, pentad_web_allow=receiver.place):
        await speaker.say("task_end", status="completed", steps=1)
        assert "pentad[a2a]" in await wait_until("a failure", lambda: _failure(speaker.store))
        assert receiver.requests() == []
        monkeypatch.setattr(a2a_routes, "find_spec", find_spec)
        await wait_until("the end", lambda: "COMPLETED" in states(receiver))


async def _none(store: Store, key: str) -> bool:
    return not await store.call("EXISTS", key)


async def _lives_long(store: Store, *keys: str) -> bool:
    return all([await store.call("TTL", key) > CALLBACK_TTL_S // 2 for key in keys])


async def _letters(store: Store, count: int) -> bool:
    return bool(await store.call("XLEN", DEAD.key(0)) == count)


async def _failure(store: Store) -> str:
    """Return why the last update was not taken; '' where none has failed."""
    waiting = await store.call("ZRANGE", waiting_webhooks(0), 0, -1)
    return "".join([str(await store.call("HGET", webhook_state(0, name.decode()), "error") or "") for name in waiting])
