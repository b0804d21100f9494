"""Checks of moved messages: each is in only one task, and each accepted request to move has an answer."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pentad.contracts.records import TaskRecord
from pentad.shared.actors.transcript import remaining
from tests.support.interleave.movers import holders

Event = dict[str, Any]


def move_problems(
    asked: Sequence[tuple[str, str]], events: list[Event], records: Mapping[str, TaskRecord]
) -> Iterator[str]:
    """Return the faults. ``asked``: the accepted moves, each a message and the task that had it."""
    done = {(e["message_id"], e["from_task_id"]) for e in events if e["type"] == "message_moved"}
    refused = [e["message"] for e in events if e["type"] == "error"]
    held = holders(events)
    for message, task in asked:
        told = any(f"message {message} " in f"{text} " or f"message {message}:" in text for text in refused)
        if message in held and (message, task) not in done and not told:
            yield f"{message} was to be moved from {task}, and nothing is told"
    if done:
        yield from _held_once(held, records)
        yield from _answered(events)


def _held_once(held: Mapping[str, str], records: Mapping[str, TaskRecord]) -> Iterator[str]:
    for message, holder in held.items():
        places = Counter(
            task
            for task, record in records.items()
            for m in remaining(record.messages)
            if m.get("message_id") == message and not m.get("origin")
        )
        if places != Counter([holder]):
            yield f"{message} is of {holder} and stands in {dict(places)}"


def _answered(events: list[Event]) -> Iterator[str]:
    ended: set[str] = set()
    for e in reversed(events):
        if e["type"] in ("task_end", "task_status"):
            ended.add(e["task_id"])
        elif e["type"] == "message_moved" and e["to_task_id"] not in ended:
            yield f"the turn of {e['message_id']} has no end in {e['to_task_id']}"
