"""`agent.observe`, `agent.ask` and `agent.session`: the task list as it changes, and the answer alone."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

import pentad
from pentad.contracts.records import Task
from tests.support.clients.fake_gateway import fake_gateway, task, turn_events
from tests.support.clients.fake_wire import Json
from tests.support.waiting import in_time, wait_until

CANCELLED: Json = {"type": "task_end", "task_id": "task-0-a", "status": "cancelled"}


async def following(lists: AsyncIterator[list[Task]]) -> dict[str, str]:
    """The next list, as status by task."""
    async with in_time():
        return {found.task_id: found.status for found in await anext(lists)}


@pytest.mark.parametrize("session", [None, "s1"])
async def test_the_list_comes_again_at_each_change_and_ends_when_it_is_closed(session: str | None) -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        gateway.tasks["task-0-a"] = task("task-0-a", "active")
        async with aclosing(agent.observe(session, interval_s=0.1)) as lists:
            assert await following(lists) == {"task-0-a": "active"}
            for status in ("waiting", "stale", "completed"):
                change: Json = {"type": "task_status", "task_id": "task-0-a", "status": "active"}
                gateway.tasks["task-0-a"] = task("task-0-a", status)
                gateway.say("s1", change)
                assert await following(lists) == {"task-0-a": status}
            gateway.tasks["task-0-b"] = task("task-0-b", "pending")
            gateway.say("s1", {"type": "task_start", "task_id": "task-0-b", "goal": "another"})
            assert await following(lists) == {"task-0-a": "completed", "task-0-b": "pending"}
    assert len(gateway.connections) == (0 if session is None else 2)


@pytest.mark.parametrize("session", [None, "s1"])
async def test_the_memorys_figures_stand_beside_the_tasks_when_asked_for(session: str | None) -> None:
    """And the list comes again when they change; a memory that is away hides no task."""
    stats = {"segments": 4, "tasks": 2, "nodes": 3, "edges": 1, "lag_s": 0.5, "extraction": None}
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        gateway.tasks["task-0-a"], gateway.memory = task("task-0-a", "active"), (200, stats)
        async with aclosing(agent.observe(session, interval_s=0.1, memory=True)) as lists, in_time():
            first = await anext(lists)
            assert first.memory is not None
            assert (first.memory.model_dump(), [each.task_id for each in first]) == (stats, ["task-0-a"])
            gateway.memory = 200, stats | {"segments": 6, "lag_s": 0.0}
            later = await anext(lists)
            assert later.memory is not None
            assert (later.memory.segments, later) == (6, first)
            gateway.memory = 503, {"title": "unavailable"}
            away = await anext(lists)
            assert (away.memory, away) == (None, first)
            gateway.tasks["task-0-a"] = task("task-0-a", "completed")
            gateway.say("s1", {"type": "task_status", "task_id": "task-0-a", "status": "active"})
            assert [each.status for each in await anext(lists)] == ["completed"]
        async with aclosing(agent.observe(session)) as lists, in_time():
            assert (await anext(lists)).memory is None


async def test_the_memorys_figures_are_not_asked_for_at_each_change() -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        gateway.memory = 200, {"segments": 4, "tasks": 2, "nodes": 3, "edges": 1}
        gateway.tasks["task-0-a"] = task("task-0-a", "active")
        async with aclosing(agent.observe("s1", interval_s=3600, memory=True)) as lists, in_time():
            await anext(lists)
            gateway.memory = 200, {"segments": 9, "tasks": 2, "nodes": 3, "edges": 1}
            gateway.tasks["task-0-a"] = task("task-0-a", "completed")
            gateway.say("s1", {"type": "task_status", "task_id": "task-0-a", "status": "active"})
            changed = await anext(lists)
            assert changed.memory is not None
            assert ([each.status for each in changed], changed.memory.segments) == (["completed"], 4)


async def test_a_session_that_is_quiet_is_not_asked_for_again() -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        gateway.tasks["task-0-a"] = task("task-0-a", "active")
        async with aclosing(agent.observe("s1")) as lists:
            await following(lists)
            waiting = asyncio.create_task(anext(lists))
            await wait_until("it to follow", lambda: len(gateway.connections) == 2)
            gateway.say(
                "s1",
                {"type": "content", "task_id": "task-0-a", "step": 1, "attempt": 1, "offset": 0} | {"content": "x"},
            )
            gateway.refuse.append((500, {}))
            done, _ = await asyncio.wait({waiting}, timeout=0.3)
            assert not done
            assert len(gateway.refuse) == 1, "a delta made it ask"
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


async def test_only_what_is_asked_for_is_told() -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        gateway.tasks = {name: task(name, status) for name, status in [("task-0-a", "active"), ("task-0-b", "failed")]}
        gateway.tasks["task-0-c"] = task("task-0-c", "active", session_id="s2")
        for session, expected in [(None, {"task-0-a", "task-0-c"}), ("s1", {"task-0-a"})]:
            async with aclosing(agent.observe(session, status="active")) as lists:
                assert (await following(lists)).keys() == expected
        async with aclosing(agent.session("s2").observe()) as lists:
            assert (await following(lists)).keys() == {"task-0-c"}


@pytest.mark.parametrize("session", [None, "s1"])
async def test_a_gateway_that_is_away_for_a_while_is_waited_for(session: str | None) -> None:
    notices: list[str] = []
    async with fake_gateway() as gateway, pentad.connect(gateway.url, notice=notices.append) as agent:
        gateway.tasks["task-0-a"] = task("task-0-a", "active")
        async with aclosing(agent.observe(session, interval_s=0.1)) as lists:
            await following(lists)
            waiting = asyncio.create_task(following(lists))
            await wait_until("it to follow", lambda: session is None or len(gateway.connections) == 2)
            await gateway.stop()
            await wait_until("a notice", lambda: bool(notices))
            gateway.tasks["task-0-a"] = task("task-0-a", "cancelled")
            gateway.say("s1", CANCELLED)
            await gateway.start()
            assert await waiting == {"task-0-a": "cancelled"}


async def test_a_gap_in_the_events_makes_it_look_at_everything() -> None:
    cuts = deque([1, 0])
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        gateway.say("s1", {"type": "task_start", "task_id": "task-0-a", "goal": "6 * 7?"})
        gateway.tasks["task-0-a"] = task("task-0-a", "active")
        async with aclosing(agent.observe("s1")) as lists:
            await following(lists)
            gateway.cut_after = cuts
            gateway.snapshot = {"tasks": [], "messages": []}
            gateway.tasks["task-0-b"] = task("task-0-b", "failed")
            assert await following(lists) == {"task-0-a": "active", "task-0-b": "failed"}


@pytest.mark.parametrize("session", [None, "s1"])
async def test_nobody_there_is_an_error_at_once_and_later_when_patience_ends(session: str | None) -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url, patience_s=0.2) as agent:
        async with aclosing(agent.observe(session, interval_s=0.1)) as lists:
            await following(lists)
            waiting = asyncio.create_task(following(lists))
            await wait_until("it to follow", lambda: session is None or len(gateway.connections) == 2)
            await gateway.stop()
            with pytest.raises(pentad.GatewayUnreachable):
                await waiting
        with pytest.raises(pentad.GatewayUnreachable):
            await anext(agent.observe(session))


async def test_ask_gives_the_answer_of_its_turn_or_says_why_there_is_none() -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        alice = agent.session("alice")
        assert await alice.ask("6 * 7?") == "42"
        gateway.script = lambda message: [
            *list(turn_events()(message))[:2],
            {"type": "task_end", "task_id": "task-0-a", "status": "failed", "reason": "step_limit"},
        ]
        with pytest.raises(pentad.TurnFailed, match=r"without an answer: failed \(step_limit\)") as failed:
            await alice.ask("and again")
        assert failed.value.end.outcome == "failed"
        gateway.script = turn_events(decision="rejected", reason="the named task was cancelled")
        with pytest.raises(pentad.TurnFailed, match="rejected"):
            await alice.ask("and again", task_id="task-0-a")


async def test_what_only_says_what_to_do_is_answered_by_what_came_of_it() -> None:
    def control(message: Json) -> list[Json]:
        about = {"message_id": message["message_id"], "task_id": "task-0-a"}
        routed = next(iter(turn_events(decision="control")(message)))
        return [routed, {"type": "control_result", "action": "progress", "content": "step 2"} | about]

    async with fake_gateway(script=control) as gateway, pentad.connect(gateway.url) as agent:
        assert await agent.ask("how far are you?") == "step 2"


async def test_a_session_has_a_name_of_the_right_form() -> None:
    agent = pentad.connect("http://127.0.0.1:9")
    with pytest.raises(pentad.Refused, match="session_id 'a b' is not one"):
        agent.session("a b")
    with pytest.raises(pentad.Refused, match="name the session"):
        await agent.running()
