"""Time: what counts from the end of a step counts from its commit, and an early timer is not a spent one."""

from pathlib import Path
from typing import Any

from pydantic_core import from_json

from pentad.contracts.streams import ARCHIVE
from pentad.shared.keys import TaskKeys, timers
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from pentad.shared.work.timers import TimerLoop
from tests.integration.handlers.flow import SESSION, Flow, answer

ECHO = ("echo", '{"text":"x"}')
NOTHING = {"steps": 0}
THOUGHT_S = 0.3


async def field(store: Store, task: TaskKeys, name: str) -> int:
    return int(await store.call("HGET", task.header, name))


async def due(store: Store, task: TaskKeys, kind: str) -> int | None:
    score = await store.call("ZSCORE", timers(0), f"{kind} {task.actor}")
    return None if score is None else int(score)


def again_by(at: int | None, expected: int) -> bool:
    """Whether a timer was set for what is left, which counts from the commit: later by what the handling took."""
    return at is not None and expected <= at < expected + 10_000


async def fire_now(store: Store, task: TaskKeys, kind: str) -> None:
    """Let a timer fire before its time, as after a step of the clock."""
    assert await store.call("ZADD", timers(0), "XX", "CH", 1, f"{kind} {task.actor}") == 1
    await TimerLoop(store, [0]).fire(0)
    assert await due(store, task, kind) is None


async def test_a_tools_time_and_the_grace_time_count_from_the_commit(store: Store, tmp_path: Path) -> None:
    """Not from the moment before the model began to think."""

    def script(request: ChatRequest) -> Any:
        return answer("", ECHO) if b'"user"' in request.messages[-1] else answer("done")

    flow = await Flow(store, tmp_path, script, pause_s=THOUGHT_S).prepare()
    tools = flow._served.pop()
    await flow.say("go")
    begun = await store.clock()
    await flow.drive()
    task = await flow.task()
    assert await field(store, task, "asked_at") >= begun + THOUGHT_S * 1000
    flow._served.append(tools)
    begun = await store.clock()
    await flow.drive()
    ended = await field(store, task, "ended_at")
    assert ended >= begun + THOUGHT_S * 1000
    assert await due(store, task, "archive") == ended + flow.settings.pentad_grace_s * 1000
    events = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    (end,) = (e for e in events if e["type"] == "task_end")
    (call,) = (e for e in events if e["type"] == "tool_call")
    assert end["at"] > call["at"]


async def test_a_deadline_is_a_time_not_a_while(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("", ECHO)).prepare()
    flow._served = flow._served[:1]
    await flow.say("go", deadline="2030-01-01T00:00:00Z")
    await flow.drive()
    assert await due(store, await flow.task(), "deadline") == 1_893_456_000_000


async def test_a_record_is_not_written_before_todays_grace_time_is_over(store: Store, tmp_path: Path) -> None:
    """A restart with a longer grace time, or a clock that has stepped back: the timer is set again for what is left."""
    flow = await Flow(store, tmp_path, lambda _: answer("done")).prepare()
    await flow.say("hello")
    await flow.drive()
    task = await flow.task()
    await fire_now(store, task, "archive")
    ((entry, fields),) = await store.call("XRANGE", ARCHIVE.key(0), "-", "+")
    await flow.archiving.handle(Entry(ARCHIVE.key(0), entry.decode(), fields[1]))
    grace_ms = round(flow.settings.pentad_grace_s * 1000)
    assert again_by(await due(store, task, "archive"), await field(store, task, "ended_at") + grace_ms)
    assert await flow.records.read("default", task.task) is None


async def test_a_call_is_given_up_although_its_timer_fired_too_early_once(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("", ECHO), pentad_step_timeout_s=60).prepare()
    flow._served.pop()
    await flow.say("go")
    await flow.drive()
    task = await flow.task()
    await fire_now(store, task, "timeout")
    await flow.drive()
    assert again_by(await due(store, task, "timeout"), await field(store, task, "asked_at") + 60_000)
    assert await store.call("HLEN", task.calls) == 1


async def test_a_task_that_waits_for_a_person_ends_visibly_and_what_it_needs_lives_longer(
    store: Store, tmp_path: Path
) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("done"), pentad_wait_ttl_s=40 * 86_400).prepare()
    await flow.say("go", budget=NOTHING)
    await flow.drive()
    task = await flow.task()
    assert await flow.status() == "waiting"
    assert await due(store, task, "wait") == await field(store, task, "waiting_at") + 40 * 86_400_000
    for key in (SESSION.header, SESSION.turns):
        assert await store.call("TTL", key) > 41 * 86_400, key
    await fire_now(store, task, "wait")
    await flow.drive()
    assert await flow.status() == "waiting", "it was too early"
    assert await due(store, task, "wait") is not None
    await store.call("HSET", task.header, "waiting_at", 1)
    await fire_now(store, task, "wait")
    await flow.drive()
    events = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    assert [(e["status"], e["reason"]) for e in events if e["type"] == "task_end"] == [("failed", "wait_expired")]
    assert await due(store, task, "archive") is not None, "and so it leaves Redis"


