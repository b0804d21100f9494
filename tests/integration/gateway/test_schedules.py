"""Schedules over HTTP: what is accepted, how they go on, and that each due time is sent once whoever looks after it."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

import pentad
from pentad.contracts.ids import LAST_MS
from pentad.contracts.schedules import MAX_SCHEDULED_CONTENT
from pentad.contracts.streams import INBOUND
from pentad.services.gateway.app import GatewayService
from pentad.shared.keys import (
    SCHEDULES_DUE,
    SCHEDULES_SET,
    SCHEDULES_TURN,
    SessionKeys,
    dedup,
    erased_user,
    schedule,
    schedule_list,
)
from pentad.shared.schedules.schedule_store import ScheduleStore
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.speaker import Speaker
from tests.integration.gateway.test_graph_clients import command
from tests.integration.gateway.test_instructions import problem
from tests.support.waiting import PATIENCE_S, wait_until

URL = "/v1/schedules"
DAILY: dict[str, Any] = {"cron": "0 9 * * *", "time_zone": "Europe/Berlin", "content": "what is new?"}


def soon(seconds: float = 1.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


async def added(http: httpx2.AsyncClient, **fields: Any) -> str:
    made = await http.post(URL, json={"content": "go"} | fields)
    assert made.status_code == 201, made.text
    return str(made.json()["schedule_id"])


async def sent(store: Store) -> list[dict[str, Any]]:
    entries = await store.call("XRANGE", INBOUND.key(), "-", "+")
    return [json.loads(fields[1]) for _, fields in entries]


async def runs(http: httpx2.AsyncClient, name: str) -> list[dict[str, Any]]:
    found = await http.get(f"{URL}/{name}/runs")
    assert found.status_code == 200, found.text
    items: list[dict[str, Any]] = found.json()["items"]
    return items


async def test_a_schedule_is_added_listed_paused_resumed_and_removed(http: httpx2.AsyncClient, store: Store) -> None:
    made = await http.post(URL, json=DAILY | {"schedule_id": "news", "session_id": "chat/ü".replace("/", "-")})
    assert made.status_code == 201
    shown = made.json()
    assert shown == DAILY | {
        "schedule_id": "news",
        "session_id": "chat-ü",
        "overlap": "skip",
        "catch_up": 1,
        "status": "active",
        "created_at": shown["created_at"],
        "next_at": shown["next_at"],
    }
    assert (await http.post(URL, json=DAILY | {"schedule_id": "news", "session_id": "chat-ü"})).status_code == 200
    assert "another one" in problem(await http.post(URL, json=DAILY | {"schedule_id": "news"}), 409)
    other = await added(http, every=3600)
    assert [each["schedule_id"] for each in (await http.get(URL)).json()["items"]] == [other, "news"]
    paused = (await http.post(f"{URL}/news/pause")).json()
    assert (paused["status"], "next_at" in paused) == ("paused", False)
    assert (await http.post(f"{URL}/news/pause")).json() == paused
    resumed = (await http.post(f"{URL}/news/resume")).json()
    assert (resumed["status"], resumed["next_at"]) == ("active", shown["next_at"])
    assert (await http.post(f"{URL}/news/resume")).json() == resumed
    assert (await http.get(f"{URL}/news")).json() == resumed
    assert await runs(http, "news") == []
    for name in ("news", other):
        assert (await http.delete(f"{URL}/{name}")).status_code == 204
        for path in (name, f"{name}/runs"):
            assert problem(await http.get(f"{URL}/{path}"), 404) == "there is no such schedule"
    left = (schedule("default", "news"), schedule_list("default"), SCHEDULES_DUE, SCHEDULES_SET)
    assert await store.call("EXISTS", *left) == 0, "nothing is left of it"


async def test_a_tenant_sees_its_own_and_has_so_many(redis_url: str, tmp_path: Path) -> None:
    keys = {"pentad_api_keys": "ka:acme,kb:bolt", "pentad_admin_key": "admin", "pentad_schedules": 2}
    async with running(redis_url, pentad_data_dir=tmp_path, **keys) as gateway:

        def of(key: str) -> httpx2.AsyncClient:
            head = {"authorization": f"Bearer {key}"}
            return httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S, headers=head)

        async with of("ka") as acme, of("kb") as bolt:
            mine = await added(acme, **DAILY)
            await added(acme, **DAILY)
            assert "2 schedules already (PENTAD_SCHEDULES)" in problem(await acme.post(URL, json=DAILY), 409)
            theirs = await added(bolt, schedule_id=mine, every=3600)
            assert theirs == mine
            assert (await bolt.get(f"{URL}/{mine}")).json()["every"] == 3600
            await bolt.delete(f"{URL}/{mine}")
            assert (await acme.get(f"{URL}/{mine}")).json()["cron"] == DAILY["cron"]
            assert (await bolt.get(URL)).json()["items"] == []
            assert (await acme.get(URL, params={"tenant": "bolt"})).status_code == 403


async def test_an_operator_sees_the_schedules_of_all_tenants(redis_url: str, tmp_path: Path, store: Store) -> None:
    keys = {"pentad_api_keys": "ka:acme,kb:bolt", "pentad_admin_key": "admin"}
    async with running(redis_url, pentad_data_dir=tmp_path, **keys) as gateway:

        def of(key: str) -> httpx2.AsyncClient:
            head = {"authorization": f"Bearer {key}"}
            return httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S, headers=head)

        async with of("ka") as acme, of("kb") as bolt, of("admin") as admin:
            for http, name, every in (
                (acme, "a", 3_600),
                (bolt, "a", 7_200),
                (bolt, "late", 9_000),
                (acme, "p", 4_000),
            ):
                await added(http, schedule_id=name, every=every, content="x" * 300)
            await acme.post(f"{URL}/p/pause")
            await store.call("ZADD", SCHEDULES_DUE, 1, "gone/gone", 2, "no schedule")
            seen, cursor, pages = list[tuple[str, str]](), None, 0
            while cursor is not None or not pages:
                asked = {"limit": "2"} | ({} if cursor is None else {"cursor": cursor})
                answered = await admin.get(URL, params=asked)
                assert answered.status_code == 200, answered.text
                found = answered.json()
                seen += [(item["tenant_id"], item["schedule_id"]) for item in found["items"]]
                assert all(len(item["content"]) == 200 for item in found["items"])
                cursor, pages = found["next"], pages + 1
            assert seen == [("acme", "a"), ("bolt", "a"), ("bolt", "late")]
            assert pages >= 2
            paused = (await admin.get(URL, params={"tenant": "acme"})).json()["items"]
            assert {item["schedule_id"]: item["status"] for item in paused} == {"a": "active", "p": "paused"}
            assert "tenant_id" not in paused[0]
            for wrong in ({"cursor": "x"}, {"limit": "0"}, {"tenant": "a b"}):
                assert (await admin.get(URL, params=wrong)).status_code == 422
            assert (await admin.post(URL, json=DAILY)).status_code == 403


async def test_one_that_has_ended_makes_room_for_another(http: httpx2.AsyncClient, store: Store) -> None:
    names = [await added(http, schedule_id=name, every=3600) for name in ("a", "b")]
    kept, schedules = await ScheduleStore(store).read("default", "b"), ScheduleStore(store)
    assert kept is not None
    ended = kept.state.model_copy(update={"status": "ended", "next": None, "ended": 5})
    assert await schedules.write(kept, ended, LAST_MS)
    assert not await schedules.write(kept, ended, LAST_MS), "what has changed since it was read stays"
    assert "has ended" in problem(await http.post(f"{URL}/b/resume"), 409)
    new = kept.spec.model_copy(update={"schedule_id": "c"})
    assert await schedules.add("default", new, kept.state, len(names)) == "added"
    assert [each.name for each in await schedules.of_tenant("default")] == ["a", "c"]
    assert await store.call("ZSCORE", SCHEDULES_DUE, "default/b") is None
    assert await schedules.add("default", new.model_copy(update={"schedule_id": "d"}), kept.state, 2) == "full"


async def test_a_due_time_is_a_message_of_its_own_whose_turn_is_in_the_history(
    http: httpx2.AsyncClient, store: Store
) -> None:
    name = await added(http, at=soon(), session_id="s1", user_id="ada", instruction="planner", content="report")
    [message] = await wait_until("the message", lambda: sent(store))
    due = message["metadata"]["due_at"]
    assert message == {
        "version": 1,
        "content": "report",
        "session_id": "s1",
        "message_id": f"{name}.{due.replace('-', '').replace(':', '')}",
        "task_id": "new",
        "user_id": "ada",
        "tenant_id": "default",
        "instruction": "planner",
        "metadata": {"schedule_id": name, "due_at": due},
        "decides": False,
    }
    await wait_until("it to be known as accepted", lambda: _is(http, name, "accepted"))
    await Speaker(store).turn(message["message_id"])
    await wait_until("its end", lambda: _is(http, name, "completed"))
    [run] = await runs(http, name)
    assert (run["due_at"], run["message_id"], run["session_id"]) == (due, message["message_id"], "s1")
    assert run["task_id"]
    assert (await http.get(f"{URL}/{name}")).json()["status"] == "ended"
    assert len(await sent(store)) == 1


@pytest.mark.parametrize(("reason", "then"), [("approval", "running"), ("question", "waiting")])
async def test_a_run_that_waits_for_a_decision_goes_on_and_one_that_asks_has_ended(
    reason: str, then: str, http: httpx2.AsyncClient, store: Store
) -> None:
    name = await added(http, at=soon(), session_id="s1")
    [message] = await wait_until("the message", lambda: sent(store))
    speaker = Speaker(store)
    await speaker.task(status="active")
    await speaker.routed(message["message_id"])
    await wait_until("its task to be known", lambda: _is(http, name, "running"))
    await speaker.task(status="waiting", reason=reason)
    await speaker.say("task_status", status="waiting", reason=reason)
    if then == "waiting":
        await wait_until("its end", lambda: _is(http, name, then))
        assert (await http.get(f"{URL}/{name}")).json()["status"] == "ended"
        return
    before = await store.call("HGET", schedule("default", name), "revision")
    await wait_until("another look", lambda: _is_changed(store, name, before))
    assert await _is(http, name, "running")
    await speaker.task(status="completed", reason="answered", ended_at=2_000)
    await wait_until("its end", lambda: _is(http, name, "completed"))


async def _is_changed(store: Store, name: str, before: bytes) -> bool:
    return bool(await store.call("HGET", schedule("default", name), "revision") != before)


async def _is(http: httpx2.AsyncClient, name: str, status: str) -> bool:
    return [run["status"] for run in await runs(http, name)] == [status]


async def test_three_gateways_send_each_due_time_once(redis_url: str, store: Store, tmp_path: Path) -> None:
    settings = {"pentad_data_dir": tmp_path}
    async with (
        running(redis_url, **settings) as one,
        running(redis_url, **settings),
        running(redis_url, **settings),
        httpx2.AsyncClient(base_url=one.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        names = [await added(http, at=soon(), overlap="queue") for _ in range(40)]
        await wait_until("all of them", lambda: _accepted(http, names))
    ids = Counter(message["message_id"] for message in await sent(store))
    assert sorted(message.partition(".")[0] for message in ids) == sorted(names)
    assert not await store.call("EXISTS", SCHEDULES_TURN), "who stops leaves the turn to others"


async def _accepted(http: httpx2.AsyncClient, names: list[str]) -> bool:
    found = await asyncio.gather(*(runs(http, name) for name in names))
    return all([run["status"] for run in each] == ["accepted"] for each in found)


async def test_who_looks_after_schedules_needs_no_turn_to_send_each_once(
    redis_url: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two gateways that both believe to have the turn, as after a pause of the first one."""
    settings = {"pentad_data_dir": tmp_path}
    monkeypatch.setattr("pentad.shared.schedules.turn_loop._TURN_MS", 1)
    async with (
        running(redis_url, **settings) as one,
        running(redis_url, **settings),
        httpx2.AsyncClient(base_url=one.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        names = [await added(http, at=soon()) for _ in range(40)]
        await wait_until("all of them", lambda: _accepted(http, names))
    ids = {message["message_id"] for message in await sent(store)}
    assert sorted(message.partition(".")[0] for message in ids) == sorted(names)


async def test_a_message_that_redis_has_lost_is_sent_again_with_its_id(http: httpx2.AsyncClient, store: Store) -> None:
    name = await added(http, at=soon())
    [message] = await wait_until("the message", lambda: sent(store))
    schedules = ScheduleStore(store)
    kept = await schedules.read("default", name)
    assert kept is not None
    run = kept.state.runs[0].model_copy(update={"status": "sending"})
    await store.call("DEL", INBOUND.key())
    state = kept.state.model_copy(update={"runs": (run,)})
    await wait_until("a write that nobody was quicker with", lambda: _written(schedules, name, state))
    assert await wait_until("the message once more", lambda: sent(store)) == [message]
    await store.call("SET", dedup(0, "default", message["session_id"], message["message_id"]), "1-0")


async def _written(schedules: ScheduleStore, name: str, state: Any) -> bool:
    kept = await schedules.read("default", name)
    assert kept is not None
    return await schedules.write(kept, state, 0)


async def test_of_a_message_that_was_to_be_sent_long_ago_nobody_claims_anything(
    http: httpx2.AsyncClient, store: Store
) -> None:
    """Whoever was to send it was killed, and nobody came for half a day: ids are remembered for a day only."""
    name = await added(http, at=soon())
    await wait_until("the message", lambda: sent(store))
    schedules = ScheduleStore(store)
    kept = await schedules.read("default", name)
    assert kept is not None
    long_ago = (datetime.now(UTC) - timedelta(hours=13)).strftime("%Y-%m-%dT%H:%M:%SZ")
    run = kept.state.runs[0].model_copy(update={"status": "sending", "sent_at": long_ago})
    await store.call("DEL", INBOUND.key())
    await wait_until("a write", lambda: _written(schedules, name, kept.state.model_copy(update={"runs": (run,)})))
    await wait_until("its end", lambda: _is(http, name, "unknown"))
    assert await sent(store) == []


@pytest.mark.parametrize("whose", ["session", "user"])
async def test_what_belongs_to_an_erased_session_or_user_is_never_sent(
    whose: str, http: httpx2.AsyncClient, store: Store
) -> None:
    theirs = await added(http, at=soon(1.5), **{f"{whose}_id": "ada"})
    others = await added(http, at=soon(1.5), session_id="bob", user_id="bob")
    assert (await http.delete(f"/v1/{whose}s/ada")).status_code == 202
    later = await added(http, at=soon(1.5), **{f"{whose}_id": "ada"})
    await wait_until("those of others", lambda: _sent_by(store, {others, later}))
    problem(await http.get(f"{URL}/{theirs}"), 404)
    assert {message["metadata"]["schedule_id"] for message in await sent(store)} == {others, later}
    assert await store.call("EXISTS", schedule("default", theirs)) == 0


async def _sent_by(store: Store, names: set[str]) -> bool:
    return names <= {message["metadata"]["schedule_id"] for message in await sent(store)}


async def test_an_archiver_removes_the_schedules_of_a_session_and_of_a_user(
    http: httpx2.AsyncClient, store: Store
) -> None:
    of_session = await added(http, every=3600, session_id="s1")
    of_user = await added(http, every=3600, user_id="ada")
    of_nobody = await added(http, every=3600)
    schedules, now = ScheduleStore(store), await store.clock()
    assert await schedules.remove_of("default", 0, session="s1") == 0, "what was made later stays"
    assert await schedules.remove_of("other", now, session="s1") == 0
    assert await schedules.remove_of("default", now, session="s1") == 1
    assert await schedules.remove_of("default", now, user="ada") == 1
    assert [each["schedule_id"] for each in (await http.get(URL)).json()["items"]] == [of_nobody]
    for name in (of_session, of_user):
        problem(await http.get(f"{URL}/{name}"), 404)


async def test_one_that_cannot_be_read_stops_no_other_and_stays(http: httpx2.AsyncClient, store: Store) -> None:
    damaged = await added(http, at=soon(0.5))
    newer = await added(http, at=soon(0.5))
    nowhere = await added(http, **DAILY)
    good = await added(http, at=soon(0.6))
    await store.call("HSET", schedule("default", damaged), "state", "{")
    await store.call("HSET", schedule("default", newer), "state", '{"version":2,"created":1,"set_at":1}')
    spec = json.dumps(DAILY | {"schedule_id": nowhere, "time_zone": "Mars/Olympus"})
    await store.call("HSET", schedule("default", nowhere), "spec", spec)
    for member in ("nobody", "a/b/c", "default/gone", f"default/{nowhere}", b"\xff/\xff"):
        await store.call("ZADD", SCHEDULES_DUE, 1, member)
    await wait_until("the one that is well", lambda: _sent_by(store, {good}))
    await wait_until("what names none to go", lambda: _only(store, {damaged, newer, nowhere, good}))
    problem(await http.get(f"{URL}/{damaged}"), 410)
    assert "version" in problem(await http.get(f"{URL}/{newer}"), 410)
    assert {each["schedule_id"] for each in (await http.get(URL)).json()["items"]} == {nowhere, good}
    assert (await http.delete(f"{URL}/{damaged}")).status_code == 204


async def _only(store: Store, names: set[str]) -> bool:
    found = await store.call("ZRANGE", SCHEDULES_DUE, 0, -1)
    return {member.decode() for member in found} == {f"default/{name}" for name in names}


GO = {"content": "go"}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "content: Field required"),
        (GO, "one of cron, every and at"),
        (GO | {"cron": "* * * * *", "every": 60}, "one of cron, every and at"),
        (GO | {"cron": "* * * * * *"}, "five fields"),
        (GO | {"cron": "*/1 " * 100}, "cron: "),
        (GO | {"cron": ["* * * * *"]}, "cron: "),
        (GO | {"every": 59}, "59 s apart, and must be 60 s or more"),
        (GO | {"every": 0}, "every: "),
        (GO | {"every": 10**30}, "every: "),
        (GO | {"every": "1m"}, "every: "),
        (GO | {"at": "9999-12-31T23:59:59Z"}, "within ten years"),
        (GO | {"at": "10000-01-01T00:00:00Z"}, "at: "),
        (GO | {"at": "2001-01-01T00:00:00Z"}, "the time has passed"),
        (GO | {"at": "9" * 65}, "at: "),
        (GO | {"every": 60, "time_zone": "Mars/Olympus"}, "time zone 'Mars/Olympus' is unknown"),
        (GO | {"every": 60, "time_zone": "../../../etc/passwd"}, "is unknown"),
        (GO | {"every": 60, "time_zone": "a" * 65}, "time_zone: "),
        ({"every": 60, "content": ""}, "content: "),
        ({"every": 60, "content": "x" * (MAX_SCHEDULED_CONTENT + 1)}, "content: "),
        (GO | {"every": 60, "session_id": "a b"}, "session_id: "),
        (GO | {"every": 60, "session_id": "x" * 129}, "session_id: "),
        (GO | {"every": 60, "user_id": "a/b"}, "user_id: "),
        (GO | {"every": 60, "instruction": "a/b"}, "instruction: "),
        (GO | {"every": 60, "overlap": "both"}, "overlap: "),
        (GO | {"every": 60, "catch_up": 25}, "catch_up: "),
        (GO | {"every": 60, "catch_up": -1}, "catch_up: "),
        (GO | {"every": 60, "schedule_id": "x" * 65}, "schedule_id: "),
        (GO | {"every": 60, "schedule_id": "a/b"}, "schedule_id: "),
        (GO | {"every": 60, "tenant_id": "bolt"}, "tenant_id: "),
        (GO | {"every": 60, "status": "paused"}, "status: "),
        (GO | {"every": 60} | {f"f{n}": 1 for n in range(300)}, "fields are wrong or not known"),
    ],
)
async def test_what_nobody_could_send_is_refused(
    body: dict[str, Any], says: str, http: httpx2.AsyncClient, store: Store
) -> None:
    assert says in problem(await http.post(URL, json=body), 422)
    assert await store.call("KEYS", "pentad:{pentad:schedules}:[^t]*") == []


