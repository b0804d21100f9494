"""So many tasks of a session, and of a tenant, are active at once; more are pending, and start in order."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.ids import rfc3339
from pentad.contracts.instructions import Instruction
from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE
from pentad.services.gateway.domain.move import MoveRequest
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.commit import Commit
from pentad.shared.actors.sessions import load_task
from pentad.shared.errors import OutageError
from pentad.shared.keys import SessionKeys, TaskKeys, places, task_queue, timers
from pentad.shared.kinds import ControlKind
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer

ECHO = ("echo", '{"text":"x"}')
ASK = ("ask_user", '{"question":"Which city?"}')
LIVE = ("pending", "active", "waiting", "stale")
NAMES = ("one", "two", "three", "four", "five")
RUNS = tuple(Instruction(name=name, system_prompt="Help.") for name in NAMES)


def script(request: ChatRequest) -> Any:
    """Works with a tool, asks, does both, or answers what it was told last."""
    last = from_json(request.messages[-1])
    if last["role"] != "user":
        return answer("done")
    kinds = {"ask": [ASK], "both": [ASK, ECHO], "work": [ECHO]}
    calls = kinds.get(last["content"].split()[0])
    return answer("", *calls) if calls else answer(f"so: {last['content']}")


class Office:
    """A flow whose tools run when they are let, and its tasks by the names of what they run."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.store = flow, flow.store
        self._tools = flow._served.pop(2)

    async def begin(self, *names: str, what: str = "work", session: SessionKeys = SESSION) -> None:
        """A task for each, one after the other; what runs another instruction is another task."""
        for name in names:
            await self.flow.say(what, session, instruction=name)
            await self.flow.drive()

    async def run_tools(self) -> None:
        self.flow._served.append(self._tools)
        await self.flow.drive()
        self.flow._served.remove(self._tools)

    async def keys(self, name: str) -> TaskKeys:
        for task in await self.store.call("ZRANGE", "pentad:{0}:tasks:default", 0, -1):
            keys = TaskKeys(0, "default", task.decode())
            if await self.store.call("HGET", keys.header, "instruction") == name.encode():
                return keys
        raise AssertionError(f"there is no task {name}")

    async def status(self, name: str) -> str:
        header = await load_task(self.store, await self.keys(name))
        assert header is not None
        return header.status

    async def statuses(self, *names: str) -> list[str]:
        return [await self.status(name) for name in names]

    async def ask(self, name: str, what: ControlKind) -> None:
        await self.flow.actors.post(await self.keys(name), what, b"{}", LIVE, control=what)
        await self.flow.drive()

    async def told(self, name: str, session: SessionKeys = SESSION) -> list[tuple[str, str]]:
        """Statuses of a task with their reasons, and its end."""
        task = (await self.keys(name)).task
        events = [from_json(fields[1]) for _, fields in await self.store.call("XRANGE", session.events, "-", "+")]
        kinds = ("task_status", "task_end")
        return [(e["status"], e["reason"]) for e in events if e["type"] in kinds and e["task_id"] == task]

    async def counted(self) -> dict[str, int]:
        raw = await self.store.call("HGETALL", places(0))
        return {name.decode(): int(n) for name, n in zip(raw[::2], raw[1::2], strict=True)}


async def office(store: Store, folder: Path, **settings: Any) -> Office:
    return Office(await Flow(store, folder, script, instructions=RUNS, **settings).prepare())


async def restarted(at: Office, folder: Path, **settings: Any) -> Office:
    """The same system with other settings."""
    new = await office(at.store, folder, **settings)
    new.flow._entries = at.flow._entries
    return new


FULL = ("pending", "as many tasks of its session are active as may be: 2")
STARTED = ("active", "a place is free")


