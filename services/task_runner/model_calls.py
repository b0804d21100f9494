"""Model calls outside a conversation: one answer for one caller, over the caller's reply stream. Nothing is kept."""

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Any, Literal

from pydantic_core import to_json

from pentad.contracts.commands import ModelCallCommand, ModelCallReply, ModelCallUsage, ModelCompletion
from pentad.contracts.ids import milliseconds
from pentad.contracts.streams import MODEL_CALLS_REPLY, split_key
from pentad.shared import metrics
from pentad.shared.errors import OutageError, PoisonError
from pentad.shared.event_loop import cancel_all
from pentad.shared.keys import model_call_wanted
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import (
    ChatRequest,
    ModelAnswer,
    ModelBusy,
    ModelCutOff,
    ModelFailed,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
)
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from pentad.shared.work.tenant_turns import TenantTurns

CALLS_AT_ONCE = 128
"""Calls of one shard that are read at once; those of one tenant beyond its share wait for their turn."""
_CALLS_PER_TENANT = 32
MOST_REQUEST_BYTES = 4 << 20
"""Bytes of a request: a body of the gateway with its tools."""
MOST_REPLY_BYTES = 16 << 20
_MOST_TEXT = 4 * 1024 * 1024
"""Characters that one answer may have, thoughts included."""
_REPLY_TTL_S = 60
_LEARN_S, _LEARN_EVERY_S = 10.0, 0.05
"""Seconds that a call waits for a model that this process does not know yet, and between two looks."""
_LOOK_EVERY_S = 0.5
"""Seconds between two looks whether the caller still waits."""
_LOST = "the task-runner that made this call has ended in the middle of it, and a model call is not repeated: ask again"
_KINDS: tuple[tuple[type[ModelFailed], Literal["refused", "misconfigured", "unavailable", "cut_off"]], ...] = (
    (ModelMisconfigured, "misconfigured"),
    (ModelRefused, "refused"),
    (ModelUnavailable, "unavailable"),
    (ModelCutOff, "cut_off"),
)


