"""A paused task keeps everything where it is, and goes on exactly there."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE, TOOL_CALLS
from pentad.services.gateway.domain.move import MoveRequest
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.actors import TASK_MESSAGES, Taken
from pentad.shared.actors.commit import Commit
from pentad.shared.keys import load, timers
from pentad.shared.kinds import ControlKind
from pentad.shared.models.ports import ChatRequest, ModelUnavailable
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.waiting import PATIENCE_S, wait_until

ECHO = ("echo", '{"text":"x"}')
ASK = ("ask_user", '{"question":"Which city?"}')
LIVE = ("pending", "active", "waiting", "stale")


async def ask(flow: Flow, what: ControlKind) -> None:
    """A client's request, as the gateway posts it."""
    await flow.actors.post(await flow.task(), what, b"{}", LIVE, control=what)


async def told(store: Store, *kinds: str) -> list[dict[str, Any]]:
    events = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in events if event["type"] in kinds]


async def statuses(store: Store) -> list[tuple[str, str]]:
    return [(e["status"], e["reason"]) for e in await told(store, "task_status", "task_end")]


async def counted(store: Store) -> dict[str, int]:
    """What back-pressure sees."""
    raw = await store.call("HGETALL", load(0))
    return {name.decode(): int(value) for name, value in zip(raw[::2], raw[1::2], strict=True)}


def parked(number: int) -> dict[str, int]:
    """So many messages that lie with paused tasks, all of one session."""
    return dict.fromkeys(("parked", "parked:default", "parked:default/s1"), number)


async def contents(flow: Flow) -> list[Any]:
    log = await flow.store.call("LRANGE", (await flow.task()).log, 0, -1)
    return [from_json(raw.split(b"\n", 1)[1])["content"] for raw in log]


def said(request: ChatRequest) -> str:
    return str(from_json(request.messages[-1])["content"])


def calling(*calls: tuple[str, str]) -> Any:
    return lambda request: (
        answer("" if calls else "so", *calls) if said(request) == "go" else answer(f"so: {said(request)}")
    )


async def test_a_running_step_is_cut_and_nothing_of_it_is_kept(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, calling(), pause_s=600).prepare()
    beat = asyncio.create_task(flow.keeper.run())
    await flow.say("hello")
    step = asyncio.create_task(flow.drive())
    await wait_until("the model to be asked", lambda: flow.model.asked)
    await ask(flow, "pause")
    await asyncio.wait_for(step, PATIENCE_S)  # the model would take longer
    assert (await flow.status(), await contents(flow)) == ("waiting", [])
    assert await statuses(store) == [("waiting", "paused")]
    flow.model.pause_s = 0
    await ask(flow, "resume")
    await flow.drive()
    beat.cancel()
    await asyncio.gather(beat, return_exceptions=True)
    assert await statuses(store) == [("waiting", "paused"), ("active", "resumed"), ("completed", "answered")]
    assert await contents(flow) == ["hello", "so: hello"]
    (message,) = await told(store, "message")
    voided = [e["attempt"] for e in await told(store, "content") if e["attempt"] < message["attempt"]]
    assert voided, "what was said before is of an older attempt"


async def test_a_message_waits_in_the_mailbox_and_its_sender_is_told(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, calling()).prepare()
    await flow.say("hello")
    await flow.once(SESSION_WAKE)
    await ask(flow, "pause")
    await flow.drive()
    for text in ("one", "two"):
        await flow.say(text)
        await flow.drive()
    assert await statuses(store) == 3 * [("waiting", "paused")]
    whose = [e["correlation_id"] for e in await told(store, "task_status")]
    assert whose == ["u1", "u2", "u3"]
    assert await counted(store) == {"mail": 0, **parked(3)}, "they wait for a person: nobody else's are held up by them"
    await ask(flow, "resume")
    await flow.drive()
    assert await counted(store) == {"mail": 0}
    assert await contents(flow) == ["hello", "one", "two", "so: two"]
    assert (await flow.status(), flow.model.asked) == ("completed", 1)


async def test_calls_under_way_finish_and_their_results_wait(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, calling(ECHO)).prepare()
    await flow.say("go")
    await flow.once(SESSION_WAKE)
    await flow.once(TASK_WAKE)
    await ask(flow, "pause")
    await flow.drive()
    assert len(await told(store, "tool_result")) == 1
    assert (await flow.status(), flow.model.asked) == ("waiting", 1)
    await ask(flow, "resume")
    await flow.drive()
    assert (await flow.status(), await contents(flow)) == ("completed", ["go", None, "x", "so: x"])


async def test_a_question_stays_a_question(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, calling(ASK)).prepare()
    await flow.say("go")
    await flow.drive()
    await ask(flow, "pause")
    await flow.drive()
    await ask(flow, "resume")
    await flow.drive()
    waits = [("waiting", "question"), ("waiting", "paused"), ("waiting", "question")]
    assert (await statuses(store), flow.model.asked) == (waits, 1)
    await ask(flow, "pause")
    await flow.say("Berlin")
    await flow.drive()
    assert flow.model.asked == 1
    await ask(flow, "resume")
    await flow.drive()
    assert (await flow.status(), (await contents(flow))[-1]) == ("completed", "so: Berlin")


