"""A session's tasks are a bounded set: none is forgotten because another was spoken to."""

from pathlib import Path
from typing import Any

from pydantic_core import from_json

from pentad.contracts.ids import task_id
from pentad.services.router.domain.rules import RECENCY
from pentad.shared.actors.headers import pairs
from pentad.shared.actors.session_header import RECENT_TASKS, recent_field, session_header
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer

ECHO = ("echo", '{"text":"x"}')


def script(request: ChatRequest) -> Any:
    """Calls the tool for "call", else answers."""
    last = request.messages[-1]
    return answer("", ECHO) if b'"user"' in last and b"call" in last else answer("done")


async def routed(store: Store) -> list[dict[str, Any]]:
    found = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in found if event["type"] == "message_routed"]


async def live(store: Store) -> tuple[str, ...]:
    return session_header(pairs(await store.call("HGETALL", SESSION.header))).recent


async def two_live_tasks(store: Store, folder: Path) -> tuple[Flow, Any, str, str]:
    """A task that waits for a call, and an older one that was named and waits too; and who runs calls."""
    flow = await Flow(store, folder, script, pentad_route="explicit").prepare()
    await flow.say("hello")
    await flow.drive()
    await store.call("HSET", (await flow.task()).header, "ended_at", 1)  # its grace time is over
    tools = flow._served.pop(2)
    await flow.say("call")
    await flow.drive()
    old, new = [event["task_id"] for event in await routed(store)]
    await flow.say("call", task_id=old)
    await flow.drive()
    return flow, tools, old, new


async def test_an_unnamed_message_goes_to_the_one_spoken_to_last_and_says_how_sure_that_is(
    store: Store, tmp_path: Path
) -> None:
    flow, tools, old, new = await two_live_tasks(store, tmp_path)
    assert await live(store) == (old, new)
    await flow.say("and now?")
    await flow.drive()
    *_, guessed = await routed(store)
    assert (guessed["task_id"], guessed["confidence"], guessed["candidates"]) == (old, RECENCY, [old, new])
    await flow.say("and you?", task_id=new)
    await flow.drive()
    assert await live(store) == (new, old)
    assert [event["confidence"] for event in await routed(store)] == [1, 1, 1, RECENCY, 1]
    flow._served.append(tools)
    await flow.drive()
    assert await live(store) == (new, old)  # completed, and within their grace time


async def test_when_one_ends_the_other_is_spoken_to(store: Store, tmp_path: Path) -> None:
    flow, tools, old, new = await two_live_tasks(store, tmp_path)
    keys = await flow.task_named(old)
    await flow.actors.post(keys, "cancel", b"{}", ("active",), control="cancel")
    await flow.drive()
    assert await live(store) == (new,)
    await flow.say("and now?")
    await flow.drive()
    *_, last = await routed(store)
    assert (last["task_id"], last["decision"], last["confidence"]) == (new, "append", 1)
    flow._served.append(tools)
    await flow.drive()


async def test_the_set_is_bounded(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, script).prepare()
    others = [task_id(0, f"x{n}") for n in range(RECENT_TASKS + 5)]
    for n, other in enumerate(others):
        await store.call("HSET", SESSION.header, recent_field(other), n)
        await store.call("HSET", (await flow.task_named(other)).header, "status", "waiting", "session", "s1")
    del flow._served[1:]
    await flow.say("hello")
    await flow.drive()
    *_, newest = await routed(store)
    kept = [other for other in reversed(others) if other != newest["task_id"]][: RECENT_TASKS - 1]
    assert await live(store) == (newest["task_id"], *kept)


async def test_a_task_that_is_gone_leaves_the_set_and_decides_nothing(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, script).prepare()
    await store.call("HSET", SESSION.header, recent_field(task_id(0, "gone")), 1 << 50)
    await flow.say("hello")
    await flow.drive()
    await flow.say("and now?")
    await flow.drive()
    assert [event["decision"] for event in await routed(store)] == ["new", "reopen"]
    assert await live(store) == ((await flow.task()).task,)