async def test_bodies_and_names_that_are_none_are_refused(http: httpx2.AsyncClient) -> None:
    for body, status in ((b"", 400), (b"[]", 400), (b"{", 400), (b"[" * 9_999, 400), (b"x" * (1 << 20 | 1), 413)):
        problem(await http.post(URL, content=body), status)
    for name in ("a%2Fb", "x" * 5000, "%00", "a b", "%F0%9F%98%80"):
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("GET", "/runs")):
            assert (await http.request(method, f"{URL}/{name}{path}")).status_code == 404, (method, name[:9])
    name = await added(http, every=60)
    for limit in ("0", "501", "x", "-1"):
        problem(await http.get(f"{URL}/{name}/runs?limit={limit}"), 422)


async def test_who_erases_is_told_of_a_session_that_has_a_schedule_alone(
    http: httpx2.AsyncClient, store: Store
) -> None:
    await added(http, every=3600, session_id="quiet")
    assert (await http.delete("/v1/sessions/quiet")).status_code == 202
    assert await store.call("EXISTS", SessionKeys(0, "default", "quiet").erased) == 1
    assert await store.call("EXISTS", erased_user(0, "default", "quiet")) == 0


async def test_the_command_line_and_python_do_the_same(
    gateway: GatewayService, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    async def said(*words: str, code: int = 0) -> str:
        found, out, err = await command(gateway, capsys, "schedules", *words)
        assert found == code, (out, err)
        return out + err

    assert "no schedules" in await said()
    zone = ("--cron", "0 9 * * *", "--time-zone", "Europe/Berlin")
    options = ("--overlap", "queue", "--catch-up", "0", "--session", "s1", "--user", "ada", "--instruction", "planner")
    assert "news is due at 20" in await said("add", "what \x1b[31mis new?", *zone, *options, "--id", "news")
    made = json.loads(await said("add", "tidy up", "--every", "6h", "--json"))
    assert (made["every"], made["overlap"], made["catch_up"]) == (21_600, "skip", 1)
    listed = await said()
    assert "0 9 * * * Europe/Berlin" in listed
    assert "every 21600 s" in listed
    assert "\x1b[31m" not in listed
    assert [json.loads(line)["schedule_id"] for line in (await said("--json")).splitlines()] == [
        made["schedule_id"],
        "news",
    ]
    assert "news is paused" in await said("pause", "news")
    assert "news is due at" in await said("resume", "news")
    assert "nothing was due yet" in await said("history", "news")
    once = json.loads(await said("add", "now", "--at", soon(0.5), "--json"))["schedule_id"]
    await wait_until("the message", lambda: sent(store))
    assert f"{once}.20" in await said("history", once)
    assert json.loads(await said("history", once, "--json"))["message_id"].startswith(f"{once}.")
    assert "news is removed" in await said("remove", "news")
    assert "`pentad schedules` lists them" in await said("remove", "news", code=1)
    assert "five fields" in await said("add", "x", "--cron", "daily", code=1)
    async with pentad.connect(gateway.address) as agent:
        added_there = await agent.management.add_schedule("hello", every=90, session_id="s2")
        name = added_there.schedule_id
        assert (await agent.management.pause_schedule(name)).status == "paused"
        assert (await agent.management.resume_schedule(name)).status == "active"
        assert (await agent.inspection.schedule(name)).content == "hello"
        assert (await agent.inspection.schedules())[0].schedule_id == name
        [run] = await agent.inspection.schedule_runs(once)
        assert run.status in ("sending", "accepted")
        await agent.management.delete_schedule(name)
        with pytest.raises(pentad.NotFound):
            await agent.inspection.schedule(name)
        with pytest.raises(pentad.Refused, match="60 s or more"):
            await agent.management.add_schedule("hello", every=9)


@pytest.mark.parametrize("words", [("add", "x"), ("add", "x", "--every", "0"), ("add", "x", "--every", "1y")])
async def test_the_command_line_says_how_a_time_is_written(
    words: tuple[str, ...], gateway: GatewayService, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        await command(gateway, capsys, "schedules", *words)
    assert ended.value.code == 2
    assert "--every" in capsys.readouterr().err
