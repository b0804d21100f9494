"""The routes of model calls outside a conversation: one answer of a chat model, and vectors of texts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import to_json

from pentad.contracts.commands import ModelCallReply
from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import is_identifier, shard_of
from pentad.services.gateway.domain.completion import CompletionAsked, as_offered, completion_schema, read_completion
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.http import answer, answer_with_list, read_asked, tenant_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.edge.schemas import TEXT, gives, json_body, object_of, path, ref
from pentad.services.gateway.operator.model_calls import ModelCallClient, OpenModelCall
from pentad.services.gateway.operator.models import ModelRegistry
from pentad.services.gateway.tasks.event_stream import HEARTBEAT_S, STREAM_HEADERS, until_gone
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import MAX_REQUEST_TEXTS, Requester
from pentad.shared.errors import OutageError
from pentad.shared.event_loop import cancel_all
from pentad.shared.models.ports import ModelRefused, ModelUnavailable

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")
_STATUSES = {"refused": 422, "misconfigured": 502, "unavailable": 503, "cut_off": 502}
"""Status of a call without an answer, by the kind of its failure."""
_EMBED_SESSION = "embeddings"
"""Session that is named as the one which asks for vectors; their cache is the tenant's for such requests."""
_EMBED_BODY = object_of(texts={"type": "array", "items": TEXT, "minItems": 1, "maxItems": MAX_REQUEST_TEXTS}) | {
    "additionalProperties": False
}
_VECTOR = {"type": "array", "items": {"type": "number"}}


class CompletionRoutes:
    """Routes of models for everybody with a key of a tenant. Nothing of such a call is kept."""

    def __init__(
        self,
        calls: ModelCallClient,
        models: ModelRegistry,
        queries: Queries,
        embedder: Embedder,
        closing: asyncio.Event,
        shards: int,
    ) -> None:
        """``closing`` is set when the gateway stops."""
        self._calls, self._models, self._queries, self._embedder = calls, models, queries, embedder
        self._closing, self._shards = closing, shards

    @operation(
        "POST",
        "/v1/models/{model}/complete",
        "Ask a model once with messages of your own; `default` is the default model. Tools are offered and not run. "
        "With `stream`, server-sent events: `delta` with the text as it comes, at last `completion` or `error`. The "
        "call is not durable: it ends with its connection",
        path("model"),
        body=json_body(completion_schema()),
        problems=(400, 404, 413, 415, 422, 429, 502, 504),
        _200=gives("the whole answer", ref("ModelCompletion")),
    )
    async def complete(self, request: "Request") -> "Response | CompletionStream":
        """Return the model's whole answer, or its text as it comes to clients that want it so."""
        tenant, model_id = tenant_of(request), str(request.path_params["model"])
        asked = await read_asked(request, read_completion)
        if not is_identifier(model_id):
            raise missing("there is no such model")
        model = await self._models.of_kind("llm", model_id)
        tools = await self._offered(asked)
        async with AsyncExitStack() as stack:
            call = await stack.enter_async_context(self._calls.opened(tenant, model, asked, tools))
            if not asked.stream:
                last = await unless_gone(request, self._within(call.last(), asked.timeout_s))
                return answer(completion_of(last).model_dump(mode="json", exclude_none=True))
            first = well_begun(await unless_gone(request, self._within(call.read(), asked.timeout_s)))
            return CompletionStream(self._closing, call, first, asked.timeout_s, stack.pop_all())

    @operation(
        "POST",
        "/v1/embeddings",
        "Vectors of texts by the embedding model that is configured, in order",
        body=json_body(_EMBED_BODY),
        problems=(400, 413, 415, 422, 502),
        _200=gives("", object_of(model=TEXT, vectors={"type": "array", "items": _VECTOR})),
    )
    async def embed(self, request: "Request") -> "Response":
        """Return one vector per text, and the name of the model that made them."""
        tenant = tenant_of(request)
        texts = await read_asked(request, _read_texts)
        shard = shard_of(tenant, _EMBED_SESSION, self._shards)
        try:
            found = await self._embedder.embed(texts, Requester(shard, tenant, _EMBED_SESSION))
        except ModelRefused as error:
            raise ProblemError(422, str(error), ErrorCode.MODEL_ERROR) from None
        except ModelUnavailable as error:
            raise ProblemError(503, str(error), ErrorCode.MODEL_ERROR, error.retry_after or 1.0) from None
        return await answer_with_list({"model": found.model}, "vectors", found.vectors)

    async def _offered(self, asked: CompletionAsked) -> list[dict[str, Any]]:
        """Return the tools of a request in OpenAI form. Raises ``ProblemError`` (422) for a name that nobody has."""
        if not asked.named_tools:
            return [tool for tool in asked.tools if not isinstance(tool, str)]
        known = await self._queries.tool_specs()
        if unknown := [name for name in asked.named_tools if name not in known]:
            raise invalid(f"tools: there is no tool {unknown[0]}; see GET /v1/tools")
        return [as_offered(known[tool]) if isinstance(tool, str) else tool for tool in asked.tools]

    async def _within(self, reading: Awaitable[T], timeout_s: float) -> T:
        """Wait for a reply. Raises ``ProblemError`` when the time is up, and when the gateway stops."""
        return await until_closing(self._closing, in_time_for(reading, timeout_s))


