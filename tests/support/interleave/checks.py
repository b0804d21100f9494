"""The promises, checked when a run has become quiet."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fsspec.implementations.memory import MemoryFileSystem
from pydantic_core import from_json

from pentad.contracts.records import TaskRecord
from pentad.contracts.streams import DEAD, INBOUND_DEAD
from pentad.services.task_runner.domain.message_move import MOVED
from pentad.services.task_runner.domain.own_tools import OWN
from pentad.services.task_runner.plan_writer import PAUSED
from pentad.shared.actors.transcript import EXCLUSION
from pentad.shared.keys import load, redriven
from pentad.shared.records.by_time import BY_SESSION, BY_TIME
from tests.support.interleave.graphs import run_problems
from tests.support.interleave.letter_checks import letter_problems, misrouted
from tests.support.interleave.move_checks import move_problems
from tests.support.interleave.outside import TOOLS
from tests.support.interleave.place_checks import pending_problems
from tests.support.interleave.transcript_checks import ill_formed
from tests.support.interleave.users import events_of

if TYPE_CHECKING:
    from tests.support.interleave.world import World

Event = dict[str, Any]
_EPHEMERAL = ("content", "thinking", "tool_progress")
_NAMED = re.compile(
    r"^(test:.*|pentad:(inbound|dead|cluster)|pentad:\{0\}:(wake:(session|task)|tools:(default|nobody)|archive|remember|extract|dead|timers|load|bell"
    r"|tasks:default)|(pentad:)?\{pentad:inbound\}:lease)$"
)


def problems(world: "World") -> list[str]:
    """Return all broken promises."""
    if world.hung:
        return [f"hung: {_state(world)}"]
    found = list(world.unsettled) + list(_keys(world)) + list(_dead_letters(world))
    records = _records(world)
    world.ledger.keep_sent(lambda name: bool(world.server.ask("EXISTS", redriven(0, name))))
    found += letter_problems(world.ledger, records, set(world.users.cancelled))
    for session in world.users.sessions:
        events = events_of(world.server, session)
        mine = {t: r for t, r in records.items() if r.task.session_id == session}
        sent = [s.message_id for s in world.users.sent if s.session == session]
        cancels = _cancels(world, events)
        for check in (
            _routing(world, sent, events),
            _tasks(events),
            cancels,
            _calls(world, events, mine),
            _deltas(events),
            _pauses(events),
            pending_problems(events),
            run_problems(events, mine),
        ):
            found += [f"{session}: {problem}" for problem in check]
        found += [f"{session}: {problem}" for problem in _messages(events, mine)]
        if world.outside.policy == "queue":
            found += [f"{session}: {problem}" for problem in _shared_turns(events, mine)]
        asked = [(m, task) for m, task in world.ledger.moved if m in sent]
        found += [f"{session}: {problem}" for problem in move_problems(asked, events, mine)]
    for task, record in records.items():
        found += [f"{task}: {problem}" for problem in ill_formed(world, record)]
    return found


def _state(world: "World") -> str:
    left = {
        t: world.server.ask("HMGET", f"pentad:{{0}}:task:default:{t}", "status", "wake", "open") for t in world.tasks()
    }
    timers = world.server.ask("ZRANGE", "pentad:{0}:timers", 0, 5)
    letters = world.server.ask("XRANGE", DEAD.key(0), "-", "+")
    return f"tasks {left}, timers {timers}, work {world.left()}, letters {letters}"


def forget_records(world: "World") -> None:
    """Remove records of an earlier run of this seed from the record store."""
    store = MemoryFileSystem()
    if store.exists(f"/run-{world.seed}"):
        store.rm(f"/run-{world.seed}", recursive=True)


def _records(world: "World") -> dict[str, TaskRecord]:
    store = MemoryFileSystem()
    root = f"/run-{world.seed}/default"
    there = store.ls(root, detail=False) if store.exists(root) else []
    tasks = [path for path in there if path.rpartition("/")[2] not in (BY_TIME, BY_SESSION)]
    versions = [max(store.find(task)) for task in tasks if store.find(task)]
    records = [TaskRecord.model_validate_json(store.cat_file(path)) for path in versions]
    return {record.task.task_id: record for record in records}


def _keys(world: "World") -> Iterator[str]:
    """Check the keys: each ends (law 14), and no mailbox is without a reader."""
    for key in world.server.ask("KEYS", "*"):
        if not _NAMED.match(key.decode()) and world.server.ask("TTL", key) < 0:
            yield f"the key {key.decode()} has neither an owner nor a TTL"
        if key.endswith(b":mail"):
            yield f"mail is left in {key.decode()}"
    if (parked := world.server.ask("HGET", load(0), "parked")) is not None:
        yield f"{parked!r} messages are said to lie with paused tasks"
    if world.server.ask("HGET", load(0), "mail") not in (None, b"0"):
        yield f"{world.server.ask('HGET', load(0), 'mail')!r} messages are said to wait"


def _dead_letters(world: "World") -> Iterator[str]:
    entries = world.server.ask("XRANGE", INBOUND_DEAD.key(), "-", "+")
    letters = [from_json(fields[1])["entry_id"].encode() for _, fields in entries]
    inbound = [i for i in letters if i not in world.users.lost_rubbish]
    if inbound != world.users.rubbish:
        yield f"unreadable entries {world.users.rubbish} became {inbound}"
    if world.server.ask("XLEN", DEAD.key(0)):
        yield f"set aside: {world.server.ask('XRANGE', DEAD.key(0), '-', '+')}"


def _routing(world: "World", sent: list[str], events: list[Event]) -> Iterator[str]:
    """Check that each message is routed once, in order, and each event is written once."""
    yield from misrouted(world.ledger, sent, [e["message_id"] for e in events if e["type"] == "message_routed"])
    ids = Counter(e["event_id"] for e in events)
    yield from (f"the event {i} was told {n} times" for i, n in ids.items() if n > 1)


def _tasks(events: list[Event]) -> Iterator[str]:
    """Check that each start has one end, and every message's turn ends after it was routed."""
    running: dict[str, bool] = {}
    ended: set[str] = set()
    for e in events:
        if e["type"] == "task_start":
            if running.get(e["task_id"]):
                yield f"{e['task_id']} started twice"
            running[e["task_id"]] = True
        elif e["type"] == "task_end":
            if not running.get(e["task_id"]):
                yield f"{e['task_id']} ended without a start"
            running[e["task_id"]] = False
    yield from (f"{task} has no end" for task, on in running.items() if on)
    for e in reversed(events):
        if e["type"] in ("task_end", "task_status"):
            ended.add(e["task_id"])
        elif e["type"] == "message_routed" and e["decision"] != "rejected" and e["task_id"] not in ended:
            yield f"the turn of {e['message_id']} has no end"