class ModelCalls:
    """Answers each call once, for as long as somebody waits for it."""

    def __init__(self, store: Store, models: ModelPool, coalesce_ms: int) -> None:
        self._store, self._models, self._coalesce_s = store, models, coalesce_ms / 1000
        self._turns = TenantTurns(_CALLS_PER_TENANT, CALLS_AT_ONCE)

    async def handle(self, entry: Entry) -> None:
        """Ask the model, unless nobody waits for the answer any more."""
        if len(entry.data) > MOST_REQUEST_BYTES:
            raise PoisonError(f"a model call of {len(entry.data)} bytes: {MOST_REQUEST_BYTES} at most")
        command = entry.parse(ModelCallCommand)
        place = split_key(entry.stream)
        shard = place[0] if place else 0
        if not command.reply_to.startswith(MODEL_CALLS_REPLY.key(shard, reply="")):
            raise PoisonError(f"reply_to must be a reply stream of this shard, not {command.reply_to!r}")
        if entry.redelivered:
            await self._reply(command, error=_LOST, failure="unavailable")
            return
        wanted = model_call_wanted(shard, command.request_id)
        async with self._turns.turn(command.tenant_id):
            left_ms = milliseconds(command.at) + command.wait_ms - await self._store.clock()
            if left_ms > 0 and await self._is_wanted(wanted):
                await self._answer(command, wanted, left_ms / 1000)

    async def _answer(self, command: ModelCallCommand, wanted: str, left_s: float) -> None:
        """Ask until there is an answer, the caller has left or this process stops."""
        pieces = _Pieces()
        asking = asyncio.create_task(self._ask(command, pieces, left_s))
        beside = [asyncio.create_task(self._until_unwanted(wanted))]
        if command.stream:
            beside.append(asyncio.create_task(self._tell(command, pieces)))
        try:
            done, _ = await asyncio.wait([asking, beside[0]], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await cancel_all([asking, *beside])
            if pieces.told:  # another task-runner would begin the text anew
                with suppress(OutageError):
                    await self._reply(command, error=_LOST, failure="unavailable")
            raise
        async with pieces.sending:
            await cancel_all([*beside, *({asking} - done)])
        if asking in done:
            content, thinking = pieces.collect() if command.stream else ("", "")
            # In an outage nobody is told: the caller's own limit ends its waiting, and a second answer helps nobody.
            with suppress(OutageError):
                await self._reply(command, content=content, thinking=thinking, **_told(asking.result()))

    async def _ask(self, command: ModelCallCommand, pieces: "_Pieces", left_s: float) -> ModelAnswer | ModelFailed:
        """Return the model's answer. Where it has no place free, the call waits in line."""
        until = monotonic() + left_s
        await self._learned(command.model, min(until, monotonic() + _LEARN_S))
        while True:
            request = ChatRequest(
                messages=[to_json(message) for message in command.messages],
                tools=to_json(command.tools) if command.tools else None,
                timeout_s=max(1.0, until - monotonic()),
                caller=command.request_id,
                temperature=command.temperature,
                max_tokens=command.max_tokens,
                teaches=False,
            )
            answer = await self._models.ask(command.model, request, pieces.add)
            pause_s = answer.retry_after or 0.0 if isinstance(answer, ModelBusy) else None
            if pause_s is None or monotonic() + pause_s >= until:
                return answer
            await asyncio.sleep(pause_s)

    async def _learned(self, model_id: str | None, until: float) -> None:
        """Wait until this process knows a model: the gateway knows it, perhaps since a moment ago."""
        while not self._models.knows(model_id) and monotonic() < until:
            await asyncio.sleep(_LEARN_EVERY_S)

    async def _tell(self, command: ModelCallCommand, pieces: "_Pieces") -> None:
        """Send the text as it comes, joined for some milliseconds."""
        while True:
            await pieces.news.wait()
            await asyncio.sleep(self._coalesce_s)
            async with pieces.sending:
                content, thinking = pieces.collect()
                pieces.told = True
                with suppress(OutageError):  # the last reply has all of it
                    await self._reply(command, content=content, thinking=thinking)

    async def _until_unwanted(self, wanted: str) -> None:
        there = True
        while there:
            await asyncio.sleep(_LOOK_EVERY_S)
            with suppress(OutageError):
                there = await self._is_wanted(wanted)

    async def _is_wanted(self, wanted: str) -> bool:
        return bool(await self._store.call("EXISTS", wanted))

    async def _reply(self, command: ModelCallCommand, **fields: Any) -> None:
        reply = ModelCallReply(request_id=command.request_id, **fields).to_json()
        if len(reply) > MOST_REPLY_BYTES:
            error = f"the answer has {len(reply)} bytes, and {MOST_REPLY_BYTES} at most are sent: ask for less"
            reply = ModelCallReply(request_id=command.request_id, error=error, failure="refused").to_json()
        await self._store.run("reply", [command.reply_to], [reply, _REPLY_TTL_S])
        metrics.published.labels(MODEL_CALLS_REPLY.name, ModelCallReply.__name__).inc()


class _Pieces:
    """Text of one answer that was not sent yet."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.sending = asyncio.Lock()
        """Held while a piece is sent, which is not to be broken off."""
        self.told = False
        """Whether some of the text was sent."""
        self._parts: dict[str, list[str]] = {"content": [], "thinking": []}
        self._size = 0

    def add(self, kind: Literal["content", "thinking"], text: str) -> None:
        """Take a piece. Raises ``ModelRefused`` for an answer without end."""
        self._size += len(text)
        if self._size > _MOST_TEXT:
            raise ModelRefused(f"the answer has more than {_MOST_TEXT} characters: ask for less")
        self._parts[kind].append(text)
        self.news.set()

    def collect(self) -> tuple[str, str]:
        """Return the text and the thoughts that have come since the last time."""
        content, thinking = "".join(self._parts["content"]), "".join(self._parts["thinking"])
        self._parts = {"content": [], "thinking": []}
        self.news.clear()
        return content, thinking


def _told(answer: ModelAnswer | ModelFailed) -> dict[str, Any]:
    """Return the outcome as fields of the last reply."""
    if isinstance(answer, ModelFailed):
        kind = next(word for failed, word in _KINDS if isinstance(answer, failed))
        return {"error": str(answer), "failure": kind, "retry_after": answer.retry_after}
    calls = [
        {
            "id": f"call-{random_hex(20)}",
            "type": "function",
            "function": {"name": draft.name, "arguments": draft.arguments},
        }
        for draft in answer.tool_calls
    ]
    used = answer.usage
    return {
        "completion": ModelCompletion(
            model=answer.model,
            model_id=answer.model_id or None,
            content=answer.text,
            thinking=answer.thinking,
            tool_calls=calls,
            finish_reason=answer.finish_reason,
            usage=ModelCallUsage(
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                usd=used.usd,
                cached_tokens=used.cached_tokens,
            ),
        )
    }