async def test_a_person_who_answers_ends_the_waiting(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("done")).prepare()
    await flow.say("go", budget=NOTHING)
    await flow.drive()
    task = await flow.task()
    await flow.say("yes")
    await flow.drive()
    assert (await flow.status(), await due(store, task, "wait")) == ("completed", None)


async def told(store: Store) -> list[dict[str, Any]]:
    return [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]


async def statuses(store: Store) -> list[str]:
    return [e["status"] for e in await told(store) if e["type"] in ("task_status", "task_end")]


async def test_a_task_that_nobody_answers_is_stale_and_a_message_goes_on_with_it(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("done")).prepare()
    await flow.say("go", budget=NOTHING)
    await flow.drive()
    task = await flow.task()
    assert await due(store, task, "stale") == await field(store, task, "updated") + 86_400_000
    await store.call("HINCRBY", task.header, "updated", -86_400_000)
    await fire_now(store, task, "stale")
    await flow.drive()
    assert await statuses(store) == ["waiting", "stale"]
    (asked,) = [e for e in await told(store) if e["type"] == "task_status" and e["status"] == "stale"]
    assert "is this still wanted? To go on, send it a message; else it ends at 20" in asked["reason"]
    assert await due(store, task, "wait") is not None
    await flow.say("yes")
    await flow.drive()
    assert await statuses(store) == ["waiting", "stale", "active", "completed"]
    assert [await due(store, task, kind) for kind in ("stale", "wait")] == [None, None]


async def test_a_stale_task_ends_when_nobody_comes(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("done")).prepare()
    await flow.say("go", budget=NOTHING)
    await flow.drive()
    task = await flow.task()
    await store.call("HSET", task.header, "updated", 1)
    await fire_now(store, task, "stale")
    await flow.drive()
    await store.call("HSET", task.header, "waiting_at", 1)
    await fire_now(store, task, "wait")
    await flow.drive()
    assert await statuses(store) == ["waiting", "stale", "failed"]
    left = await store.call("ZRANGE", timers(0), 0, -1)
    assert left == [f"remember {task.actor}".encode(), f"archive {task.actor}".encode()]


async def test_who_fired_too_early_is_not_stale_and_is_looked_at_again(store: Store, tmp_path: Path) -> None:
    """The clock has stepped back since, or the setting has grown."""
    flow = await Flow(store, tmp_path, lambda _: answer("done")).prepare()
    await flow.say("go", budget=NOTHING)
    await flow.drive()
    task = await flow.task()
    longer = await Flow(store, tmp_path, lambda _: answer("done"), pentad_stale_s=2 * 86_400).prepare()
    await fire_now(store, task, "stale")
    await longer.drive()
    assert await statuses(store) == ["waiting"]
    assert again_by(await due(store, task, "stale"), await field(store, task, "updated") + 2 * 86_400_000)


async def test_a_call_that_takes_longer_than_a_task_may_be_silent_makes_it_stale(store: Store, tmp_path: Path) -> None:
    """Else a step's time limit comes first, and there is no such timer."""

    def script(request: ChatRequest) -> Any:
        return answer("", ECHO) if b'"user"' in request.messages[-1] else answer("done")

    flow = await Flow(store, tmp_path, script, pentad_stale_s=60, pentad_step_timeout_s=600).prepare()
    tools = flow._served.pop()
    await flow.say("go")
    await flow.drive()
    task = await flow.task()
    await store.call("HINCRBY", task.header, "updated", -60_000)
    await fire_now(store, task, "stale")
    await flow.drive()
    assert await flow.status() == "stale"
    flow._served.append(tools)
    await flow.drive()
    assert await statuses(store) == ["stale", "active", "completed"]
    assert await due(store, task, "stale") is None


async def test_a_task_without_a_long_call_has_no_such_timer(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("", ECHO)).prepare()
    flow._served.pop()
    await flow.say("go")
    await flow.drive()
    assert await due(store, await flow.task(), "stale") is None


async def test_a_person_archives_an_ended_task_at_once_and_this_end_alone(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("done")).prepare()
    await flow.say("hello")
    await flow.drive()
    task = await flow.task()
    assert await flow.actors.archive_now(task) == "completed"
    await flow.say("and more")
    await flow.drive()
    assert await field(store, task, "archive_of") < await field(store, task, "ended_at"), "it was opened again"
    await fire_now(store, task, "archive")
    await archive(flow)
    assert await flow.records.read("default", task.task) is None
    assert await flow.actors.archive_now(task) == "completed"
    await TimerLoop(store, [0]).fire(0)
    await archive(flow)
    assert await flow.records.read("default", task.task) is not None
    assert await flow.actors.archive_now(task) == "none"


async def archive(flow: Flow) -> None:
    """Serve what waits for the archiver."""
    for entry, fields in await flow.store.call("XRANGE", ARCHIVE.key(0), "-", "+"):
        await flow.archiving.handle(Entry(ARCHIVE.key(0), entry.decode(), fields[1]))
        await flow.store.call("XDEL", ARCHIVE.key(0), entry)


async def test_a_task_that_has_not_ended_is_not_archived(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("", ECHO)).prepare()
    flow._served.pop()
    await flow.say("go")
    await flow.drive()
    task = await flow.task()
    assert await flow.actors.archive_now(task) == "active"
    assert await due(store, task, "archive") is None