class CompletionStream:
    """The response: an ASGI app that lasts until the answer has ended, the client leaves, or the gateway stops."""

    def __init__(
        self,
        closing: asyncio.Event,
        call: OpenModelCall,
        first: ModelCallReply,
        timeout_s: float,
        stack: AsyncExitStack,
    ) -> None:
        """``first``: the first reply; ``stack`` ends the call."""
        self._closing, self._call, self._first, self._stack = closing, call, first, stack
        self._until = asyncio.get_running_loop().time() + timeout_s

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        tasks = {
            asyncio.create_task(self._write(send)),
            asyncio.create_task(until_gone(receive)),
            asyncio.create_task(self._closing.wait()),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(tasks)
            await self._stack.aclose()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OSError):
                raise error
        await send({"type": "http.response.body", "body": b""})

    async def _write(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        async for block in self._blocks():
            await send({"type": "http.response.body", "body": block, "more_body": True})

    async def _blocks(self) -> AsyncIterator[bytes]:
        reply = self._first
        while True:
            said = {"content": reply.content, "thinking": reply.thinking}
            if delta := {name: text for name, text in said.items() if text}:
                yield _event("delta", delta)
            if reply.is_last:
                yield _end_of(reply)
                return
            reading = asyncio.ensure_future(self._call.read())
            try:
                while not reading.done():
                    left_s = self._until - asyncio.get_running_loop().time()
                    if left_s <= 0:
                        yield _problem_event(too_late())
                        return
                    await asyncio.wait({reading}, timeout=min(HEARTBEAT_S, left_s))
                    if not reading.done():
                        yield b": alive\n\n"
                reply = reading.result()
            except OutageError as error:
                yield _problem_event(ProblemError(503, str(error), ErrorCode.MODEL_ERROR))
                return
            finally:
                reading.cancel()


def _read_texts(body: Mapping[str, Any]) -> list[str]:
    texts = body.get("texts")
    if set(body) != {"texts"} or not isinstance(texts, list) or not texts or len(texts) > MAX_REQUEST_TEXTS:
        raise UnreadableError(f'a body of the form {{"texts": [...]}} is expected, with 1 to {MAX_REQUEST_TEXTS} texts')
    if not all(isinstance(text, str) for text in texts):
        raise UnreadableError("texts: each must be a text")
    return texts


def completion_of(reply: ModelCallReply) -> Any:
    """Return the answer in a last reply. Raises ``ProblemError`` for a failure."""
    if reply.completion is None:
        raise problem_of_reply(reply)
    return reply.completion


def well_begun(reply: ModelCallReply) -> ModelCallReply:
    """Return a first reply. Raises ``ProblemError`` for a failure: as long as nothing is sent it may have a status."""
    if reply.error is not None and not reply.content and not reply.thinking:
        raise problem_of_reply(reply)
    return reply


def problem_of_reply(reply: ModelCallReply) -> ProblemError:
    status = _STATUSES[reply.failure or "cut_off"]
    retry_after = (reply.retry_after or 1.0) if reply.failure == "unavailable" else None
    return ProblemError(status, reply.error or "there is no answer", ErrorCode.MODEL_ERROR, retry_after)


def too_late() -> ProblemError:
    return ProblemError(
        504, "there was no answer in time: raise `timeout`, or see that a task-runner runs", ErrorCode.MODEL_ERROR
    )


def _end_of(reply: ModelCallReply) -> bytes:
    if reply.completion is None:
        return _problem_event(problem_of_reply(reply))
    return _event("completion", reply.completion.model_dump(mode="json", exclude_none=True))


def _problem_event(problem: ProblemError) -> bytes:
    return b"event: error\ndata: %b\n\n" % problem.body()


def _event(kind: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), to_json(data))


async def in_time_for(reading: Awaitable[T], timeout_s: float) -> T:
    try:
        async with asyncio.timeout(timeout_s):
            return await reading
    except TimeoutError:
        raise too_late() from None


async def until_closing(closing: asyncio.Event, reading: Awaitable[T]) -> T:
    """Wait for a reply, unless the gateway stops. Raises ``ProblemError`` (503)."""
    stopped = ProblemError(503, "the gateway stops: ask again", ErrorCode.BUSY, 1.0)
    return await _first_of(reading, closing.wait(), stopped)


async def unless_gone(request: "Request", reading: Awaitable[T]) -> T:
    """Wait for a reply, unless the client goes away. Raises ``ProblemError``, which nobody reads."""
    return await _first_of(reading, until_gone(request.receive), ProblemError(400, "the client has left"))


async def _first_of(reading: Awaitable[T], end: Awaitable[object], problem: ProblemError) -> T:
    wanted, ending = asyncio.ensure_future(reading), asyncio.ensure_future(end)
    try:
        await asyncio.wait({wanted, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise problem
        return wanted.result()
    finally:
        await cancel_all([task for task in (wanted, ending) if isinstance(task, asyncio.Task)])