async def test_what_is_beyond_the_sessions_limit_is_pending_and_starts_in_order(store: Store, tmp_path: Path) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=2)
    await at.begin(*NAMES)
    assert await at.statuses(*NAMES) == ["active", "active", "pending", "pending", "pending"]
    assert at.flow.model.asked == 2, "no model is asked for what is pending"
    assert [await at.told(name) for name in NAMES] == [[], [], [FULL], [FULL], [FULL]]
    header = await load_task(store, await at.keys("three"))
    assert header is not None
    assert header.describe().waiting_for == [FULL[1]]
    await at.ask("one", "cancel")
    assert await at.statuses(*NAMES) == ["cancelled", "active", "active", "pending", "pending"]
    await at.ask("three", "cancel")
    assert await at.statuses(*NAMES) == ["cancelled", "active", "cancelled", "active", "pending"]
    await at.run_tools()
    await at.run_tools()
    assert await at.statuses(*NAMES) == ["cancelled", "completed", "cancelled", "completed", "completed"]
    assert await at.told("five") == [FULL, STARTED, ("completed", "answered")]
    assert await store.call("KEYS", "*:places") + await store.call("KEYS", "*:queue:*") == []


async def test_a_tenants_limit_holds_over_its_sessions_and_each_gets_its_turn(store: Store, tmp_path: Path) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=1, pentad_tasks_per_tenant=2)
    rooms = [SessionKeys(0, "default", f"r{n}") for n in range(3)]
    await at.begin("one", session=rooms[0])
    await at.begin("two", session=rooms[1])
    await at.begin("three", "four", session=rooms[2])
    await at.begin("five", session=rooms[0])
    assert await at.statuses(*NAMES) == ["active", "active", "pending", "pending", "pending"]
    assert (await at.told("three", rooms[2]))[0][1] == "as many tasks of its tenant are active as may be: 2"
    assert (await at.told("four", rooms[2]))[0][1] == "as many tasks of its session are active as may be: 1"
    await at.ask("two", "cancel")
    assert await at.statuses("three", "four", "five") == ["active", "pending", "pending"]
    await at.ask("three", "cancel")
    assert await at.statuses("four", "five") == ["active", "pending"], "its session still has an active one"
    await at.ask("one", "cancel")
    assert await at.statuses("four", "five") == ["active", "active"]
    assert await at.counted() == {"default": 2, "default/r0": 1, "default/r2": 1}


async def test_another_tenants_tasks_take_no_place(store: Store, tmp_path: Path) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_tenant=1)
    await at.begin("one")
    await at.begin("two", session=SessionKeys(0, "other", "s1"))
    assert at.flow.model.asked == 2
    assert await at.counted() == {"default": 1, "default/s1": 1, "other": 1, "other/s1": 1}


async def test_who_waits_for_a_person_has_no_place_and_waits_for_one_with_its_answer(
    store: Store, tmp_path: Path
) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=1)
    await at.begin("one", what="ask")
    await at.begin("two", "three")
    assert await at.statuses(*NAMES[:3]) == ["waiting", "active", "pending"]
    await at.flow.say("Berlin", task_id=(await at.keys("one")).task)
    await at.flow.drive()
    assert await at.statuses(*NAMES[:3]) == ["pending", "active", "pending"]
    kinds = [member.split(b" ")[0] for member in await store.call("ZRANGE", timers(0), 0, -1)]
    assert (b"wait" in kinds, b"stale" in kinds) == (False, False), "the person has answered"
    await at.flow.say("or Bonn", task_id=(await at.keys("one")).task)
    await at.flow.drive()
    await at.ask("two", "pause")
    assert await at.statuses(*NAMES[:3]) == ["pending", "waiting", "active"]
    await at.ask("two", "resume")
    assert (await at.told("two"))[-1] == ("pending", "as many tasks of its session are active as may be: 1")
    await at.ask("three", "cancel")
    assert await at.statuses(*NAMES[:3]) == ["completed", "active", "cancelled"]
    log = await store.call("LRANGE", (await at.keys("one")).log, 0, -1)
    said = [from_json(raw.split(b"\n", 1)[1])["content"] for raw in log]
    assert said[-3:] == ["Berlin", "or Bonn", "so: or Bonn"]


