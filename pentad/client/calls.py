"""Calls outside a conversation: of tools, durably, and of models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, overload
from uuid import uuid4

from pentad.client.feed import patiently
from pentad.client.gateway import Rest
from pentad.client.inspection import path_of
from pentad.contracts.commands import ModelCompletion
from pentad.contracts.envelope import Contract
from pentad.contracts.runs import ToolRun
from pentad.errors import ModelCallFailed, ToolFailed

_WAIT_S = 20.0
"""Seconds that one request waits for the end: less than requests may last."""


class Tools:
    """Calls tools outside a conversation: durably, without a model. Everything raises ``ClientError``.

    ``user_id``: for whom tools are called, where a call names no other.
    """

    def __init__(self, rest: Rest, user_id: str | None, patience_s: float) -> None:
        self._rest, self._user, self._patience_s = rest, user_id, patience_s

    async def execute(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        *,
        call_id: str | None = None,
        user_id: str | None = None,
    ) -> str:
        """Call a tool and return its result: a text as it is, anything else as JSON. Arguments as of ``call``.

        Raises ``ToolFailed`` when the tool has failed, and ``NotFound`` for a tool that is not there.
        """
        run = await self.call(name, args, timeout, call_id=call_id, user_id=user_id)
        if run.status != "completed":
            raise ToolFailed(run)
        return run.result or ""

    async def call(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        *,
        call_id: str | None = None,
        user_id: str | None = None,
    ) -> ToolRun:
        """Call a tool, wait for the end, and tell all of it, a failed call too. Lost connections are made again.

        ``timeout``: seconds after which the call is given up, beside the tool's own limit. ``call_id``: asked for again
        under it within 24 hours, the call runs once and gives the same result. Cancelling this does not end the call.
        """
        named = call_id or _new_call_id()
        await self._rest.request("GET", "/")  # where nobody answers at all, that is told at once
        body = self._body(args, named, user_id, timeout) | {"wait": _WAIT_S}
        run = await self._asked("POST", path_of("tools", name, "call"), body=body)
        while not run.ended:
            run = await self._asked("GET", path_of("tools", "calls", named), wait=_WAIT_S)
        return run

    async def begin(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        *,
        call_id: str | None = None,
        user_id: str | None = None,
    ) -> ToolRun:
        """Ask for a call and return at once. Arguments as of ``call``; ``state`` says how far the call is."""
        body = self._body(args, call_id or _new_call_id(), user_id, timeout)
        return await self._asked("POST", path_of("tools", name, "call"), body=body)

    async def state(self, call_id: str) -> ToolRun:
        """Return how far a call is, with its result at the end. Raises ``NotFound`` for one that is not known."""
        return ToolRun.model_validate(await self._rest.call("GET", path_of("tools", "calls", call_id)))

    def _body(
        self, args: Mapping[str, Any] | None, call_id: str, user_id: str | None, timeout_s: float | None
    ) -> dict[str, Any]:
        asked = {"call_id": call_id, "user_id": user_id or self._user, "timeout": timeout_s}
        return {"args": dict(args or {})} | {name: value for name, value in asked.items() if value is not None}

    async def _asked(self, method: str, path: str, **asked: Any) -> ToolRun:
        """Ask until there is an answer: asked again with its ``call_id``, the call still runs once.

        Raises ``GatewayUnreachable`` and ``Busy`` when there was none for as long as this agent is patient.
        """
        found = await patiently(lambda: self._rest.call(method, path, **asked), self._patience_s)
        return ToolRun.model_validate(found)


class CompletionChunk(Contract):
    """A piece of a model's answer as it comes; the last piece has the whole answer."""

    content: str = ""
    thinking: str = ""
    completion: ModelCompletion | None = None
    """The whole answer; absent until it has ended."""

    @property
    def finished(self) -> bool:
        """Whether the answer has ended."""
        return self.completion is not None


_MODEL_S = 120.0
"""Seconds that a model call may take, where the caller names none."""
_SLACK_S = 10.0
"""Seconds that a gateway has to tell that the time is up."""


class Models:
    """Asks models outside a conversation. Nothing of it is kept. Everything raises ``ClientError``."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    @overload
    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        model: str = ...,
        tools: Sequence[str | Mapping[str, Any]] = ...,
        temperature: float | None = ...,
        max_tokens: int | None = ...,
        stream: Literal[False] = ...,
        timeout: float = ...,
    ) -> Coroutine[Any, Any, ModelCompletion]: ...

    @overload
    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        model: str = ...,
        tools: Sequence[str | Mapping[str, Any]] = ...,
        temperature: float | None = ...,
        max_tokens: int | None = ...,
        stream: Literal[True],
        timeout: float = ...,
    ) -> AsyncGenerator[CompletionChunk, None]: ...

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        model: str = "default",
        tools: Sequence[str | Mapping[str, Any]] = (),
        temperature: float | None = None,
        max_tokens: int | None = None,
        stream: bool = False,
        timeout: float = _MODEL_S,
    ) -> Coroutine[Any, Any, ModelCompletion] | AsyncGenerator[CompletionChunk, None]:
        """Ask a model once: ``await`` gives its whole answer, with ``stream`` ``async for`` its text as it comes.

        ``messages`` are in OpenAI chat form. ``tools``, in OpenAI form or names of registered ones, are offered and not
        run: the answer has ``tool_calls``. The call is not durable: it ends with its connection, and after a failure it
        may be made again. Raises ``ModelCallFailed`` when the model gave no answer, ``NotFound`` for an unknown model,
        ``Refused`` for what is no conversation.
        """
        asked = {"temperature": temperature, "max_tokens": max_tokens, "tools": [*tools] or None}
        body: dict[str, Any] = {"messages": [dict(message) for message in messages], "timeout": timeout}
        body |= {name: value for name, value in asked.items() if value is not None}
        path = path_of("models", model, "complete")
        return self._streamed(path, body) if stream else self._whole(path, body, timeout)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order: 256 texts and 1 MiB at most. The model is the configured one."""
        found = await self._rest.call("POST", path_of("embeddings"), body={"texts": [*texts]})
        vectors: list[list[float]] = found["vectors"]
        return vectors

    async def _whole(self, path: str, body: Mapping[str, Any], timeout_s: float) -> ModelCompletion:
        found = await self._rest.call("POST", path, body=body, timeout_s=timeout_s + _SLACK_S)
        return ModelCompletion.model_validate(found)

    async def _streamed(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[CompletionChunk, None]:
        async with aclosing(self._rest.events("POST", path, {**body, "stream": True})) as events:
            async for kind, data in events:
                if kind == "error":
                    raise ModelCallFailed(str(data.get("detail") or "the model gave no answer"))
                if kind == "completion":
                    yield CompletionChunk(completion=ModelCompletion.model_validate(data))
                    return
                if kind == "delta":
                    yield CompletionChunk.model_validate(data)
        raise ModelCallFailed("the gateway ended the connection before the answer was whole: ask again")


def _new_call_id() -> str:
    return f"c-{uuid4().hex}"
