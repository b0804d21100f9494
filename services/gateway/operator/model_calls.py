"""Model calls outside a conversation, asked of a task-runner over Redis: only task-runners have the models' keys."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic import ValidationError

from pentad.contracts.commands import ModelCallCommand, ModelCallReply
from pentad.contracts.ids import rfc3339, shard_of
from pentad.contracts.streams import MODEL_CALLS, MODEL_CALLS_REPLY
from pentad.services.gateway.domain.completion import CompletionAsked
from pentad.services.gateway.edge.problems import busy
from pentad.shared import metrics
from pentad.shared.errors import OutageError
from pentad.shared.event_loop import cancel_all
from pentad.shared.keys import model_call_wanted
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Store
from pentad.shared.work.replies import Replies

_MOST_WAITING = 512
"""Calls of one shard that one gateway may have under way."""
_MOST_REPLY_BYTES = 16 << 20
WANTED_S = 10
"""Seconds for which a call goes on whose gateway was killed."""
_RENEW_S = 2.0


class OpenModelCall:
    """A model call under way. `read` gives the text as it comes, at last the reply that ends the call."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._content: list[str] = []
        self._thinking: list[str] = []
        self._last: ModelCallReply | None = None
        self._error: Exception | None = None

    def hear(self, reply: ModelCallReply) -> bool:
        """Take a reply, and return whether it is the last."""
        self._content.append(reply.content)
        self._thinking.append(reply.thinking)
        if reply.is_last:
            self._last = reply
        self._news.set()
        return reply.is_last

    def fail(self, error: Exception) -> None:
        """End the call: no reply can come any more."""
        self._error = error
        self._news.set()

    async def has_news(self, seconds: float) -> bool:
        """Wait so long for something to read, and return whether there is something."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def read(self) -> ModelCallReply:
        """Return what has come since the last time, joined. Raises ``OutageError`` where no reply can come."""
        await self._news.wait()
        if self._last is None and self._error is not None:
            raise self._error
        self._news.clear()
        content, thinking = "".join(self._content), "".join(self._thinking)
        self._content, self._thinking = [], []
        if self._last is not None:
            self._news.set()
            return self._last.model_copy(update={"content": content, "thinking": thinking})
        return ModelCallReply(request_id="", content=content, thinking=thinking)

    async def last(self) -> ModelCallReply:
        """Return the last reply. Raises ``OutageError``."""
        while True:
            reply = await self.read()
            if reply.is_last:
                return reply


class ModelCallClient:
    """Asks for any number of model calls at once, over one stream of answers for each shard."""

    def __init__(self, store: Store, shards: int) -> None:
        self._store, self._shards = store, shards
        self._replies: dict[int, Replies[ModelCallReply]] = {}

    @asynccontextmanager
    async def opened(
        self, tenant: str, model: str | None, asked: CompletionAsked, tools: Sequence[dict[str, Any]]
    ) -> AsyncIterator[OpenModelCall]:
        """A call, for as long as the block lasts; leaving it ends the call. Raises ``ProblemError``, ``OutageError``.

        ``tools``: those of the request, all in OpenAI form.
        """
        request = random_hex(32)
        shard = shard_of(tenant, request, self._shards)
        replies, wanted, stream = self._heard_in(shard), model_call_wanted(shard, request), MODEL_CALLS.key(shard)
        call = OpenModelCall()
        key, answer = replies.expect(request, call.hear)
        answer.add_done_callback(lambda done: _pass_on(done, call))
        sending = keeping = None
        try:
            command = ModelCallCommand(
                request_id=request,
                at=rfc3339(await self._store.clock()),
                wait_ms=max(1, round(asked.timeout_s * 1000)),
                tenant_id=tenant,
                model=model,
                messages=asked.messages,
                tools=list(tools) or None,
                temperature=asked.temperature,
                max_tokens=asked.max_tokens,
                stream=asked.stream,
                reply_to=key,
            )
            await self._store.call("SET", wanted, 1, "EX", WANTED_S)
            sending = asyncio.ensure_future(self._store.call("XADD", stream, "*", "data", command.to_json()))
            await asyncio.shield(sending)
            metrics.published.labels(MODEL_CALLS.name, ModelCallCommand.__name__).inc()
            keeping = asyncio.create_task(self._keep(wanted), name=f"model-call-{request[:8]}")
            yield call
        finally:
            replies.forget(request)
            if keeping is not None:
                await cancel_all([keeping])
            self._store.send("DEL", wanted)
            if sending is not None:
                sending.add_done_callback(lambda sent: self._take_back(stream, sent))

    async def aclose(self) -> None:
        """Close the connections; who waits for an answer gets ``OutageError``."""
        replies, self._replies = self._replies, {}
        await asyncio.gather(*(each.aclose() for each in replies.values()))

    async def _keep(self, wanted: str) -> None:
        """Say again and again that the answer is waited for."""
        while True:
            await asyncio.sleep(_RENEW_S)
            self._store.send("SET", wanted, 1, "EX", WANTED_S)

    def _take_back(self, stream: str, sent: "asyncio.Future[bytes]") -> None:
        if not sent.cancelled() and sent.exception() is None:
            self._store.send("XDEL", stream, sent.result())

    def _heard_in(self, shard: int) -> Replies[ModelCallReply]:
        replies = self._replies.get(shard)
        if replies is None:
            replies = self._replies[shard] = Replies(self._store, MODEL_CALLS_REPLY, shard, _read, _unheard)
        if replies.waiting >= _MOST_WAITING:
            raise busy(f"{_MOST_WAITING} model calls are under way here: try again shortly")
        return replies


def _read(data: bytes) -> tuple[str, ModelCallReply] | None:
    if len(data) > _MOST_REPLY_BYTES:
        return None
    try:
        reply = ModelCallReply.model_validate_json(data)
    except ValidationError:
        return None
    return reply.request_id, reply


def _unheard(why: str) -> OutageError:
    return OutageError(f"the answer of a model cannot be heard: {why}")


def _pass_on(done: "asyncio.Future[ModelCallReply]", call: OpenModelCall) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        call.fail(error if isinstance(error, Exception) else OutageError(str(error)))
