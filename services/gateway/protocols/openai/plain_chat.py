"""Completions by the plain chat model, for titles and tags of chat UIs: no task, no session, no memory."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

from pentad.contracts.commands import ModelCallReply, ModelCompletion
from pentad.contracts.events import TaskUsage
from pentad.services.gateway.domain.completion import CompletionAsked, read_completion
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.operator.completion_routes import completion_of, too_late
from pentad.services.gateway.operator.model_calls import OpenModelCall
from pentad.services.gateway.protocols.openai.chat_chunks import Out, usage_of
from pentad.services.gateway.protocols.openai.chat_events import DONE, block, refused
from pentad.services.gateway.protocols.openai.chat_request import UTILITY, read_said
from pentad.services.gateway.tasks.event_stream import ALIVE, HEARTBEAT_S
from pentad.shared.errors import OutageError
from pentad.shared.immutable import immutable

_MAX_MESSAGES = 1_000


def read_plain(body: Mapping[str, Any]) -> CompletionAsked:
    """Read the request for a completion by the plain model. Raises ``UnreadableError``."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not 1 <= len(messages) <= _MAX_MESSAGES:
        raise UnreadableError(f"messages: a list of 1 to {_MAX_MESSAGES:,} messages is expected")
    form = body.get("response_format")
    if form is not None and (not isinstance(form, dict) or form.get("type") != "text"):
        raise UnreadableError(f"response_format: {UTILITY} answers with texts; ask the model pentad for JSON")
    system, others = list[str](), list[dict[str, Any]]()
    for number, message in enumerate(messages):
        role, text = read_said(message, f"messages.{number}")
        if role == "system":
            system.append(text)
        else:
            others.append(_message(message, role, text))
    first = [{"role": "system", "content": "\n\n".join(system)}] if system else []
    asked = {
        "messages": first + others,
        "tools": [_tool(tool) for tool in body.get("tools") or ()],
        "temperature": body.get("temperature"),
        "max_tokens": body.get("max_completion_tokens") or body.get("max_tokens"),
        "stream": body.get("stream") or False,
    }
    return read_completion({name: value for name, value in asked.items() if value is not None})


def _message(message: Mapping[str, Any], role: str, text: str) -> dict[str, Any]:
    named = {name: message[name] for name in ("tool_calls", "tool_call_id") if message.get(name) is not None}
    return {"role": role, "content": text} | named


def _tool(tool: Any) -> Any:
    """Return a tool without what the model's server need not know."""
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict):
        return tool
    known = {name: function[name] for name in ("name", "description", "parameters") if function.get(name) is not None}
    return {"type": tool.get("type", "function"), "function": known}


@immutable
class PlainForm:
    """The form of the answers to one request."""

    id: str
    created: int
    wants_usage: bool = False

    @property
    def _head(self) -> Out:
        return {"id": self.id, "created": self.created, "model": UTILITY}

    def whole(self, made: ModelCompletion) -> Out:
        """Return the answer as one completion."""
        message: Out = {"role": "assistant", "content": made.content or None, "refusal": None}
        message |= {"reasoning_content": made.thinking} if made.thinking else {}
        message |= {"tool_calls": made.tool_calls} if made.tool_calls else {}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": made.finish_reason}
        return self._head | {"object": "chat.completion", "choices": [choice], "usage": usage_of(_used(made))}

    def delta(self, text: str, thinking: str) -> Out:
        """Return the chunk of a piece of the answer."""
        named = {"content": text, "reasoning_content": thinking}
        return self._chunk({name: value for name, value in named.items() if value})

    def begin(self) -> Out:
        """Return the first chunk."""
        return self._chunk({"role": "assistant", "content": ""})

    def last(self, made: ModelCompletion) -> list[Out]:
        """Return the chunks with which an answer ends."""
        calls = [{"index": n, **call} for n, call in enumerate(made.tool_calls)]
        ends = [self._chunk({"tool_calls": calls})] if calls else []
        ends.append(self._chunk({}, made.finish_reason))
        if self.wants_usage:
            ends.append(self._head | {"object": _CHUNK, "choices": [], "usage": usage_of(_used(made))})
        return ends

    def _chunk(self, delta: Out, finish: str | None = None) -> Out:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._head | {"object": _CHUNK, "choices": [choice]}


_CHUNK = "chat.completion.chunk"


def _used(made: ModelCompletion) -> TaskUsage:
    used = made.usage
    return TaskUsage(
        input_tokens=used.input_tokens, output_tokens=used.output_tokens, usd=used.usd, cached_tokens=used.cached_tokens
    )


class PlainEvents:
    """The chunks of the plain model's answer. Closing them ends the call."""

    def __init__(
        self, call: OpenModelCall, first: ModelCallReply, form: PlainForm, timeout_s: float, stack: AsyncExitStack
    ) -> None:
        """``first``: the first reply; ``stack`` ends the call."""
        self._call, self._first, self._form, self._stack = call, first, form, stack
        self._until = asyncio.get_running_loop().time() + timeout_s
        self._ending: asyncio.Task[None] | None = None

    def close(self) -> None:
        """End the call. Safe to call twice."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._stack.aclose(), name="end-of-plain-chat")

    async def blocks(self) -> AsyncIterator[bytes]:
        """Return the chunks until the answer ends."""
        yield block(self._form.begin())
        reply = self._first
        try:
            while True:
                if reply.content or reply.thinking:
                    yield block(self._form.delta(reply.content, reply.thinking))
                if reply.is_last:
                    break
                async for silence in self._waited():
                    yield silence
                reply = await self._call.read()
            yield b"".join(map(block, self._form.last(completion_of(reply)))) + DONE
        except ProblemError as problem:
            yield refused(problem)
        except OutageError as error:
            yield refused(ProblemError(503, str(error)))

    async def _waited(self) -> AsyncIterator[bytes]:
        """Return signs of life until there is something to read. Raises ``ProblemError`` when the time is up."""
        while not await self._call.has_news(min(HEARTBEAT_S, self._until - asyncio.get_running_loop().time())):
            if asyncio.get_running_loop().time() >= self._until:
                raise too_late()
            yield ALIVE
