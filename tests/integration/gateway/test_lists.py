"""Lists: what cannot be read is shown as such, and what one request looks at has a bound."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.contracts.records import TaskRecord
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.tasks import task_list
from pentad.shared.keys import session_index, task_index
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import opened, running
from tests.integration.gateway.speaker import AT, TASK, Speaker

NONE: dict[str, int] = {"input_tokens": 0, "output_tokens": 0}
TIMES = {"created_at": AT, "updated_at": AT, "archived_at": AT}


def kept(task: str = TASK, **about: Any) -> TaskRecord:
    """A record of an archived task."""
    described: dict[str, Any] = {"task_id": task, "session_id": "s1", "status": "completed", "goal": "g"}
    described |= TIMES | {"instruction": "executor", "steps": 1, "usage": NONE} | about
    return TaskRecord.model_validate({"tenant_id": "default", "task": described, "messages": [], "steps": []})


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine makes no page shorter."""
    monkeypatch.setattr(task_list, "_LOOK_S", 3600.0)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Where the gateway reads records from."""
    return tmp_path / "records"


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path, records: Path) -> AsyncIterator[GatewayService]:
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_records_url=str(records)) as service:
        yield service


async def archived(store: Store, records: Path, *names: str, **about: Any) -> None:
    """Tasks that have a record and a place in the index."""
    for number, name in enumerate(names):
        await Records(str(records)).write(kept(name, **about))
        await store.call("ZADD", task_index(0, "default"), number, name)


@pytest.mark.parametrize("left", [b"", b"{", b'{"version":2}', b"\xff", b'{"version":1,"tenant_id":"default"}'])
async def test_a_record_that_cannot_be_read_is_listed_as_such_beside_the_others(
    http: httpx2.AsyncClient, store: Store, records: Path, left: bytes
) -> None:
    await archived(store, records, "task-0-a", "task-0-b", "task-0-c")
    (records / "default" / "task-0-b.json").write_bytes(left)
    listed = (await http.get("/v1/tasks")).json()["items"]
    assert [task["task_id"] for task in listed] == ["task-0-c", "task-0-b", "task-0-a"]
    assert [task["status"] for task in listed] == ["completed", "unreadable", "completed"]
    assert "the record of task task-0-b cannot be read" in listed[1]["problem"]
    only = (await http.get("/v1/tasks?status=unreadable")).json()["items"]
    assert [task["task_id"] for task in only] == ["task-0-b"]
    for path in ("", "/transcript", "/values/call-0-1"):
        asked = await http.get(f"/v1/tasks/task-0-b{path}")
        assert (asked.status_code, asked.json()["status"]) == (410, 410)
        assert "cannot be read" in asked.json()["detail"]
    assert (await http.post("/v1/tasks/task-0-b/cancel")).status_code == 409


async def test_a_header_that_cannot_be_read_is_listed_as_such_beside_the_others(
    http: httpx2.AsyncClient, speaker: Speaker
) -> None:
    await speaker.task("task-0-a", created=1)
    await speaker.task("task-0-b", created=2, budget="{")
    await speaker.task("task-0-c", created=3, input_tokens="9" * 400)
    listed = (await http.get("/v1/tasks")).json()["items"]
    assert [(task["task_id"], task["status"]) for task in listed] == [
        ("task-0-c", "active"), ("task-0-b", "unreadable"), ("task-0-a", "active"),
    ]  # fmt: skip
    assert (await http.get("/v1/tasks/task-0-b")).status_code == 410
    assert (await http.get("/v1/tasks/task-0-b/transcript")).status_code == 200, "its transcript is whole"
    assert (await http.post("/v1/tasks/task-0-b/cancel")).status_code == 202


async def test_one_message_that_cannot_be_read_hides_no_other(
    http: httpx2.AsyncClient, gateway: GatewayService, speaker: Speaker
) -> None:
    keys = await speaker.task()
    await speaker.session({"role": "user", "content": "one"})
    await speaker.store.call("RPUSH", speaker.keys.turns, b"\xff")
    await speaker.store.call("RPUSH", speaker.keys.turns, '{"role":"user","content":"two"}')
    await speaker.store.call("RPUSH", keys.log, "garbage", f'{{"at":"{AT}"}}\n{{"role":"user","content":"one"}}')
    await speaker.store.call("ZADD", session_index(0, "default"), "inf", "s9", 5, b"\xff", 6, "s1")
    assert [s["session_id"] for s in (await http.get("/v1/sessions")).json()["items"]] == ["s1"]
    shown = (await http.get("/v1/sessions/s1/messages")).json()["items"]
    assert [m.get("content", m.get("problem")) for m in shown] == ["one", "this message cannot be read", "two"]
    transcript = (await http.get(f"/v1/tasks/{TASK}/transcript")).json()["messages"]
    assert [m.get("content", m.get("problem")) for m in transcript] == ["this message cannot be read", "one"]
    async with opened(gateway.address, "session_id=s1&after=1-0") as client:
        gap, snapshot = await client.receive(), await client.receive()
    assert (gap["code"], len(snapshot["messages"]), snapshot["tasks"][0]["task_id"]) == ("cursor_expired", 3, TASK)


async def test_live_tasks_are_found_without_reading_a_record(
    http: httpx2.AsyncClient, store: Store, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.call("ZADD", task_index(0, "default"), *(w for n in range(300) for w in (1_000 + n, f"task-0-{n}")))
    await speaker.task("task-0-live", created=1)
    read: list[str] = []

    async def noted(self: Records, tenant: str, task: str) -> None:
        read.append(task)

    monkeypatch.setattr(Records, "read", noted)
    assert [task["task_id"] for task in (await http.get("/v1/tasks?status=active")).json()["items"]] == ["task-0-live"]
    assert read == []
    await http.get("/v1/tasks?status=failed")
    assert read != []


async def test_a_rare_status_comes_in_pages_that_each_cost_little(
    http: httpx2.AsyncClient, store: Store, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"task-0-{number:03}" for number in range(250)]
    await archived(store, records, *names)
    await archived(store, records, "task-0-000", status="failed")
    monkeypatch.setattr(task_list, "_RECORDS", 100)
    read: list[str] = []
    real = Records.read

    async def noted(self: Records, tenant: str, task: str) -> TaskRecord | None:
        read.append(task)
        return await real(self, tenant, task)

    monkeypatch.setattr(Records, "read", noted)
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        before = len(read)
        page = (await http.get("/v1/tasks", params={"status": "failed"} | cursor)).json()
        assert len(read) - before <= 100
        found += [task["task_id"] for task in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert (found, sorted(read)) == (["task-0-000"], sorted(names)), "each record was read once"


async def test_tasks_are_found_by_when_they_began_and_by_status_live_and_archived(
    http: httpx2.AsyncClient, store: Store, speaker: Speaker, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also page by page, and without a look at what lies outside."""
    monkeypatch.setattr(task_list, "_CHUNK", 2)
    for number in range(8):
        name = f"task-0-{number}"
        if number % 2:
            await speaker.task(name, created=number * 1_000)
        else:
            await Records(str(records)).write(kept(name, status="failed" if number == 4 else "completed"))
            await store.call("ZADD", task_index(0, "default"), number * 1_000, name)
    read: list[str] = []
    real = Records.read

    async def noted(self: Records, tenant: str, task: str) -> TaskRecord | None:
        read.append(task)
        return await real(self, tenant, task)

    async def found(**query: Any) -> str:
        names = ""
        cursor: dict[str, str] = {}
        while True:
            answer = await http.get("/v1/tasks", params={"limit": 2} | query | cursor)
            assert answer.status_code == 200, answer.text
            names += "".join(task["task_id"][-1] for task in answer.json()["items"])
            if answer.json()["next"] is None:
                return names
            cursor = {"cursor": answer.json()["next"]}

    monkeypatch.setattr(Records, "read", noted)
    second = [f"1970-01-01T00:00:0{number}Z" for number in range(9)]
    assert await found(since=second[3], until=second[6]) == "543"
    assert read == ["task-0-4"]
    assert await found(since=second[6]) == "76"
    assert await found(until=second[2]) == "10"
    assert await found(since=second[2], until=second[8], status="completed") == "62"
    assert await found(since=second[2], until=second[8], status="failed") == "4"
    assert await found(since=second[8]) == ""
    assert await found(since=second[5], until=second[5]) == ""
    for wrong in ("yesterday", "", "2030-13-01T00:00:00Z"):
        assert (await http.get("/v1/tasks", params={"since": wrong})).status_code == 422


