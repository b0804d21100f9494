"""Which task a message goes to once another has ended, and what a new one begins with."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.commands import WakeUp
from pentad.contracts.events import TaskUsage
from pentad.contracts.records import Task, TaskRecord
from pentad.contracts.streams import ARCHIVE
from pentad.shared.keys import TaskKeys
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.handlers.flow import SESSION, Flow, answer

GRACE_S = 300


async def talking(store: Store, folder: Path, asked: list[list[tuple[str, str]]]) -> Flow:
    """A flow whose model numbers its answers; what it is told, system prompt aside, is added to ``asked``."""

    def script(request: ChatRequest) -> Any:
        told = [from_json(message) for message in request.messages[1:]]
        asked.append([(message["role"], message["content"]) for message in told])
        return answer(f"answer {len(asked)}")

    return await Flow(store, folder, script, pentad_grace_s=GRACE_S).prepare()


async def ended_ago(store: Store, task: TaskKeys, ms: int) -> None:
    await store.call("HSET", task.header, "ended_at", await store.clock() - ms)


async def test_a_task_leaves_for_its_record_after_the_grace_time_and_not_before(store: Store, tmp_path: Path) -> None:
    flow = await talking(store, tmp_path, [])
    await flow.say("one")
    await flow.drive()
    task = await flow.task()

    async def archived(ended_ms_ago: int) -> tuple[bool, bool]:
        """Whether the task is gone and has a record, once an archiver was told of it so long after its end."""
        await ended_ago(store, task, ended_ms_ago)
        entry = await store.call("XADD", ARCHIVE.key(0), "*", "data", WakeUp(actor=task.actor).to_json())
        await flow.archiving.handle(Entry(ARCHIVE.key(0), entry.decode(), WakeUp(actor=task.actor).to_json()))
        record = await flow.records.read("default", task.task)
        return not await store.call("EXISTS", task.header), record is not None

    # One that was opened and ended again meanwhile is still named by the entry of its first end.
    assert await archived((GRACE_S - 60) * 1000) == (False, False)
    assert await archived(GRACE_S * 1000 + 1) == (True, True)


@pytest.mark.parametrize("session", ["s1", "s2"])
async def test_what_an_archived_task_knows_is_for_its_own_session(store: Store, tmp_path: Path, session: str) -> None:
    asked: list[list[tuple[str, str]]] = []
    flow = await talking(store, tmp_path, asked)
    given: dict[str, Any] = {"status": "completed", "goal": "g", "instruction": "executor", "steps": 1}
    task = Task(task_id="task-0-old", session_id=session, created_at="a", updated_at="b", usage=TaskUsage(), **given)
    known = [{"role": "user", "content": "my secret"}]
    await flow.records.write(TaskRecord(tenant_id="default", task=task, messages=known, steps=[]))
    await flow.say("what was it?", task_id="task-0-old")
    await flow.drive()
    if session == "s1":
        assert (await decisions(store), asked) == (["new"], [[("user", "my secret"), ("user", "what was it?")]])
    else:
        assert (await decisions(store), asked) == (["rejected"], [])


async def decisions(store: Store) -> list[str]:
    events = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event["decision"] for event in events if event["type"] == "message_routed"]


async def test_a_completed_task_is_opened_again_within_the_grace_time_and_not_after(
    store: Store, tmp_path: Path
) -> None:
    asked: list[list[tuple[str, str]]] = []
    flow = await talking(store, tmp_path, asked)
    await flow.say("one")
    await flow.drive()
    task = await flow.task()
    await ended_ago(store, task, (GRACE_S - 60) * 1000)
    await flow.say("two")
    await flow.drive()
    assert (await decisions(store), await flow.status()) == (["new", "reopen"], "completed")
    await ended_ago(store, task, GRACE_S * 1000 + 1)
    await flow.say("three")
    await flow.drive()
    assert await decisions(store) == ["new", "reopen", "new"]


async def test_a_new_task_begins_with_the_last_turns_of_its_session(store: Store, tmp_path: Path) -> None:
    asked: list[list[tuple[str, str]]] = []
    flow = await talking(store, tmp_path, asked)
    await flow.say("one")
    await flow.drive()
    await ended_ago(store, await flow.task(), GRACE_S * 1000 + 1)
    await flow.say("two")
    await flow.drive()
    assert await decisions(store) == ["new", "new"]
    assert asked == [[("user", "one")], [("user", "one"), ("assistant", "answer 1"), ("user", "two")]]
