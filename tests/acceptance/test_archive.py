"""A finished task becomes one complete record, from which it answers; until then a new message opens it again."""

import json
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.records import TaskRecord
from pentad.shared.keys import task_index
from pentad.shared.records.record_store import Records
from tests.support.clients.api import Api
from tests.support.models.model_server import ScriptedModel
from tests.support.processes.crew import crew
from tests.support.processes.gates import Gates, plan, planned
from tests.support.rebuilding import as_sent, chat_form, prompts_of
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

COUNTS = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1, "archiver": 1}
FIRST = plan([("echo", {"text": "one"}), ("big", {"size": 20_000})], [("echo", {"text": "zwei"})], answer="the first")
SECOND = plan([("broken", {"tag": "x"})], answer="the second")


async def test_a_task_is_archived_whole_and_answers_from_its_record(tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'records'}"
    async with (
        RedisServer() as server,
        ScriptedModel(planned) as model,
        crew(
            server.url,
            tmp_path / "run",
            COUNTS,
            LLM_BASE_URL=model.base_url,
            PENTAD_GRACE_S="2",
            PENTAD_RECORDS_URL=url,
            **Gates(tmp_path / "gates").environment,
        ) as team,
        Bus(server.url) as bus,
        Api(team.named("gateway")[0].url) as api,
    ):
        await bus.send(FIRST, "s1", user_id="u1", message_id="m1")
        [end] = await bus.until("s1", "task_end")
        task = end["task_id"]
        await bus.send(SECOND, "s1", user_id="u1", message_id="m2")  # within the grace time
        ends = await bus.until("s1", "task_end", 2)
        routed = await bus.events("s1", "message_routed")
        (cut,) = [e for e in await bus.events("s1", "tool_result") if e.get("ref")]
        before = await api.get(f"/v1/tasks/{task}"), await api.transcript(task)
        value = await api.get(f"/v1/tasks/{task}/values/{cut['ref']}")
        record = await until_record(Records(url), bus, task)
        asked = list(model.chats)
        assert await bus.redis.delete(task_index(0, "default")) == 1  # as a month ends it
        listed = (await api.get("/v1/tasks"))["items"], (await api.get("/v1/tasks?session_id=s1&limit=1"))["items"]
        after = await api.get(f"/v1/tasks/{task}"), await api.transcript(task)
        value_after = await api.get(f"/v1/tasks/{task}/values/{cut['ref']}")
        await bus.send("what was it?", "s1", task_id=task)
        new = (await bus.until("s1", "task_end", 3))[-1]
        continued = model.chats[-1]["messages"]
    files = [str(f.relative_to(tmp_path / "records")) for f in (tmp_path / "records").rglob("*.json") if f.is_file()]
    print(f"\nrecord of {len(record.messages)} messages and {len(record.steps)} steps, {len(record.to_json())} bytes")
    assert [(e["decision"], e["task_id"]) for e in routed] == [("new", task), ("reopen", task)]
    assert {e["task_id"] for e in ends} == {task}
    check_record(record, asked)
    assert (record.tenant_id, record.task.session_id, record.task.user_id) == ("default", "s1", "u1")
    assert before[1] == after[1]
    assert len(cut["result"]) < len(value["content"])
    assert value == value_after == {"task_id": task, "ref": cut["ref"], "content": "x" * 20_000}
    assert {k: v for k, v in after[0].items() if k != "archived_at"} == {
        k: v for k, v in before[0].items() if k != "archived_at"
    }
    assert after[0]["archived_at"]
    assert listed == ([after[0]], [after[0]]), "lists find it without Redis"
    assert new["task_id"] != task
    assert "the first" in json.dumps(continued)
    assert "the second" in json.dumps(continued)
    assert files[:1] == [f"default/{task}.json"]


async def until_record(records: Records, bus: Bus, task: str) -> TaskRecord:
    """The record, once the task has left Redis."""

    async def gone() -> bool:
        return not await bus.redis.keys(f"*{task}*")

    await wait_until("the task to leave Redis", gone)
    record = await records.read("default", task)
    assert record is not None
    return record


def check_record(record: TaskRecord, asked: list[dict[str, Any]]) -> None:
    """Every prompt that the model was sent can be rebuilt from it, with its digest, and every answer is there."""
    prompts = prompts_of(record)
    assert [as_sent(p, body["model"]) for p, body in zip(prompts, asked, strict=True)] == [
        body["messages"] for body in asked
    ]
    assert [p.tools for p in prompts] == [body["tools"] for body in asked]
    assert len({p.digest for p in prompts}) == len(prompts) == 5
    assert [s.step for s in record.steps] == [1, 2, 3, 4, 5]
    roles = [chat_form(m)["role"] for m in record.messages]
    assert roles == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    contents = [m["content"] for m in record.messages]
    assert contents[3] == "x" * 20_000
    assert (contents[6], contents[10]) == ("the first", "the second")
    assert "broken on purpose" in contents[9]
    assert record.task.status == "completed"
    assert record.task.steps == 5
    assert record.task.usage.input_tokens == sum(s.usage.input_tokens for s in record.steps) > 0
