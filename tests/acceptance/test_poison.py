"""Law 8: poison is set aside with its reason, the stream goes on, and people can see it. An outage is no poison."""

import asyncio
import json
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from pentad.contracts.streams import DEAD, INBOUND, INBOUND_DEAD, queues_of
from pentad.shared.embedder.vectors import content_key
from pentad.shared.keys import vector
from pentad.shared.metrics import dead
from tests.support.models.model_server import ScriptedModel
from tests.support.ports import free_port
from tests.support.processes.crew import LONG, Crew, crew
from tests.support.processes.eyes import doctor, metric
from tests.support.processes.gates import Gates, plan, planned
from tests.support.processes.hurried import hurried
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

NOT_JSON = b'\x00\xff{"actor"'
NOT_THE_SCHEMA = b'{"colour":"green"}'
UNKNOWN_VERSION = b'{"type":"wake_up","version":2,"actor":"default/a"}'
POISON = (NOT_JSON, NOT_THE_SCHEMA, UNKNOWN_VERSION)
FORGED_CALL = {
    "type": "tool_call_command",
    "event_id": "e-1",
    "at": "2030-01-01T00:00:00.000Z",
    "tenant_id": "default",
    "session_id": "forged",
    "task_id": "forged",
    "tool_call_id": "c-1",
    "step": 1,
    "tool": "echo",
    "args": {"text": "a"},
    "effect": "idempotent",
    "timeout": 5,
}
DOWN_S = 60.0 if LONG else 0.0
"""How long a store is down at least; the short form waits for a few retries."""
RETRIES = 3


async def test_what_cannot_be_read_is_set_aside_and_every_stream_goes_on(tmp_path: Path) -> None:
    hooks = {"PENTAD_PLUGINS": "tests.support.plugins.hooking", "PENTAD_TOOL_ENV": "HOOKING", "HOOKING": str(tmp_path)}
    async with (
        RedisServer() as server,
        crew(server.url, tmp_path / "run", PENTAD_GRACE_S="0", PENTAD_EXTRACT="auto", **hooks) as team,
        Bus(server.url) as bus,
    ):
        work = [key for _, key in queues_of(0, ("default",))]
        for key in work:
            for data in POISON:
                await bus.add(key, data)
        version_2 = {"version": 2, "content": "hello", "session_id": "s1", "message_id": "m-2"}
        for data in (NOT_JSON, b'{"session_id":"s1"}', json.dumps(version_2).encode()):
            await bus.add(INBOUND.key(), data)
        await bus.redis.xadd(INBOUND.key(), {"body": "no data field"})
        letters = await bus.until_letters(DEAD.key(0), len(POISON) * len(work))
        inbound = await bus.until_letters(INBOUND_DEAD.key(), 4)
        told = await bus.until("s1", "error", 2)
        await go_on(bus, "s1")
        await nothing_pending(bus, [*work, INBOUND.key()])
        await seen_by_people(team, {DEAD.key(0): len(letters), INBOUND_DEAD.key(): len(inbound)})
    print(f"\n{len(letters)} entries of {len(work)} work streams and {len(inbound)} inbound ones were set aside")
    assert Counter(letter["stream"] for letter in letters) == dict.fromkeys(work, len(POISON))
    assert all(letter["reason"] and letter["body"] for letter in letters + inbound)
    assert "content" in told[0]["message"]
    assert (told[1]["code"], told[1]["message_id"]) == ("bad_message", "m-2")
    assert "version" in told[1]["message"]


@pytest.mark.slow
async def test_a_handler_that_always_raises_ends_in_a_dead_letter_with_its_reason(tmp_path: Path) -> None:
    gates = Gates(tmp_path / "gates")
    async with (
        RedisServer() as server,
        ScriptedModel(planned) as model,
        crew(
            server.url,
            tmp_path / "run",
            LLM_BASE_URL=model.base_url,
            PENTAD_EXTRACT="auto",
            PENTAD_MAX_ATTEMPTS="2",
            PENTAD_LEASE_S="0.5",
            PENTAD_GRACE_S="1",
            **gates.environment,
        ) as team,
        Bus(server.url) as bus,
    ):
        # The tool-worker: the call's state cannot be read.
        await bus.redis.hset("pentad:{0}:task:default:forged:calls", "c-1", "junk")
        await bus.add("pentad:{0}:tools:default", json.dumps(FORGED_CALL))
        # The embedding service: the vector that it has kept cannot be read.
        await bus.redis.set(vector(0, content_key("simple-384", "default", "/embedding", "a bad text")), "odd")
        await bus.ask_to_embed(["a bad text"], "bad")
        # The archiver: a step of the task cannot be read.
        await bus.send("hello", "archive")
        [end] = await bus.until("archive", "task_end")
        await bus.redis.rpush(f"pentad:{{0}}:task:default:{end['task_id']}:steps", "junk")
        # The router: the session's header cannot be read. Its task's neither, but that would stop its runner alone.
        await bus.send(plan([("gate_pure", {"gate": "later", "tag": "r"})]), "route")
        [call] = await bus.until("route", "tool_call")
        await bus.redis.hset(f"pentad:{{0}}:task:default:{call['task_id']}", "step", "junk")
        await bus.redis.hset("pentad:{0}:session:default:route", "done_at", "junk")
        await bus.send("and?", "route", message_id="m-raise")
        # The runner, and later the archiver, twice: the transcript cannot be read.
        await bus.send(plan([("gate_pure", {"gate": "run", "tag": "t"})]), "run")
        [call] = await bus.until("run", "tool_call")
        await bus.redis.rpush(f"pentad:{{0}}:task:default:{call['task_id']}:log", "junk")
        gates.open("run")
        # And the task whose header cannot be read gets its result; the archiver cannot read it either.
        await bus.until("route", "error")
        gates.open("later")
        letters = await bus.until_letters(DEAD.key(0), 10)
        [told] = [e for e in await bus.until("route", "error") if "message_id" in e]
        await bus.send(plan([("echo", {"text": "on"})]), "next")
        await bus.until("next", "task_end")
        assert (await bus.answer(await bus.ask_to_embed(["a text"], "free")))["error"] is None
        await nothing_pending(bus, [key for _, key in queues_of(0, ("default",))])
        await seen_by_people(team, {DEAD.key(0): len(letters)})
    reasons = [(letter["stream"].removeprefix("pentad:{0}:"), letter["reason"]) for letter in letters]
    print(*("", *reasons), sep="\n")
    streams = ["archive", "archive", "archive", "embed", "remember", "remember", "tools:default"]
    streams += ["wake:session", "wake:task", "wake:task"]
    assert sorted(stream for stream, _ in reasons) == streams
    assert all(reason for _, reason in reasons)
    assert (told["code"], told["message_id"]) == ("internal", "m-raise")


