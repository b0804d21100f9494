"""What inspection and control promise."""

import json
from typing import Any

import httpx2
import pytest
from pydantic_core import from_json

import pentad
from pentad.contracts.events import TaskUsage
from pentad.contracts.instructions import Instruction
from pentad.contracts.records import Manifest, StepRecord, Task, TaskRecord
from pentad.services.gateway.app import GatewayService
from pentad.shared.actors.step_prompt import chain
from pentad.shared.instructions.instruction_list import kept_under, version_of
from pentad.shared.keys import TOOLS_REGISTRY, timers
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.speaker import AT, TASK, Speaker
from tests.support.waiting import PATIENCE_S

PROBLEM = "application/problem+json"


async def test_tasks_are_listed_newest_first_in_pages(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    for number in range(7):
        status = "completed" if number % 2 else "active"
        await speaker.task(f"task-0-{number}", status, created=5 + number // 3)
    await Speaker(speaker.store, "s2").task("task-0-other", created=1)
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await http.get("/v1/tasks", params={"limit": "2", "session_id": "s1"} | cursor)).json()
        found += [task["task_id"] for task in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert found == [f"task-0-{number}" for number in (6, 5, 4, 3, 2, 1, 0)]
    active = (await http.get("/v1/tasks", params={"status": "active"})).json()["items"]
    assert [task["task_id"] for task in active] == [f"task-0-{number}" for number in (6, 4, 2, 0)] + ["task-0-other"]


async def test_a_task_and_its_transcript(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await speaker.task(step=1, input_tokens=3)
    entry = f'{{"at":"{AT}","step":1}}\n{{"role":"assistant","content":"42"}}'
    await speaker.store.call("RPUSH", keys.log, entry)
    task = (await http.get(f"/v1/tasks/{TASK}")).json()
    assert (task["status"], task["session_id"], task["usage"]["input_tokens"]) == ("active", "s1", 3)
    assert {"user_id", "waiting_for", "archived_at"} <= task.keys()
    transcript = (await http.get(f"/v1/tasks/{TASK}/transcript")).json()
    assert transcript["messages"] == [{"role": "assistant", "content": "42", "at": AT, "step": 1}]


async def test_what_a_step_asked_its_model_is_shown_with_its_proof(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await speaker.task(step=1, goal="q")
    poet = Instruction(name="poet", system_prompt="Rhyme about {{goal}}.")
    said, system = b'{"role":"user","content":"q"}', b'{"role":"system","content":"Rhyme about q."}'
    manifest = Manifest(
        messages=(0, 1),
        instruction="poet",
        instruction_version=version_of(poet),
        tools="",
        model="m",
        digest=chain("", [said], system, "", "m"),
    )
    step = StepRecord(step=1, attempt=1, at=AT, finish_reason="stop", usage=TaskUsage(), manifest=manifest)
    await speaker.store.call("RPUSH", keys.log, b'{"at":"%s"}\n%s' % (AT.encode(), said))
    await speaker.store.call("RPUSH", keys.steps, step.to_json())
    await speaker.store.call("HSET", keys.big, kept_under(version_of(poet)), poet.to_json())
    shown = (await http.get(f"/v1/tasks/{TASK}/steps/1/prompt")).json()
    assert shown["messages"] == [from_json(system), from_json(said)]
    assert (shown["model"], shown["tools"], shown["digest"], shown["proved"]) == ("m", None, manifest.digest, True)
    for number in ("2", "0", "-1", "x", "9" * 30, "1%2F2"):
        refused = await http.get(f"/v1/tasks/{TASK}/steps/{number}/prompt")
        assert refused.status_code == 404, number
    assert (await http.get("/v1/tasks/task-0-none/steps/1/prompt")).status_code == 404
    steps = (await http.get(f"/v1/tasks/{TASK}/steps")).json()
    assert [(step["step"], step["manifest"]["digest"]) for step in steps["items"]] == [(1, manifest.digest)]
    assert steps["next"] is None
    for wrong in ({"limit": "0"}, {"cursor": "x"}, {"cursor": "-1"}, {"cursor": "9" * 30}, {"cursor": "\u0661"}):
        assert (await http.get(f"/v1/tasks/{TASK}/steps", params=wrong)).status_code == 422, wrong
    assert (await http.get("/v1/tasks/task-0-none/steps")).status_code == 404
    await speaker.store.call("DEL", keys.log)
    lost = await http.get(f"/v1/tasks/{TASK}/steps/1/prompt")
    assert (lost.status_code, "has lost messages" in lost.json()["detail"]) == (410, True)
    await speaker.store.call("RPUSH", keys.steps, "{")
    damaged = await http.get(f"/v1/tasks/{TASK}/steps")
    assert (damaged.status_code, "cannot be read" in damaged.json()["detail"]) == (410, True)


async def test_the_client_lists_steps_and_reads_on_after_each_page(
    gateway: GatewayService, http: httpx2.AsyncClient, speaker: Speaker
) -> None:
    keys = await speaker.task(step=120)
    for number in range(1, 121):
        said = f'{{"at":"{AT}","step":{number}}}\n{{"role":"assistant","content":"{number}"}}'
        await speaker.store.call("RPUSH", keys.log, f'{{"at":"{AT}"}}\n{{"role":"user","content":"q"}}', said)
        manifest = Manifest(messages=(0, 2 * number - 1), instruction="executor", tools="", model="m", digest="d")
        record = StepRecord(step=number, attempt=1, at=AT, finish_reason="stop", usage=TaskUsage(), manifest=manifest)
        await speaker.store.call("RPUSH", keys.steps, record.to_json())
    async with pentad.connect(gateway.address) as agent:
        steps = await agent.inspection.steps(TASK, limit=None)
        few = await agent.inspection.steps(TASK, 2)
        with pytest.raises(pentad.NotFound):
            await agent.inspection.steps("task-0-none")
    assert [step.step for step in steps] == [*range(1, 121)]
    assert [[m["content"] for m in step.messages] for step in steps] == [["q", str(n)] for n in range(1, 121)]
    assert few == steps[:2]


async def test_archived_tasks_answer_from_their_record(redis_url: str, tmp_path: Any) -> None:
    task = Task(
        task_id=TASK,
        session_id="s1",
        status="completed",
        goal="g",
        instruction="executor",
        created_at=AT,
        updated_at=AT,
        steps=1,
        usage=TaskUsage(),
        archived_at=AT,
    )
    record = TaskRecord(tenant_id="default", task=task, messages=[{"role": "user", "content": "q"}], steps=[])
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_records_url=str(tmp_path / "r")) as service:
        await Records(str(tmp_path / "r")).write(record)
        async with httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=PATIENCE_S) as http:
            assert (await http.get(f"/v1/tasks/{TASK}")).json()["archived_at"] == AT
            transcript = (await http.get(f"/v1/tasks/{TASK}/transcript")).json()
            assert transcript["messages"] == [{"role": "user", "content": "q"}]
            assert (await http.post(f"/v1/tasks/{TASK}/cancel")).status_code == 409
            assert (await http.post(f"/v1/tasks/{TASK}/archive")).status_code == 202, "it is archived"


@pytest.mark.parametrize("what", ["cancel", "pause", "resume"])
async def test_control_is_mail_once_and_409_after_the_end(
    http: httpx2.AsyncClient, speaker: Speaker, what: str
) -> None:
    keys = await speaker.task()
    for _ in range(2):
        assert (await http.post(f"/v1/tasks/{TASK}/{what}")).status_code == 202
    assert await speaker.store.call("ZRANGE", keys.signals, 0, -1) == [f"1 {what} {{}}".encode()]
    await speaker.task(status="completed")
    assert (await http.post(f"/v1/tasks/{TASK}/{what}")).status_code == 409


@pytest.mark.parametrize(("status", "code", "posted"), [("waiting", 202, 1), ("stale", 202, 1), ("active", 409, 0),
                                                         ("pending", 409, 0), ("completed", 409, 0)])  # fmt: skip
async def test_only_a_task_that_waits_is_completed_by_a_client(
    http: httpx2.AsyncClient, speaker: Speaker, status: str, code: int, posted: int
) -> None:
    keys = await speaker.task(status=status)
    said = await http.post(f"/v1/tasks/{TASK}/complete")
    assert said.status_code == code
    assert code == 202 or ("does not wait" if status in ("active", "pending") else "has ended") in said.json()["detail"]
    assert await speaker.store.call("ZCARD", keys.signals) == posted
    assert (await http.post("/v1/tasks/task-0-none/complete")).status_code == 404


async def test_only_an_ended_task_is_archived_at_once(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await speaker.task(status="waiting")
    refused = await http.post(f"/v1/tasks/{TASK}/archive")
    assert (refused.status_code, refused.json()["detail"]) == (409, f"task {TASK} has not ended: cancel it first")
    await speaker.task(status="failed", ended_at=7)
    for _ in range(2):
        assert (await http.post(f"/v1/tasks/{TASK}/archive")).status_code == 202
    due = int(await speaker.store.call("ZSCORE", timers(0), f"archive {keys.actor}"))
    assert due <= await speaker.store.clock()
    assert await speaker.store.call("HGET", keys.header, "archive_of") == b"7"


async def test_sessions_and_their_messages(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    await speaker.session({"role": "user", "content": "q", "message_id": "m1"}, {"role": "assistant", "content": "a"})
    await Speaker(speaker.store, "s2").session(at=2_000)
    listed = (await http.get("/v1/sessions")).json()["items"]
    assert [session["session_id"] for session in listed] == ["s2", "s1"]
    messages = (await http.get("/v1/sessions/s1/messages")).json()["items"]
    assert [(m["role"], m["content"]) for m in messages] == [("user", "q"), ("assistant", "a")]


async def test_tools_are_listed(http: httpx2.AsyncClient, store: Store) -> None:
    now = await store.clock()
    await store.call("HSET", TOOLS_REGISTRY, "calculator", json.dumps({"spec": {"name": "calculator"}, "beat": now}))
    assert [tool["name"] for tool in (await http.get("/v1/tools")).json()["items"]] == ["calculator"]