async def test_said_twice_it_is_once(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, calling()).prepare()
    await flow.say("hello")
    await flow.once(SESSION_WAKE)
    for _ in range(3):
        await ask(flow, "pause")
    assert len(await store.call("ZRANGE", (await flow.task()).signals, 0, -1)) == 1
    await flow.drive()
    await ask(flow, "pause")
    await flow.drive()
    assert await statuses(store) == [("waiting", "paused")]
    for _ in range(3):
        await ask(flow, "resume")
    await flow.drive()
    await ask(flow, "resume")
    await flow.drive()
    assert [s for s, _ in await statuses(store)] == ["waiting", "active", "completed"]


async def test_a_resume_of_what_runs_cuts_nothing(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, calling(), pause_s=0.3).prepare()
    beat = asyncio.create_task(flow.keeper.run())
    await flow.say("hello")
    step = asyncio.create_task(flow.drive())
    await wait_until("the model to be asked", lambda: flow.model.asked)
    await ask(flow, "resume")
    await step
    beat.cancel()
    await asyncio.gather(beat, return_exceptions=True)
    assert (flow.model.asked, await flow.status()) == (1, "completed")
    assert await store.call("HGET", (await flow.task()).header, "control") in (None, b"")


@pytest.mark.parametrize("then", ["cancel", "wait", "deadline"])
async def test_a_paused_task_ends_as_any_other(store: Store, tmp_path: Path, then: Any) -> None:
    flow = await Flow(store, tmp_path, calling()).prepare()
    await flow.say("hello")
    await flow.once(SESSION_WAKE)
    await ask(flow, "pause")
    await flow.drive()
    task = await flow.task()
    await store.call("HSET", task.header, "waiting_at", 1, *(("deadline", 1) if then == "deadline" else ()))
    await flow.actors.post(task, then, b"{}", LIVE)
    await flow.drive()
    ends = {"cancel": "cancelled", "wait": "wait_expired", "deadline": "deadline_exceeded"}
    assert (await statuses(store))[-1][1] == ends[then]
    assert await contents(flow) == ["hello"]
    assert await store.call("HMGET", task.header, "paused", "paused_mail") == [None, None]
    assert [m.decode() for m in await store.call("ZRANGE", timers(0), 0, -1)] == [
        f"remember {task.actor}",
        f"archive {task.actor}",
    ]


async def test_a_model_that_was_away_is_asked_at_once_when_the_task_is_resumed(store: Store, tmp_path: Path) -> None:
    """Its time limit begins anew: the pause does not count."""

    def script(request: ChatRequest) -> Any:
        if flow.model.asked == 1:
            raise ModelUnavailable("busy", 60)
        return answer("done")

    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("hello")
    await flow.drive()
    await ask(flow, "pause")
    await flow.drive()
    task = await flow.task()
    assert await store.call("ZSCORE", timers(0), f"retry {task.actor}") is None
    assert await store.call("HGET", task.header, "retry_since") == b"0"
    await ask(flow, "resume")
    await flow.drive()
    assert (flow.model.asked, await flow.status()) == (2, "completed")


@pytest.mark.parametrize("calls", [(), (ECHO,), (ASK,), (ECHO, ASK)])
async def test_paused_after_any_handling_it_goes_on_as_if_nothing_had_been(
    store: Store, tmp_path: Path, calls: Any
) -> None:
    """A pause and a resume around each handling, each made by a process that knows nothing of those before."""
    flow = await Flow(store, tmp_path, calling(*calls)).prepare()
    await flow.say("go")
    await flow.once(SESSION_WAKE)
    spoken = False
    for _ in range(8):
        for what in ("pause", "resume"):
            await ask(flow, what)
            await (await Flow(store, tmp_path, calling(*calls)).prepare()).once(TASK_WAKE)
        other = await Flow(store, tmp_path, calling(*calls)).prepare()
        await other.once(TASK_WAKE)
        await other.once(TOOL_CALLS)
        if await flow.status() == "waiting" and not spoken:
            spoken = True
            await flow.say("Berlin")
            await flow.once(SESSION_WAKE)
    assert await flow.status() == "completed"
    assert Counter(e["type"] for e in await told(store, "task_start", "task_end", "tool_result")) == {
        "task_start": 1,
        "task_end": 1,
        **({"tool_result": len(calls)} if calls else {}),
    }
    log = await contents(flow)
    assert len(log) == 2 + (1 + len(calls) if calls else 0) + spoken


async def test_thousands_of_messages_to_a_paused_task_do_not_keep_the_runner_busy(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, calling()).prepare()
    await flow.say("hello")
    await flow.once(SESSION_WAKE)
    await ask(flow, "pause")
    await flow.drive()
    mail = b'{"message":{"content":"more","session_id":"s1"},"entry_id":"1-1","at":"now"}'
    for _ in range(600):
        await flow.actors.post(await flow.task(), "user", mail, LIVE)
    await asyncio.wait_for(flow.drive(), PATIENCE_S)
    await ask(flow, "resume")
    await flow.drive()
    assert (await flow.status(), len(await contents(flow))) == ("completed", 601 + flow.model.asked)


