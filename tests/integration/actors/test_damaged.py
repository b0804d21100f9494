"""What one task has that nobody can read stops nothing beside it."""

from pathlib import Path

import pytest

from pentad.contracts.records import TaskRecord
from pentad.contracts.streams import ARCHIVE
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from pentad.shared.work.timers import TimerLoop
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.integration.handlers.test_flow import events

ARCHIVED = "task-0-archived"


async def types(store: Store) -> list[str]:
    """What the session's clients were told, deltas aside."""
    return [e["type"] for e in await events(store) if e["type"] != "content"]


@pytest.mark.parametrize("left", [b"", b"{", b'{"version":2}'])
async def test_a_message_for_a_task_whose_record_cannot_be_read_is_refused_and_the_next_is_answered(
    store: Store, tmp_path: Path, left: bytes
) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("hello")).prepare()
    (tmp_path / "records" / "default").mkdir(parents=True)
    (tmp_path / "records" / "default" / f"{ARCHIVED}.json").write_bytes(left)
    await flow.say("go on", task_id=ARCHIVED)
    await flow.say("hi")
    await flow.drive()
    told = await events(store)
    assert [(e["type"], e["message_id"]) for e in told[:2]] == [("message_routed", "u1"), ("error", "u1")]
    assert (told[0]["decision"], told[1]["code"]) == ("rejected", "unknown_task")
    assert "cannot be read" in told[0]["reason"]
    assert await flow.status() == "completed"
    assert await store.call("XLEN", "pentad:{0}:dead") == 0


@pytest.mark.parametrize(
    "wrong",
    [("input_tokens", "9" * 308), ("usd", "inf"), ("turn_tokens", "9" * 400), ("budget", "{"), ("status", "odd")],
)
async def test_a_session_goes_on_after_a_task_whose_header_is_absurd(
    store: Store, tmp_path: Path, wrong: tuple[str, str]
) -> None:
    """An earlier version kept a `usage` of any size: then every later message of the session ended in an error."""
    flow = await Flow(store, tmp_path, lambda _: answer("hello")).prepare()
    await flow.say("one")
    await flow.drive()
    await store.call("HSET", (await flow.task()).header, *wrong)
    await flow.say("two")
    await flow.drive()
    told = await types(store)
    assert ("error" in told, told.count("task_end")) == (False, 2)
    assert await store.call("XLEN", "pentad:{0}:dead") == 0


async def test_a_turn_of_the_session_that_cannot_be_read_is_left_out_of_the_next_tasks_context(
    store: Store, tmp_path: Path
) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("hello"), pentad_grace_s=0).prepare()
    await flow.say("one")
    await flow.drive()
    await store.call("RPUSH", SESSION.turns, '{"role":"narrator"}', b"\xff")
    await store.call("HDEL", SESSION.header, "done")
    await flow.say("two")
    await flow.drive()
    assert (await types(store)).count("task_end") == 2
    assert await store.call("XLEN", "pentad:{0}:dead") == 0


async def test_the_archiver_writes_an_absurd_header_as_a_record_that_can_be_read(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("hello"), pentad_grace_s=0).prepare()
    await flow.say("one")
    await flow.drive()
    keys = await flow.task()
    await store.call("HSET", keys.header, "input_tokens", "9" * 400, "usd", "inf")
    await TimerLoop(store, [0]).fire(0)
    ((entry, fields),) = await store.call("XRANGE", ARCHIVE.key(0), "-", "+")
    await flow.archiving.handle(Entry(ARCHIVE.key(0), entry.decode(), fields[1]))
    record = await flow.records.read("default", keys.task)
    assert record is not None
    assert TaskRecord.model_validate_json(record.to_json()) == record