def _cancels(world: "World", events: list[Event]) -> Iterator[str]:
    """Check that a cancel ends only the turn that it was meant for, never one that began later."""
    starts: Counter[str] = Counter()
    for e in events:
        starts[e.get("task_id", "")] += e["type"] == "task_start"
        own = e.get("parent_task_id") is None  # others are cancelled with the task that has started them
        if e["type"] == "task_end" and e["status"] == "cancelled" and e["reason"] != MOVED and own:
            meant = world.users.cancelled.get(e["task_id"], ())
            if None not in meant and starts[e["task_id"]] not in meant:
                yield f"{e['task_id']} was cancelled in its life {starts[e['task_id']]}, which was asked of {meant}"


def _messages(events: list[Event], records: dict[str, TaskRecord]) -> Iterator[str]:
    """Check that each routed message that was not moved is in its task's transcript once, in order."""
    moved = {e["message_id"] for e in events if e["type"] == "message_moved"}
    for task, record in records.items():
        mine = [e for e in events if e["type"] == "message_routed" and e.get("task_id") == task]
        want = [e["message_id"] for e in mine if e["decision"] != "rejected" and e["message_id"] not in moved]
        here = [m["message_id"] for m in record.messages if m.get("message_id")]
        got = [m for m in here if m in want]
        if got != want:
            yield f"{task} was sent {want} and has {got}"
        yield from _completions([e for e in events if task in (e.get("task_id"), e.get("to_task_id"))], record)
    lost = {e["task_id"] for e in events if e["type"] == "task_start"} - records.keys()
    if lost:
        yield f"no record of {lost}"


def _shared_turns(events: list[Event], records: dict[str, TaskRecord]) -> Iterator[str]:
    """Check that queued messages are answered one by one, unless a turn has failed or something has ended them all."""
    over: set[str | None] = set()
    for n, e in enumerate(events):
        if e["type"] == "task_end" and e["status"] != "completed":
            over.add(e.get("correlation_id"))
            if not e.get("queues"):
                over.update(r["message_id"] for r in events[:n] if r["type"] == "message_routed")
    for task, record in records.items():
        said = [m for m in record.messages if m["role"] != EXCLUSION and not m.get("origin")]
        for one, two, answer in zip(said, said[1:], said[2:], strict=False):
            shared = (one["role"], two["role"], answer["role"]) == ("user", "user", "assistant")
            if shared and one.get("message_id") not in over:
                yield f"{one['message_id']} and {two['message_id']} had one turn of {task}"