async def test_who_is_pending_can_be_cancelled_paused_and_run_out_of_time(store: Store, tmp_path: Path) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=1)
    await at.begin(*NAMES[:4])
    now = await store.clock()
    await at.flow.say("work", instruction="five", deadline=rfc3339(now + 60_000))
    await at.flow.drive()
    await at.ask("two", "cancel")
    await at.ask("three", "pause")
    await store.call("HSET", (await at.keys("five")).header, "deadline", 1)
    await at.ask("five", "deadline")  # type: ignore[arg-type]
    assert await at.statuses(*NAMES) == ["active", "cancelled", "waiting", "pending", "failed"]
    assert (await at.told("five"))[-1] == ("failed", "deadline_exceeded")
    assert await store.call("ZCARD", task_queue(0, "default") + ":s1") == 1
    await at.ask("three", "resume")
    await at.ask("one", "cancel")
    assert await at.statuses("three", "four") == ["pending", "active"], "who was paused is the last again"
    await at.ask("four", "cancel")
    await at.run_tools()
    assert (await at.status("three"), await at.counted()) == ("completed", {})


async def test_a_pending_task_whose_message_is_moved_away_leaves_the_queue(store: Store, tmp_path: Path) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=1)
    await at.begin("one", "two")
    moving = MessageMoves(store, Queries(store, at.flow.records, 1))
    task = (await at.keys("two")).task
    await moving.move("default", task, MoveRequest("u2", (await at.keys("one")).task))
    await at.flow.drive()
    assert await at.statuses("one", "two") == ["active", "cancelled"]
    await at.run_tools()
    assert (await at.status("one"), await at.counted()) == ("completed", {})


async def test_calls_of_a_pending_task_are_not_given_up_and_have_their_time_anew(store: Store, tmp_path: Path) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=1, pentad_step_timeout_s=60)
    await at.begin("one", what="both")
    await at.begin("two")
    one = await at.keys("one")
    await store.call("HSET", one.header, "asked_at", 1)
    await at.flow.say("Berlin", task_id=one.task)
    await at.flow.drive()
    assert await at.status("one") == "pending"
    assert await store.call("ZSCORE", timers(0), f"timeout {one.actor}") is None
    await at.ask("one", "timeout")  # type: ignore[arg-type]
    assert (await at.status("one"), at.flow.model.asked) == ("pending", 2)
    await at.ask("two", "cancel")
    header = await load_task(store, one)
    assert header is not None
    assert (header.status, len(header.open)) == ("active", 2)
    assert await store.call("ZSCORE", timers(0), f"timeout {one.actor}") is not None
    assert header.asked_at > await store.clock() - 30_000
    await at.run_tools()
    assert await at.status("one") == "completed"


async def test_who_takes_the_granted_task_and_dies_leaves_it_to_start_once(store: Store, tmp_path: Path) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=1)
    await at.begin("one", "two", "three")
    await at.flow.actors.post(await at.keys("one"), "cancel", b"{}", LIVE, control="cancel")
    await at.flow.once(TASK_WAKE)
    two = await at.keys("two")
    wake = (await store.call("HGET", two.header, "wake")).decode()
    assert (await at.status("two"), await store.call("HGET", two.header, "place")) == ("pending", b"a")
    await store.call("XREADGROUP", "GROUP", "task-runner", "dead", "STREAMS", two.wake, ">")
    assert await at.flow.actors.take(two, wake) is not None
    await store.call("HSET", two.header, "exp", 0)
    await store.call("XGROUP", "SETID", two.wake, "task-runner", "0")
    await at.flow.drive()
    assert await at.statuses("two", "three") == ["active", "pending"]
    assert (await at.told("two")).count(STARTED) == 1
    assert await at.counted() == {"default": 1, "default/s1": 1, "?default/s1": 1}


