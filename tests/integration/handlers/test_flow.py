"""What the handlers do together, where one wake-up after the other is enough to see it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.tools import Effect
from pentad.services.tool_worker.builtins.catalogue import BUILTINS
from pentad.shared.actors.step_prompt import chain
from pentad.shared.actors.transcript import message_of
from pentad.shared.keys import SessionKeys, load, timers
from pentad.shared.models.ports import ChatRequest, ModelRefused, ModelUnavailable
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from pentad.shared.work.timers import TimerLoop
from tests.integration.handlers import flow as flow_module
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.waiting import PATIENCE_S, wait_until

ECHO = ("echo", '{"text":"x"}')


async def events(store: Store, session: SessionKeys = SESSION) -> list[dict[str, Any]]:
    found = await store.call("XRANGE", session.events, "-", "+")
    return [from_json(fields[1]) for _, fields in found]


async def log_of(flow: Flow) -> list[dict[str, Any]]:
    raw = await flow.store.call("LRANGE", (await flow.task()).log, 0, -1)
    return [from_json(message_of(r)) for r in raw]


@asynccontextmanager
async def beating(flow: Flow) -> AsyncIterator[None]:
    beat = asyncio.create_task(flow.keeper.run())
    yield
    beat.cancel()
    await asyncio.gather(beat, return_exceptions=True)


def tools_then_answer(request: ChatRequest) -> Any:
    return answer("done") if b'"tool"' in request.messages[-1] else answer("", ECHO, ECHO)


async def test_several_messages_in_a_mailbox_are_all_routed(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("hello")).prepare()
    for n in range(5):
        await flow.say(f"message {n}")
    await flow.drive()
    routed = [e["message_id"] for e in await events(store) if e["type"] == "message_routed"]
    assert routed == ["u1", "u2", "u3", "u4", "u5"]
    assert await store.call("HGET", load(0), "mail") == b"0"


async def test_a_turn_with_tools_is_well_formed_and_leaves_nothing_to_do(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, tools_then_answer).prepare()
    await flow.say("go")
    await flow.drive()
    roles = [m["role"] for m in await log_of(flow)]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    assert await flow.status() == "completed"
    assert [k.split()[0] for k in await store.call("ZRANGE", timers(0), 0, -1)] == [b"remember", b"archive"]
    assert await store.call("EXISTS", (await flow.task()).calls) == 0


async def test_the_manifests_digests_are_a_chain_over_exactly_what_was_asked(store: Store, tmp_path: Path) -> None:
    asked: list[list[bytes]] = []

    def script(request: ChatRequest) -> Any:
        asked.append(list(request.messages))
        return tools_then_answer(request)

    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("go")
    await flow.drive()
    steps = [from_json(s) for s in await store.call("LRANGE", (await flow.task()).steps, 0, -1)]
    digest, before = "", 1
    for step, prompt in zip(steps, asked, strict=True):
        manifest = step["manifest"]
        digest = chain(digest, prompt[before:], prompt[0], manifest["tools"], manifest["model"])
        assert (manifest["digest"], manifest["messages"]) == (digest, [0, len(prompt) - 1])
        before = len(prompt)
    assert await store.call("HEXISTS", (await flow.task()).big, f"tools:{steps[0]['manifest']['tools']}")


async def test_cancel_is_carried_out_behind_any_number_of_messages(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("slow"), pause_s=600).prepare()
    await flow.say("first")
    step = asyncio.create_task(flow.drive())
    await wait_until("the model being asked", lambda: flow.model.asked)
    task = await flow.task()
    for n in range(70):
        await flow.actors.post(task, "user", _user_mail(n), ("active",))
    await flow.actors.post(task, "cancel", b"{}", ("active",), "cancel")
    async with beating(flow):
        await asyncio.wait_for(step, PATIENCE_S)
    assert await flow.status() == "cancelled"
    assert [m["content"] for m in await log_of(flow)] == ["first", *(f"more {n}" for n in range(70))]


def _user_mail(n: int) -> bytes:
    message = f'{{"content":"more {n}","session_id":"s1","message_id":"more-{n}"}}'
    return f'{{"message":{message},"entry_id":"1-{n}","at":"2030-01-01T00:00:00.000Z"}}'.encode()


async def test_a_deadline_that_was_moved_does_not_interrupt_for_ever(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("late"), pause_s=0.3).prepare()
    await flow.say("first", deadline=rfc3339(await store.clock() + 60_000))
    step = asyncio.create_task(flow.drive())
    await wait_until("the model being asked", lambda: flow.model.asked)
    task = await flow.task()
    assert await flow.actors.post(task, "deadline", b"{}", ("active",), "deadline") == "active"
    async with beating(flow):
        await asyncio.wait_for(step, PATIENCE_S)
    assert (await flow.status(), flow.model.asked) == ("completed", 2)
    attempts = [e["attempt"] for e in await events(store) if e["type"] == "content"]
    assert attempts == [1, 2], "what was said before the interruption is void"


async def test_what_reaches_clients_of_a_new_turn_is_a_newer_attempt(store: Store, tmp_path: Path) -> None:
    says: list[Any] = [ModelRefused("no"), answer("yes")]

    def script(_: ChatRequest) -> Any:
        said = says.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    flow = await Flow(store, tmp_path, script, pause_s=0.01).prepare()
    await flow.say("first")
    await flow.drive()
    assert await flow.status() == "failed"
    await flow.say("again", task_id=(await flow.task()).task)
    await flow.drive()
    deltas = [(e["step"], e["attempt"]) for e in await events(store) if e["type"] == "content"]
    assert deltas == sorted(set(deltas)), "no two attempts of a step share a number"
    assert len(deltas) == 2


async def test_a_message_that_was_left_keeps_its_task_from_the_archive(store: Store, tmp_path: Path) -> None:
    """The task failed, its grace time is over, and a message lies there for a new turn that no runner has begun."""
    fails: list[Exception] = [ModelRefused("no"), ModelUnavailable("busy", 30)]

    def script(_: ChatRequest) -> Any:
        raise fails.pop(0)

    flow = await Flow(store, tmp_path, script, pentad_grace_s=0).prepare()
    await flow.say("first")
    await flow.once()
    task = await flow.task()
    await TimerLoop(store, [0]).fire(0)
    await flow.actors.post(task, "user", _user_mail(1), ("failed",))
    ((entry, fields),) = await store.call("XRANGE", "pentad:{0}:archive", "-", "+")
    await flow.archiving.handle(Entry("pentad:{0}:archive", entry.decode(), fields[1]))
    assert (await store.call("ZCARD", task.messages), await flow.status()) == (1, "failed")
    await flow.drive()
    assert (await store.call("ZCARD", task.messages), await flow.status()) == (1, "active"), "it waits for the model"
    assert [k.split()[0] for k in await store.call("ZRANGE", timers(0), 0, -1)] == [b"remember", b"retry"]


async def test_a_failed_task_that_is_opened_while_it_begins_again_starts_once(store: Store, tmp_path: Path) -> None:
    says: list[Any] = [ModelRefused("no"), answer("yes"), answer("yes")]

    def script(_: ChatRequest) -> Any:
        said = says.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    flow = await Flow(store, tmp_path, script, pause_s=0.1).prepare()
    await flow.say("first")
    await flow.once()
    task = await flow.task()
    await flow.actors.post(task, "user", _user_mail(1), ("failed",))
    again = asyncio.create_task(flow.drive())
    await wait_until("the model being asked again", lambda: flow.model.asked == 2)
    await flow.say("third", task_id=task.task)
    await flow.once()
    await again
    await flow.drive()
    kinds = [e["type"] for e in await events(store) if e["type"] in ("task_start", "task_end")]
    assert kinds == ["task_start", "task_end"] * (len(kinds) // 2)
    assert [m["content"] for m in await log_of(flow) if m["role"] == "user"] == ["first", "more 1", "third"]


async def test_a_call_is_queued_with_its_tools_time_limit_and_effect(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = BUILTINS["echo"].spec.model_copy(update={"timeout": 7, "effect": Effect.UNSAFE})
    monkeypatch.setitem(flow_module._SPECS, "echo", given)
    flow = await Flow(store, tmp_path, tools_then_answer).prepare()
    flow._served.pop()  # no worker takes them
    await flow.say("go")
    await flow.drive()
    entries = await store.call("XRANGE", TOOL_CALLS.key(0, queue=given.queue), "-", "+")
    asked = [ToolCallCommand.model_validate_json(fields[1]) for _, fields in entries]
    assert [(c.tool, c.timeout, c.effect) for c in asked] == [("echo", 7, Effect.UNSAFE)] * 2