def _completions(events: list[Event], record: TaskRecord) -> Iterator[str]:
    """Check that no task completes while a message waits, or, if messages queue, before the turn's own is answered."""
    places: dict[str, list[int]] = {}
    for n, message in enumerate(record.messages):
        if message.get("message_id") and message["role"] != EXCLUSION:
            places.setdefault(message["message_id"], []).append(n)
    answers = {m["step"]: n for n, m in enumerate(record.messages) if m.get("step") is not None}
    routed: Counter[str] = Counter()
    step = 0
    for e in events:
        if e["type"] == "message_routed" and e["decision"] != "rejected":
            routed[e["message_id"]] += 1
        elif e["type"] == "message_moved":
            routed[e["message_id"]] = int(e["to_task_id"] == record.task.task_id)
        elif e["type"] == "message":
            step = e["step"]
        elif e["type"] == "task_end" and e["status"] == "completed":
            late = [
                m
                for m, times in routed.items()
                if times and (places.get(m, []) + [1 << 30] * times)[times - 1] > answers.get(step, 0)
                if not e.get("queues") or m == e.get("correlation_id")
            ]
            if late:
                yield f"{record.task.task_id} completed while {late} waited"


def _calls(world: "World", events: list[Event], records: dict[str, TaskRecord]) -> Iterator[str]:
    """Check that each call has one result, the same for clients and the model, and unsafe calls ran at most once."""
    calls = {e["tool_call_id"]: e for e in events if e["type"] == "tool_call"}
    results = [e for e in events if e["type"] == "tool_result"]
    if Counter(e["tool_call_id"] for e in results) != Counter(calls.keys()):
        yield f"calls {sorted(calls)} had results {sorted(e['tool_call_id'] for e in results)}"
    told = {m["tool_call_id"]: m["content"] for r in records.values() for m in r.messages if m["role"] == "tool"}
    for e in results:
        text = e.get("result") or e.get("error") or ""
        if text[:40] not in told.get(e["tool_call_id"], ""):
            yield f"clients were told {text[:60]!r}, the model {told.get(e['tool_call_id'], '')[:60]!r}"
        tool = calls[e["tool_call_id"]]["tool"] if e["tool_call_id"] in calls else ""
        runs = world.outside.executed[e["tool_call_id"]]
        if (
            runs > 1 + world.outside.may_run_again[e["tool_call_id"]]
            and tool in TOOLS
            and TOOLS[tool].effect == "unsafe"
        ):
            yield f"the unsafe call {e['tool_call_id']} ran {runs} times"
        if e.get("result") and not runs and tool not in OWN:
            yield f"{e['tool_call_id']} has a result and never ran"


def _pauses(events: list[Event]) -> Iterator[str]:
    """Check that a paused task writes no event and makes no call until it is resumed, after its question."""
    paused: set[str] = set()
    for e in events:
        task = e.get("task_id", "")
        if e["type"] == "task_status" and e["status"] != "stale":
            (paused.add if e["reason"] == PAUSED else paused.discard)(task)
        elif e["type"] == "task_end":
            paused.discard(task)
        elif task in paused and e["type"] in ("message", "tool_call"):
            yield f"{task} is paused, and yet there is a {e['type']} of step {e.get('step')}"


def _deltas(events: list[Event]) -> Iterator[str]:
    """Check that a client never shows a mixture of attempts, and no delta of a step comes after its message."""
    texts: dict[tuple[str, int, int], str] = {}
    marks: dict[tuple[str, int, int], str] = {}
    done: dict[tuple[str, int], int] = {}
    for e in events:
        if e["type"] == "message":
            done[e["task_id"], e["step"]] = e["attempt"]
        if e["type"] != "content":
            continue
        key = (e["task_id"], e["step"], e["attempt"])
        attempt = e["event_id"].split(".")[0]
        if marks.setdefault(key, attempt) != attempt:
            yield f"two attempts share {key}"
        if e["attempt"] >= done.get(key[:2], 1 << 30):
            yield f"a delta of {key} came after its message"
        texts[key] = texts.get(key, "") + e["content"]
