"""What older versions have left behind is continued, made, redriven, read and shown: nothing is lost or doubled.

`recorded/COMMIT.json` is what that version's ``pentad up`` left when all its processes were killed in the middle. It is
made by ``python -m tests.support.recording``, which says what was said in its sessions.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.support.clients.api import Api, Event
from tests.support.models.model_server import ScriptedModel
from tests.support.processes.gates import Gates, plan, planned
from tests.support.processes.up import Up
from tests.support.redis.keyspace import absolute, put_back
from tests.support.redis.raw_redis import events_key, events_of, redis_at
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

RECORDED = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "recorded").glob("*.json"))}
"""By the commit of the version."""
PASSING = ("content", "thinking", "tool_progress")
"""Events that are kept for a while only."""


class Today:
    """This version, on what an older one has left."""

    def __init__(self, api: Api, operator: Api, gates: Gates, left: Mapping[str, Any], redis: str) -> None:
        self.api, self.operator, self.gates, self.left, self.redis = api, operator, gates, left, redis
        self.tasks: dict[str, str] = left["tasks"]

    async def say(self, session: str, content: str, **fields: str) -> dict[str, Any]:
        """Send a message; returns how it was routed."""
        sent = await self.api.post("/v1/messages", {"session_id": session, "content": content} | fields)
        (routed,) = await self.told(session, "message_routed", message_id=sent["message_id"])
        return routed

    def kept(self, session: str) -> dict[str, Event]:
        """The events of a session that were left, by their cursors."""
        stream = self.left["keys"].get(events_key(session), {"value": {"entries": {}}})["value"]
        return {cursor: json.loads(fields["data"]) for cursor, fields in stream["entries"].items()}

    async def told(self, session: str, kind: str, number: int = 1, **fields: Any) -> list[Event]:
        """Events of a session of this type with these fields, once there are so many."""

        async def find() -> list[Event]:
            events = [e for e in await events_of(self.redis, session) if e["type"] == kind]
            found = [e for e in events if all(e.get(name) == value for name, value in fields.items())]
            return found if len(found) >= number else []

        return await wait_until(f"{number} {kind} in {session} with {fields}", find)

    async def answered(self, session: str, text: str, ends: int) -> None:
        """The answer has come once, the task has ended as often as it has begun, each call of it has one result."""
        task = self.tasks.get(session) or (await self.told(session, "task_start"))[0]["task_id"]
        kept = self.kept(session).values()
        before = sum((e["type"], e.get("content"), e.get("task_id")) == ("message", text, task) for e in kept)
        assert len(await self.told(session, "message", before + 1, content=text, task_id=task)) == before + 1
        assert len(await self.told(session, "task_end", ends, task_id=task)) == ends
        assert len(await self.told(session, "task_start", ends, task_id=task)) == ends
        transcript = await self.api.transcript(task)
        asked = [call["id"] for m in transcript for call in m.get("tool_calls", ())]
        assert [m["tool_call_id"] for m in transcript if m["role"] == "tool"] == asked
        assert (await self.api.get(f"/v1/tasks/{task}"))["status"] == "completed"

    def started(self, tag: str) -> int:
        """How often a tool was begun by this version."""
        return len(self.gates.ledger("start", tag))


@asynccontextmanager
async def today(recording: str, folder: Path, route: str = "explicit") -> AsyncIterator[Today]:
    """Put back what was recorded, and start this version on it. ``route``: plans for the model are no words that could
    be weighed."""
    gates = Gates(folder / "gates")
    async with RedisServer() as server, ScriptedModel(planned, record=False) as model:
        with Redis.from_url(server.url, decode_responses=True) as redis:
            seconds, micros = redis.time()
            now = seconds * 1000 + micros // 1000
            left = json.loads(absolute(recording, now))
            put_back(redis, left["keys"])
        for path, text in left["records"].items():
            (file := folder / "data" / path).parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        given = {"REDIS_URL": server.url, "LLM_BASE_URL": model.base_url, "LLM_MODEL_ID": "scripted"}
        given |= {"PENTAD_ROUTE": route, "PENTAD_ADMIN_KEY": "root", "PENTAD_LEASE_S": "1"} | gates.environment
        with Up(folder, given) as system:
            async with Api(await system.ready()) as api, Api(system.url, "root") as operator:
                yield Today(api, operator, gates, left, server.url)


@pytest.mark.parametrize("commit", RECORDED)
async def test_what_it_left_is_shown_goes_on_and_is_redriven(commit: str, tmp_path: Path) -> None:
    async with today(RECORDED[commit], tmp_path) as it:
        await _is_shown(it)
        await _live_tasks_go_on(it)
        await _ended_ones_are_opened_and_waiting_ones_go_on(it)
        await _the_one_live_task_of_a_session_is_one_of_several(it)
        await _letters_are_redriven(it)
        await _nothing_is_left_to_do(it)


@pytest.mark.parametrize("commit", RECORDED)
async def test_words_find_a_live_task_that_it_left(commit: str, tmp_path: Path) -> None:
    """Its session knows nothing to compare messages with but what the task began with."""
    async with today(RECORDED[commit], tmp_path, "auto") as it:
        poem = await it.say("live", "By the way, please write a short poem about autumn leaves for my grandmother.")
        assert (poem["decision"], poem["stage"]) == ("new", "similarity")
        await it.told("live", "task_end", task_id=poem["task_id"])
        routed = await it.say("live", "Is that live gate done, and what is the answer of its steps?")
        assert (routed["decision"], routed["task_id"]) == ("append", it.tasks["live"])
        assert routed["stage"] == "similarity"
        assert set(routed["scores"]) == {it.tasks["live"], poem["task_id"]}
        await wait_until("the open call", lambda: it.started("live"))
        it.gates.open("live")
        await it.answered("live", "ok", 1)
        roles = [m["role"] for m in await it.api.transcript(it.tasks["live"])]
        assert roles == ["user", "assistant", "tool", "user", "assistant"]


async def _is_shown(it: Today) -> None:
    """Events are replayed, tasks and transcripts are there, also from the record."""
    for session in {*it.tasks} - {"archived", "two-failed"}:
        want = [e | {"id": i} for i, e in it.kept(session).items() if e["type"] not in PASSING]
        got: list[Event] = []
        async with it.api.sse(session) as events:
            async for event in events:
                got += [event] if event["type"] not in PASSING else []
                if len(got) == len(want):
                    break
        assert got == want
    shown = await it.api.get(f"/v1/tasks/{it.tasks['archived']}")
    assert (shown["status"], bool(shown["archived_at"])) == ("completed", True)
    (record,) = it.left["records"].values()
    assert await it.api.transcript(it.tasks["archived"]) == json.loads(record)["messages"]
    for session, status in (("ended", "completed"), ("failed", "failed"), ("waiting", "waiting")):
        assert (await it.api.get(f"/v1/tasks/{it.tasks[session]}"))["status"] == status


async def _live_tasks_go_on(it: Today) -> None:
    """Open calls are made or told to be of unknown outcome; what lies in mail and in the inbound stream is answered."""
    routed = await it.say("live", plan(answer="both are done"))
    assert (routed["decision"], routed["task_id"]) == ("append", it.tasks["live"])
    await wait_until("the open calls", lambda: it.started("live") and it.started("mail") and it.started("half"))
    for gate in ("live", "mail", "half"):
        it.gates.open(gate)
    await it.answered("live", "both are done", 1)
    await it.answered("half", "half is done", 1)
    await it.answered("mail", "ok", 1)
    roles = [m["role"] for m in await it.api.transcript(it.tasks["mail"])]
    assert roles == ["user", "assistant", "tool", "tool", "user", "assistant"]
    (told,) = await it.told("unsafe", "tool_result")
    assert "unknown" in told["error"]
    await it.answered("unsafe", "unsafe is done", 1)
    await it.answered("late", "it is 56", 1)
    assert [it.started(tag) for tag in ("live", "mail", "half", "unsafe")] == [1, 1, 1, 0]


async def _ended_ones_are_opened_and_waiting_ones_go_on(it: Today) -> None:
    for session, decision, ends in (("ended", "reopen", 2), ("waiting", "append", 1)):
        routed = await it.say(session, plan(answer="again"))
        assert (routed["decision"], routed["task_id"]) == (decision, it.tasks[session])
        await it.answered(session, "again", ends)


async def _the_one_live_task_of_a_session_is_one_of_several(it: Today) -> None:
    """It was noted as the one that was spoken to last; now another is, and then none of them."""
    named, running = it.tasks["two-failed"], it.tasks["two"]
    await it.say("two", plan([("gate_pure", {"gate": "named", "tag": "named"})]), task_id=named)
    await wait_until("the named task's call", lambda: it.started("named"))
    assert (await it.say("two", plan(answer="to the named")))["task_id"] == named
    it.gates.open("named")
    await it.told("two", "task_end", 2, task_id=named)
    assert (await it.say("two", plan(answer="to the other")))["task_id"] == running
    it.gates.open("two")
    await it.answered("two", "to the other", 1)


async def _letters_are_redriven(it: Today) -> None:
    """Letters of the old form: each is shown as it was, redriven once, and answered."""
    operator = it.operator
    letters = (await operator.get("/v1/dead-letters"))["items"]
    kinds = Counter(letter["kind"] for letter in letters)
    assert kinds == {"entry": 1, "call": 1, "session_mail": 1, "task_mail": 2}
    edits: dict[str, Any] = {
        "entry": {"session_id": "refused", "content": plan(answer="mended")},
        "call": {"tool": "gate_pure", "args": {"gate": "call", "tag": "call"}},
    }
    it.gates.open("call")
    for letter in letters:
        place = f"/v1/dead-letters/{letter['id']}"
        shown = await operator.get(place)
        assert (shown["reason"], shown["attempts"]) == (letter["reason"], letter["attempts"])
        edit = edits.get(letter["kind"])
        if edit is not None:
            await operator.post(f"{place}/redrive", status=409)
        await operator.post(f"{place}/redrive", edit)
        again = await operator.post(f"{place}/redrive", edit, status=409)
        assert "redriven before" in again["detail"]
    assert (await operator.get("/v1/dead-letters"))["items"] == []
    await it.answered("refused", "mended", 1)
    await it.answered("unrouted", "said again", 2)
    await it.answered("spoilt", "ok", 2)
    await it.answered("result", "result is done", 2)
    await it.answered("call", "call is done", 2)
    assert it.started("call") == 1


async def _nothing_is_left_to_do(it: Today) -> None:
    """No mail waits, no message is counted as waiting, no entry of a work stream is unread or pending."""

    async with redis_at(it.redis) as redis:

        async def quiet() -> bool:
            boxes = [key async for key in redis.scan_iter(_type="zset") if key.endswith((":mail", ":signals"))]
            streams = [key async for key in redis.scan_iter("pentad:*", _type="stream")]
            groups = [group for key in streams for group in await redis.xinfo_groups(key)]
            waiting = await redis.hget("pentad:{0}:load", "mail") or "0"
            return not (boxes or int(waiting) or any(group["pending"] or group["lag"] for group in groups))

        await wait_until("nothing to be left to do", quiet)
