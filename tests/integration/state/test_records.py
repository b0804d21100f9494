"""A record that is written again replaces the one before, unless its writer was overtaken."""

from pathlib import Path
from typing import Any

from contracts.events import TaskUsage
from contracts.records import Task, TaskRecord
from shared.records import Records


def record(*texts: str) -> TaskRecord:
    given: dict[str, Any] = {"status": "completed", "goal": "g", "instruction": "executor", "steps": 1}
    task = Task(task_id="t", session_id="s1", created_at="a", updated_at="b", usage=TaskUsage(), **given)
    messages = [{"role": "user", "content": text} for text in texts]
    return TaskRecord(tenant_id="default", task=task, messages=messages, steps=[])


async def test_a_slow_writer_does_not_undo_what_a_later_one_wrote(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    await records.write(record("a", "b"))
    await records.write(record("a"))
    assert await records.read("default", "t") == record("a", "b")
    await records.write(record("a", "c"))
    assert await records.read("default", "t") == record("a", "c")
    assert await records.read("default", "other") is None