async def paused_with(store: Store, folder: Path, *texts: str, **settings: Any) -> Flow:
    """A paused task with these messages."""
    flow = await Flow(store, folder, calling(), **settings).prepare()
    for text in texts:
        await flow.say(text)
    await flow.once(SESSION_WAKE)
    await ask(flow, "pause")
    await flow.drive()
    return flow


async def test_messages_that_are_resumed_count_as_waiting_again_until_a_step_takes_them_in(
    store: Store, tmp_path: Path
) -> None:
    flow = await paused_with(store, tmp_path, "one", "two")
    assert await counted(store) == {"mail": 0, **parked(2)}
    await flow.say("three")
    assert await counted(store) == {"mail": 1, "tenant:default": 1, **parked(2)}, "it is not with its task yet"
    await flow.drive()
    assert await counted(store) == {"mail": 0, **parked(3)}
    await ask(flow, "resume")
    await flow.once(TASK_WAKE)
    assert await counted(store) == {"mail": 3, "tenant:default": 3}
    await flow.drive()
    assert await counted(store) == {"mail": 0}


async def test_more_messages_than_a_handling_reads_are_parked(store: Store, tmp_path: Path) -> None:
    texts = [f"message {n}" for n in range(TASK_MESSAGES + 5)]
    flow = await paused_with(store, tmp_path, *texts)
    assert await counted(store) == {"mail": 0, **parked(len(texts))}
    await ask(flow, "resume")
    await flow.drive()
    assert await counted(store) == {"mail": 0}


async def test_the_end_of_a_paused_task_leaves_nothing_counted(store: Store, tmp_path: Path) -> None:
    flow = await paused_with(store, tmp_path, *(f"message {n}" for n in range(TASK_MESSAGES + 5)))
    await ask(flow, "cancel")
    await flow.drive()
    assert (await flow.status(), await counted(store)) == ("cancelled", {"mail": 0})


async def test_a_paused_task_that_nobody_came_for_leaves_nothing_counted(store: Store, tmp_path: Path) -> None:
    flow = await paused_with(store, tmp_path, "one", "two")
    await store.call("HSET", (await flow.task()).header, "waiting_at", 1)
    await flow.actors.post(await flow.task(), "wait", b"{}", LIVE)
    await flow.drive()
    assert await counted(store) == {"mail": 0}


async def test_a_message_that_is_moved_away_from_a_paused_task_counts_as_waiting(store: Store, tmp_path: Path) -> None:
    flow = await paused_with(store, tmp_path, "one", "two", "three")
    task = await flow.task()
    moving = MessageMoves(store, Queries(store, flow.records, 1))
    await moving.move("default", task.task, MoveRequest("u2", "new"))
    await flow.once(TASK_WAKE)
    assert await counted(store) == {"mail": 1, "tenant:default": 1, **parked(2)}
    await flow.drive()
    assert await counted(store) == {"mail": 0, **parked(2)}


async def test_a_message_that_is_moved_to_a_paused_task_is_parked_there(store: Store, tmp_path: Path) -> None:
    flow = await paused_with(store, tmp_path, "one")
    task = await flow.task()
    await flow.say("elsewhere", task_id="new")
    await flow.drive()
    (other,) = {n.decode() for n in await store.call("ZRANGE", "pentad:{0}:tasks:default", 0, -1)} - {task.task}
    moving = MessageMoves(store, Queries(store, flow.records, 1))
    await moving.move("default", other, MoveRequest("u2", task.task))
    await flow.drive()
    assert await counted(store) == {"mail": 0, **parked(2)}


async def test_a_task_that_an_earlier_version_paused_parks_its_messages_with_the_next_one(
    store: Store, tmp_path: Path
) -> None:
    flow = await paused_with(store, tmp_path, "one", "two")
    await store.call("HDEL", (await flow.task()).header, "parked")
    await store.call("DEL", load(0))
    await store.call("HSET", load(0), "mail", 2, "tenant:default", 2)
    await flow.say("three")
    await flow.drive()
    assert await counted(store) == {"mail": 0, **parked(3)}


async def test_a_handling_that_is_lost_parks_nothing_and_its_repetition_once(store: Store, tmp_path: Path) -> None:
    flow = await paused_with(store, tmp_path, "one")
    await flow.say("two")
    await flow.once(SESSION_WAKE)
    keys = await flow.task()
    wake: bytes = await store.call("HGET", keys.header, "wake")
    taken = await flow.actors.take(keys, wake.decode(), 0)
    assert isinstance(taken, Taken)
    commit = Commit(keys, "step-one")
    assert await flow.actors.commit(commit, replace(taken, lease=replace(taken.lease, token="0.x"))) == "lost"
    assert await counted(store) == {"mail": 1, "tenant:default": 1, **parked(1)}
    assert await flow.actors.commit(commit, taken) == "committed"
    assert await flow.actors.commit(commit, taken) == "committed", "its reply was lost"
    assert await counted(store) == {"mail": 0, **parked(2)}