async def test_a_large_result_is_served_by_its_reference_wherever_it_lies(
    http: httpx2.AsyncClient, store: Store, speaker: Speaker, records: Path
) -> None:
    keys, path = await speaker.task(), f"/v1/tasks/{TASK}/values/call-0-1"
    whole = "x" * 50_000
    await store.call("HSET", keys.big, "call-0-1", whole, "tools:abc", "[]")
    expected = {"task_id": TASK, "ref": "call-0-1", "content": whole}
    assert (await http.get(path)).json() == expected, "before the step that reads it"
    assert (await http.get(f"/v1/tasks/{TASK}/values/tools:abc")).status_code == 404, "tool schemas are no results"
    await store.call("HDEL", keys.big, "call-0-1")
    assert (await http.get(path)).status_code == 404
    message = {"role": "tool", "tool_call_id": "call-0-1", "content": whole}
    await store.call("RPUSH", keys.log, f'{{"at":"{AT}"}}\n{json.dumps(message)}')
    for number in range(120):
        said = {"role": "user", "content": f'{number} "tool_call_id":"call-0-1"'}
        await store.call("RPUSH", keys.log, f'{{"at":"{AT}"}}\n{json.dumps(said)}')
    assert (await http.get(path)).json() == expected, "from the transcript"
    await store.call("DEL", *keys.all())
    assert (await http.get(path)).status_code == 404
    await Records(str(records)).write(kept().model_copy(update={"messages": [message]}))
    assert (await http.get(path)).json() == expected, "from the record"
    part = kept().model_copy(update={"messages": [message | {"content": "x ..."}], "results": {"call-0-1": whole}})
    await Records(str(records)).write(part)
    assert (await http.get(path)).json() == expected, "the whole, of which the transcript has a part"
    assert (await http.get("/v1/tasks/task-0-other/values/call-0-1")).status_code == 404
