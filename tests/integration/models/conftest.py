"""A scripted model server on a socket, and a client that talks to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from pentad.shared.models.anthropic.chat import AnthropicChat
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.ports import ChatModel, ChatRequest, ModelAnswer
from tests.support.models.model_server import Script, ScriptedModel
from tests.support.models.protocols import ANTHROPIC, OPENAI, ScriptedProtocol
from tests.support.models.replies import Reply, say

USER = b'{"role":"user","content":"hi"}'


@dataclass
class Bench:
    """One server, one client, and what the sink got."""

    server: ScriptedModel
    client: ChatModel
    deltas: list[tuple[str, str]] = field(default_factory=list)

    async def ask(
        self, *messages: bytes, tools: bytes | None = None, timeout_s: float = 10.0, **more: Any
    ) -> ModelAnswer:
        request = ChatRequest(messages or (USER,), tools, timeout_s, **more)
        return await self.client.stream(request, lambda kind, text: self.deltas.append((kind, text)))

    @property
    def said(self) -> str:
        return "".join(text for kind, text in self.deltas if kind == "content")


Start = Callable[..., Awaitable[Bench]]


@pytest.fixture(params=["openai", "anthropic"])
def protocol(request: pytest.FixtureRequest) -> ScriptedProtocol:
    """Every protocol that a chat model is spoken to in. A module about one alone has a fixture of its own."""
    return {"openai": OPENAI, "anthropic": ANTHROPIC}[request.param]


@pytest.fixture(params=["direct", "stock"])
def direct(request: pytest.FixtureRequest) -> bool:
    """Both ways to the server: our transport, and the HTTP client's own, which also does TLS and proxies."""
    return bool(request.param == "direct")


@pytest.fixture(params=["first", "later"])
def nth(request: pytest.FixtureRequest) -> str:
    """Which request it is: the first, which the official client builds, or one that repeats it."""
    which: str = request.param
    return which


@pytest.fixture
async def start(protocol: ScriptedProtocol, direct: bool, nth: str) -> AsyncIterator[Start]:
    """`await start(script_or_replies, **client options)`; several replies are given one after the other."""
    async with AsyncExitStack() as stack:

        async def make(
            *script: Reply | Script, key: str | None = "sk-secret-key", model: str | None = "m", **more: Any
        ) -> Bench:
            server = ScriptedModel(lambda _: say("ok"), models=more.pop("models", ("first",)))
            await stack.enter_async_context(server)
            client = client_of(protocol, server.base_url, key, model, direct=direct, **more)
            stack.push_async_callback(client.aclose)
            bench = Bench(server, client)
            if nth == "later":
                await client.stream(ChatRequest((USER,), None, 10.0, model="m"), lambda *_: None)
                server.seen.requests.clear()
            server.script = _in_turn(script)
            return bench

        yield make


def client_of(protocol: ScriptedProtocol, base_url: str, key: str | None, model: str | None, **more: Any) -> ChatModel:
    """A client that speaks it."""
    if protocol is OPENAI:
        return OpenAIChat(base_url, key, model, **more)
    return AnthropicChat(base_url, key, model or "m", **more)


def _in_turn(script: tuple[Reply | Script, ...]) -> Script:
    replies = list(script)

    def choose(request: dict[str, Any]) -> Reply:
        current = replies.pop(0) if len(replies) > 1 else replies[0] if replies else say("ok")
        return current if isinstance(current, Reply) else current(request)

    return choose


async def until(what: str, holds: Callable[[], bool], limit_s: float = 20.0) -> None:
    """Wait until it holds; say what was waited for when it never does."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, f"waited {limit_s} s for: {what}"
        await asyncio.sleep(0.005)