@pytest.mark.slow
async def test_a_store_that_is_down_sends_nothing_to_the_dead_letters(tmp_path: Path) -> None:
    records, port = tmp_path / "run" / "records", free_port()
    records.parent.mkdir()
    records.write_text("a file where the folder should be: nobody can write there, not even root")
    embedding = {"EMBED_MODEL_TYPE": "openai", "EMBED_BASE_URL": f"http://127.0.0.1:{port}/v1"}
    async with (
        RedisServer() as server,
        crew(
            server.url,
            records.parent,
            launcher=hurried("pentad.shared.telemetry:THROTTLE_S=0.2"),
            PENTAD_GRACE_S="0",
            PENTAD_MAX_ATTEMPTS="2",
            **embedding,
        ) as team,
        Bus(server.url) as bus,
    ):
        begun = time.monotonic()
        await bus.send("hello", "s1")
        [end] = await bus.until("s1", "task_end")
        reply = await bus.ask_to_embed(["a text"], "later")
        await wait_until("the archiver to try again", lambda: tries(team, "archiver") >= RETRIES)
        await wait_until("the embedding to try again", lambda: tries(team, "embedding") >= RETRIES)
        await asyncio.sleep(max(0.0, begun + DOWN_S - time.monotonic()))  # the minute of the long form
        down = time.monotonic() - begun
        assert await bus.letters(DEAD.key(0)) == []
        records.unlink()
        async with ScriptedModel(planned, port=port):
            answer = await bus.answer(reply)
        await wait_until("the record", (records / "default" / f"{end['task_id']}.json").exists)
        assert await bus.letters(DEAD.key(0)) == []
        counted = [await metric(p, dead.name) for p in team.processes]
    back = time.monotonic() - begun - down
    print(
        f"\nboth stores down for {down:.1f} s: {tries(team, 'archiver')} and {tries(team, 'embedding')} tries; ", end=""
    )
    print(f"served {back:.1f} s after their return")
    assert answer["error"] is None
    assert len(answer["vectors"]) == 1
    assert sum(counted) == 0


def tries(team: Crew, name: str) -> int:
    """How often the store was asked in vain: the log says it now and then, and how often it did not."""
    lines = [line for line in team.log_of(name).splitlines() if " waits: " in line]
    left_out = (re.search(r"\((\d+) more like this", line) for line in lines)
    return len(lines) + sum(int(found[1]) for found in left_out if found)


async def go_on(bus: Bus, session: str) -> None:
    """Every work stream serves: a turn with a tool, its archiving, an embedding."""
    await bus.send("what is 6*7?", session)
    [result] = await bus.until(session, "tool_result")
    assert result["result"] == "42"
    [end] = await bus.until(session, "task_end")
    await until_gone(bus, end["task_id"])
    assert (await bus.answer(await bus.ask_to_embed(["a text"], "here")))["error"] is None


async def until_gone(bus: Bus, task: str) -> None:
    async def gone() -> bool:
        return not await bus.redis.exists(f"pentad:{{0}}:task:default:{task}")

    await wait_until("the task to leave Redis", gone)


async def nothing_pending(bus: Bus, streams: list[str]) -> None:
    """All is acknowledged: poison is not retried."""

    async def none() -> bool:
        pending: list[int] = [group["pending"] for stream in streams for group in await bus.redis.xinfo_groups(stream)]
        return sum(pending) == 0

    await wait_until(f"{streams} to have nothing pending", none)


async def seen_by_people(team: Crew, counts: dict[str, int]) -> None:
    """`pentad doctor` and the metrics show what was set aside."""
    report = await doctor(team)
    shown = {s["key"]: s for s in report["streams"] if s["stream"] == "dead"}
    for stream, count in counts.items():
        assert shown[stream]["length"] == count
        assert shown[stream]["reasons"]
    assert {f["level"] for f in report["findings"] if f["name"] == "dead letters"} == {"warn"}
    assert sum([await metric(p, dead.name) for p in team.processes]) == sum(counts.values())