async def test_a_place_that_is_granted_while_the_task_is_handled_wakes_it_again(store: Store, tmp_path: Path) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=1)
    await at.begin("one", "two")
    two = await at.keys("two")
    await at.flow.actors.post(two, "stale", b"{}", LIVE)
    reply = await store.call("XREADGROUP", "GROUP", "task-runner", "slow", "STREAMS", two.wake, ">")
    taken = await at.flow.actors.take(two, reply[0][1][0][0].decode())
    assert taken is not None
    await at.ask("one", "cancel")
    assert await at.status("two") == "pending"
    commit = Commit(two, "step-slow")
    commit.unmail([mail.number for mail in taken.signals])
    commit.leaves_messages = True
    assert await at.flow.actors.commit(commit, taken) == "committed"
    await at.flow.drive()
    assert await at.status("two") == "active"


async def test_tasks_of_earlier_versions_have_no_place_and_get_one_or_go_on_without(
    store: Store, tmp_path: Path
) -> None:
    """They are not counted until they are handled; none is stuck, and then the limit holds."""
    at = await office(store, tmp_path)
    await at.begin("one", "two", "three")
    for name in NAMES[:3]:
        await store.call("HDEL", (await at.keys(name)).header, "place")
    await store.call("DEL", places(0))
    new = await restarted(at, tmp_path, pentad_tasks_per_session=1)
    await new.begin("four")
    assert await new.status("four") == "active"
    await new.run_tools()
    while "pending" in (found := await new.statuses(*NAMES[:4])):
        assert found.count("active") <= 1
        await new.run_tools()
    assert (await new.statuses(*NAMES[:4]), await new.counted()) == (["completed"] * 4, {})


async def test_a_lowered_limit_cuts_nothing_and_a_raised_one_lets_all_start(store: Store, tmp_path: Path) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=3)
    await at.begin("one", "two", "three")
    low = await restarted(at, tmp_path, pentad_tasks_per_session=1)
    await low.begin("four", "five")
    await low.ask("one", "cancel")
    await low.ask("two", "cancel")
    assert await low.statuses(*NAMES) == ["cancelled", "cancelled", "active", "pending", "pending"]
    high = await restarted(low, tmp_path, pentad_tasks_per_session=10)
    await high.begin("one")
    assert await high.statuses(*NAMES[2:]) == ["active", "active", "active"]


async def test_counts_that_are_lost_do_not_go_below_nothing_nor_hold_anybody_up(store: Store, tmp_path: Path) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=2)
    await at.begin("one", "two")
    await store.call("DEL", places(0))
    await at.ask("one", "cancel")
    assert await at.counted() == {}
    await at.begin("three", "four")
    assert await at.statuses("two", "three", "four") == ["active", "active", "active"]
    await at.begin("five")
    await at.run_tools()
    await at.run_tools()
    assert (await at.status("five"), await at.counted()) == ("completed", {})


@pytest.mark.parametrize("key", [places(0), task_queue(0, "default") + ":s1", task_queue(0, "default")])
async def test_a_key_that_somebody_else_has_written_is_found_before_anything_is(
    store: Store, tmp_path: Path, key: str
) -> None:
    at = await office(store, tmp_path, pentad_tasks_per_session=1)
    await at.begin("one")
    await at.flow.say("work", instruction="two")
    await at.flow.once(SESSION_WAKE)
    held = await store.call("DUMP", key)
    await store.call("DEL", key)
    await store.call("SET", key, "x")
    if key != places(0):
        await store.call("HSET", places(0), "?default/s1", 1)
    two = await at.keys("two")
    before = await store.call("HGETALL", two.header)
    wake = (await store.call("HGET", two.header, "wake")).decode()
    with pytest.raises(OutageError, match="WRONGTYPE"):
        await at.flow.actors.take(two, wake)
    assert await store.call("HGETALL", two.header) == before
    assert held is None or await store.call("GET", key) == b"x"


async def test_a_task_that_waits_for_a_place_runs_its_instruction_although_that_was_deleted(
    store: Store, tmp_path: Path
) -> None:
    there = await office(store, tmp_path, pentad_tasks_per_session=1)
    await there.begin("one", "two")
    assert await there.statuses("one", "two") == ["active", "pending"]
    del there.flow.instructions["two"]
    await there.run_tools()
    assert await there.statuses("one", "two") == ["completed", "completed"]
