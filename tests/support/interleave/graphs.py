"""The graphs that tasks run under the stress ``graphs``, and what must hold of their runs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pentad.contracts.graphs import GraphSpec
from pentad.contracts.records import TaskRecord
from pentad.shared.actors.transcript import NODE

_RETRY = {"attempts": 2}


def _llm(key: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "kind": "llm", "system_prompt": f"You are {key}.", "retry": _RETRY, **fields}


INNER = GraphSpec.model_validate(
    {
        "name": "inner",
        "nodes": [_llm("in"), {"key": "wonder", "kind": "ask", "question": "Really?"}, _llm("out")],
        "edges": [{"from": "in", "to": "wonder"}, {"from": "wonder", "to": "out"}],
        "entry": "in",
        "ends": ["out"],
    }
)
GRAPH = GraphSpec.model_validate(
    {
        "name": "graph",
        "timeout": 86_400,
        "max_iterations": 12,
        "nodes": [
            _llm("first"),
            {"key": "fan", "kind": "parallel", "branches": ["one", "two"], "join": "any", "then": "each"},
            _llm("one", writes="one"),
            {"key": "two", "kind": "tool", "tool": "note", "args": {"mark": "two"}},
            {"key": "each", "kind": "map", "over": "state.items", "node": "item", "max_parallel": 2, "retry": _RETRY},
            _llm("item"),
            {"key": "sub", "kind": "graph", "graph": "inner", "on_error": "last"},
            _llm("last"),
        ],
        "edges": [
            {"from": "first", "to": "first", "when": "it is not enough"},
            {"from": "first", "to": "fan"},
            {"from": "each", "to": "sub"},
            {"from": "sub", "to": "last"},
        ],
        "entry": "first",
        "ends": ["last"],
    }
)
GRAPHS: Mapping[str, GraphSpec] = {each.name: each for each in (GRAPH, INNER)}


def run_problems(events: list[dict[str, Any]], records: Mapping[str, TaskRecord]) -> Iterator[str]:
    """Check that each node ends where its run went on, once, and that each started task was waited for or cancelled."""
    for task, record in records.items():
        entries = [message for message in record.messages if message["role"] == NODE]
        yield from _path(task, [entry for entry in entries if entry["kind"] in ("begin", "end", "failed")])
        ends = [(e["node"], e.get("next")) for e in entries if e["kind"] == "end"]
        left = [e for e in events if e["type"] == "node_end" and e["task_id"] == task]
        told = [(e["node"], e.get("next")) for e in left if e.get("next") or not e.get("error")]
        if told != ends:
            yield f"{task} left {ends}, and clients were told {told}"
        yield from _children(task, entries, records)


def _path(task: str, entries: list[dict[str, Any]]) -> Iterator[str]:
    """Check that a run goes on at the node to which it went."""
    at = None
    for entry in entries:
        if entry["kind"] != "begin" and at not in (None, entry["node"]):
            yield f"{task} was at {at} and left {entry['node']}"
        at = entry["node"] if entry["kind"] in ("begin", "failed") else entry.get("next")


def _children(task: str, entries: list[dict[str, Any]], records: Mapping[str, TaskRecord]) -> Iterator[str]:
    started = [entry["child"] for entry in entries if entry["kind"] == "started"]
    joined = Counter(entry["child"] for entry in entries if entry["kind"] == "joined")
    for child, times in joined.items():
        if times > 1 or child not in started:
            yield f"{task} was told {times} times of the end of {child}"
    for child in started:
        record = records.get(child)
        if record is None:
            yield f"{task} has started {child}, which has no record"
        elif record.task.parent_task_id != task:
            yield f"{child} is of {record.task.parent_task_id}, and {task} has started it"
        elif record.task.status == "completed" and child not in joined and _waited_to_the_end(entries, child):
            yield f"{child} has completed, and {task} does not know of it"


def _waited_to_the_end(entries: list[dict[str, Any]], child: str) -> bool:
    """Whether the run never left the node of a started task."""
    begun = next(n for n, entry in enumerate(entries) if entry.get("child") == child and entry["kind"] == "started")
    return not any(entry["kind"] in ("end", "retry", "failed", "begin") for entry in entries[begun:])
