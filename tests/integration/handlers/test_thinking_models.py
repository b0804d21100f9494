"""Servers that refuse a call of tools without the thoughts before it, and servers that refuse the thoughts of others: a
task is answered by either, also when it goes from one to the other."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.models import ModelEntry
from pentad.shared.actors.transcript import shown
from pentad.shared.models.model_list import merged
from pentad.shared.models.model_makers import make_of_entry
from pentad.shared.models.model_pool import ModelPool, OpenGate
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.models.model_server import Script, ScriptedModel
from tests.support.models.replies import Reply, call, fail, say

_STANDARD = {"role", "content", "tool_calls", "tool_call_id"}


def thinking_server(request: dict[str, Any]) -> Reply:
    """As DeepSeek's: whoever calls tools must have thought before, and must say what."""
    for number, message in enumerate(request["messages"]):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            return fail(400, message=f"Missing `reasoning_content` field in the assistant message at index {number}")
    return _turn(request, thinking="what does 6*7 make?")


def strict_server(request: dict[str, Any]) -> Reply:
    """As Mistral's: a field that it does not know is refused."""
    unknown = {name for message in request["messages"] for name in message} - _STANDARD
    return fail(422, message=f"Extra inputs are not permitted: {unknown}") if unknown else _turn(request)


def _turn(request: dict[str, Any], thinking: str = "") -> Reply:
    if request["messages"][-1]["role"] == "tool":
        return say("It is 42.", thinking=thinking)
    return call(("calculator", {"expression": "6*7"}), thinking=thinking)


class Servers:
    """Model servers on loopback, each an entry of a registry."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.running: list[ScriptedModel] = []

    async def pool(self, *scripts: Script) -> ModelPool:
        """Models `m0`, `m1` and so on; the first is the default, the others its fallbacks."""
        self.running = [await self._stack.enter_async_context(ScriptedModel(script)) for script in scripts]
        names = tuple(f"m{n}" for n in range(len(scripts)))
        entries = [
            ModelEntry(id=name, model=name, endpoint=server.base_url, default=not n, fallbacks=() if n else names[1:])
            for n, (name, server) in enumerate(zip(names, self.running, strict=True))
        ]
        pool = ModelPool(lambda known: make_of_entry(known.entry), OpenGate(), merged((), entries, ()))
        self._stack.push_async_callback(pool.aclose)
        return pool


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        yield Servers(stack)


async def turn(store: Store, folder: Path, models: ModelPool) -> dict[str, Any]:
    """One turn with a tool; its `task_end`."""
    flow = await Flow(store, folder, lambda _: answer("never"), models=models).prepare()
    await flow.say("what is 6*7?")
    await flow.drive()
    told = await store.call("XRANGE", SESSION.events, "-", "+")
    end: dict[str, Any] = from_json(told[-1][1][1])
    return end


async def test_a_thinking_model_is_sent_its_thoughts_back_with_the_call(
    store: Store, tmp_path: Path, servers: Servers
) -> None:
    end = await turn(store, tmp_path, await servers.pool(thinking_server))
    assert (end["type"], end["status"], end["reason"]) == ("task_end", "completed", "answered")
    first, second = servers.running[0].chats
    assert [m.get("reasoning_content") for m in second["messages"]][-2:] == ["what does 6*7 make?", None]
    assert {name for message in second["messages"] for name in message} <= _STANDARD | {"reasoning_content"}
    assert len(first["messages"]) == 2


async def test_what_was_thought_is_shown_with_the_transcript(store: Store, tmp_path: Path, servers: Servers) -> None:
    await turn(store, tmp_path, await servers.pool(thinking_server))
    (name,) = await store.call("ZRANGE", "pentad:{0}:tasks:default", 0, -1)
    flow = await Flow(store, tmp_path, lambda _: answer("never")).prepare()
    raw = await store.call("LRANGE", (await flow.task_named(name.decode())).log, 0, -1)
    thoughts = [shown(entry).get("thinking") for entry in raw]
    fields = {"reasoning_content": "what does 6*7 make?"}
    assert thoughts == [None, {"of": "openai/m0", "ids": ["call_0"], "fields": fields}, None, None]


async def test_a_strict_server_takes_over_without_the_thoughts_of_another(
    store: Store, tmp_path: Path, servers: Servers
) -> None:
    def once(request: dict[str, Any]) -> Reply:
        """Away after its first answer."""
        return thinking_server(request) if len(request["messages"]) == 2 else fail(503, retry_after=30)

    end = await turn(store, tmp_path, await servers.pool(once, strict_server))
    assert (end["status"], end["reason"]) == ("completed", "answered")
    assert len(servers.running[1].chats) == 1


async def test_a_thinking_model_takes_over_what_another_has_begun(
    store: Store, tmp_path: Path, servers: Servers
) -> None:
    def once(request: dict[str, Any]) -> Reply:
        return strict_server(request) if len(request["messages"]) == 2 else fail(503, retry_after=30)

    end = await turn(store, tmp_path, await servers.pool(once, thinking_server))
    assert (end["status"], end["reason"]) == ("completed", "answered")
    refused, answered = servers.running[1].chats
    assert [bool(m.get("reasoning_content")) for m in refused["messages"]] == [False] * 4
    assert [bool(m.get("reasoning_content")) for m in answered["messages"]] == [False, False, True, False]
