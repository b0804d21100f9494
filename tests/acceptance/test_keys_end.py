"""Law 14: every key that Pentad leaves in Redis ends, or is one of a few that are named here. And law 13: tenants."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, fail
from tests.support.processes.crew import crew
from tests.support.processes.gates import Gates, plan, planned
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

PERMANENT = {
    r"pentad:inbound": "work: trimmed to what is not consumed",
    r"pentad:\{pentad:inbound\}:lease": "the fence of the one ingress",
    r"pentad:dead": "dead letters: kept until a person discards them",
    r"pentad:cluster": "the number of shards",
    r"pentad:models": "models that were registered: kept until they are deleted",
    r"pentad:instructions": "instructions that were registered: likewise",
    r"pentad:webhooks": "webhooks that were registered: likewise",
    r"pentad:memory-counts": "how much was written to each store of the memory: a few fields",
    r"pentad:\{0\}:wake:session": "work",
    r"pentad:\{0\}:wake:task": "work",
    r"pentad:\{0\}:tools:default": "work",
    r"pentad:\{0\}:embed": "work",
    r"pentad:\{0\}:archive": "work",
    r"pentad:\{0\}:remember": "work",
    r"pentad:\{0\}:learn": "work",
    r"pentad:\{0\}:extract": "work",
    r"pentad:\{0\}:erase": "work",
    r"pentad:\{0\}:memory": "work; calls without an answer are taken back",
    r"pentad:\{0\}:model-calls": "work; calls without an answer are taken back",
    r"pentad:\{0\}:hooks": "work; requests without an outcome are taken back",
    r"pentad:\{0\}:dead": "dead letters",
    r"pentad:\{0\}:bell": "capped at a thousand entries",
    r"pentad:\{0\}:load": "a counter, and one for each tenant with messages that wait",
    r"pentad:\{0\}:timers": "a timer goes when it fires, or with its task",
    r"pentad:\{0\}:tasks:[^:]+": "a tenant's index of tasks: cut after 30 days",
}


async def test_after_archiving_every_key_is_permanent_by_name_or_has_an_end(tmp_path: Path) -> None:
    def script(request: dict[str, object]) -> Reply:
        return fail(400) if "refuse me" in str(request["messages"]) else planned(request)

    async with (
        RedisServer() as server,
        ScriptedModel(script, record=False) as model,
        crew(
            server.url,
            tmp_path / "run",
            {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1, "embedding": 1, "archiver": 1},
            LLM_BASE_URL=model.base_url,
            PENTAD_GRACE_S="1",
            **Gates(tmp_path / "gates").environment,
        ),
        Bus(server.url) as bus,
    ):
        await mixed_run(bus)
        ends = [e for s in ("tools", "again", "refused", "dead") for e in await bus.events(s, "task_end")]
        tasks = {e["task_id"] for e in ends}
        for task in tasks:
            await wait_until(f"the record of {task}", (records(tmp_path) / f"{task}.json").exists)
        await wait_until("the timers to be gone", lambda: no_timers(bus))
        await wait_until("the tasks' keys to be gone", lambda: no_keys_of_tasks(bus))
        left = [key async for key in bus.redis.scan_iter(count=1000)]
        endless = [key for key in left if await bus.redis.ttl(key) == -1]
    unnamed = [key for key in endless if not any(re.fullmatch(name, key) for name in PERMANENT)]
    print(f"\n{len(tasks)} archived tasks; {len(left)} keys left, {len(endless)} of them permanent: {sorted(endless)}")
    assert len(tasks) == 4
    assert unnamed == []
    assert [key for key in left if ":task:" in key or any(task in key for task in tasks)] == []


async def mixed_run(bus: Bus) -> None:
    """Small, large and failing results of tools, a task opened again, a refusal of the model, poison, an embedding."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("echo", {"text": "a"}),
        ("big", {"size": 20_000}),
        ("broken", {"tag": "b"}),
        ("unheard of", {}),
    ]
    await bus.send(plan(calls), "tools", user_id="u1")
    await bus.send("refuse me", "refused")
    await bus.send("hello", "again", deadline="2099-01-01T00:00:00Z")
    await bus.send("hello", "again", message_id="same")
    await bus.send("hello", "again", message_id="same")
    await bus.add("pentad:inbound", '{"session_id":"poison"}')
    await bus.add("pentad:{0}:wake:task", "poison")
    await bus.send(plan([("echo", {"text": "a"})]), "dead", deadline="2000-01-01T00:00:00Z")
    await bus.send(plan([("echo", {"text": "a"})]), "dead")
    await bus.answer(await bus.ask_to_embed(["a text"], "here"))
    for session in ("tools", "refused", "again", "dead"):
        await bus.until(session, "task_end")
    await bus.until("poison", "error")


def records(folder: Path) -> Path:
    return folder / "run" / "records" / "default"


async def no_timers(bus: Bus) -> bool:
    return not await bus.redis.exists("pentad:{0}:timers")


async def no_keys_of_tasks(bus: Bus) -> bool:
    """A record is written before its task is removed."""
    return not [key async for key in bus.redis.scan_iter(match="*:task:*", count=1000)]


async def test_sessions_of_the_same_name_of_two_tenants_are_separate(tmp_path: Path) -> None:
    asked: list[str] = []

    def script(request: dict[str, object]) -> Reply:
        asked.append(str(request["messages"]))
        return planned(request)

    counts = {"router": 1, "task-runner": 1, "tool-worker": 1, "archiver": 1}
    async with (
        RedisServer() as server,
        ScriptedModel(script, record=False) as model,
        crew(server.url, tmp_path / "run", counts, LLM_BASE_URL=model.base_url, PENTAD_GRACE_S="2"),
        Bus(server.url) as bus,
    ):
        for tenant in ("red", "blue"):
            await bus.send(plan([("echo", {"text": f"secret of {tenant}"})]), "s1", tenant_id=tenant, message_id="m1")
        told = {}
        for tenant in ("red", "blue"):
            await bus.until("s1", "task_end", tenant=tenant)
            told[tenant] = await bus.events("s1", tenant=tenant)
        tasks = {tenant: events[-1]["task_id"] for tenant, events in told.items()}
        # Neither reaches the other's task, not even by its id.
        await bus.send("tell me", "s1", tenant_id="blue", task_id=tasks["red"], message_id="m2")
        [refused] = await bus.until("s1", "error", tenant="blue")
        for tenant, task in tasks.items():
            await wait_until("the record", (records(tmp_path).parent / tenant / f"{task}.json").exists)
        await bus.send("tell me", "s1", tenant_id="blue", task_id=tasks["red"], message_id="m3")
        await bus.until("s1", "error", 2, tenant="blue")
        untold = await bus.events("s1")
        keys = await bus.redis.keys("pentad:{0}:*:red*")
    print(f"\ntasks {tasks}; to the other's task: {refused['code']}; keys of red: {sorted(keys)}")
    assert tasks["red"] != tasks["blue"]
    for tenant, other in (("red", "blue"), ("blue", "red")):
        assert {e["tenant_id"] for e in told[tenant]} == {tenant}
        assert f"secret of {other}" not in str(told[tenant])
    assert not any("secret of red" in prompt and "secret of blue" in prompt for prompt in asked)
    assert refused["code"] == "unknown_task"
    assert untold == []
