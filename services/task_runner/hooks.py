"""The hooks that there are, as one task-runner sees them, and its requests to the tool-workers that run them."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from pydantic import ValidationError

from pentad.contracts.hooks import (
    MAX_HOOKED_BYTES,
    MAX_SUBJECT_BYTES,
    HookCommand,
    HookFacts,
    HookKind,
    HookReply,
    HookSpec,
)
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import HOOKS as HOOK_CALLS
from pentad.contracts.streams import HOOKS_REPLY
from pentad.shared import metrics
from pentad.shared.errors import OutageError, PentadError
from pentad.shared.keys import DAY_S
from pentad.shared.presence.published import HOOKS
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Store, guarded
from pentad.shared.work.replies import Replies

_EVERY_S = 1.0
_START_S = 10.0
"""Seconds beside its own time in which a hook must have an outcome: a process for it may have to be started."""
_MAX_REPLY_BYTES = 2 * MAX_HOOKED_BYTES + 65_536
"""Bytes of a reply: its value is JSON within JSON."""
_TOLD_FOR_MS = DAY_S * 1000
"""Milliseconds for which the end of a task waits for a tool-worker that has the hook."""


class HookFailedError(PentadError):
    """A hook has no outcome: the step fails, for a hook is never skipped."""


class HookCatalog:
    """The hooks that tool-workers publish: read beside the work, so that a step asks Redis for nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hooks: Mapping[HookKind, Sequence[HookSpec]] = MappingProxyType({})
        self.silent: frozenset[str] = frozenset()
        """Hooks that no living tool-worker has."""

    def of(self, kind: HookKind, names: frozenset[str] | None) -> Sequence[HookSpec]:
        """Return the hooks of a kind that concern a step, in their order. ``names``: see `HookSpec.concerns`."""
        hooks = self._hooks.get(kind)
        return [hook for hook in hooks if hook.concerns(names)] if hooks else ()

    async def read(self) -> None:
        """Read what is published now. Raises ``OutageError``."""
        raw = await HOOKS.fetch(self._store)
        if not raw:
            self._hooks, self.silent = MappingProxyType({}), frozenset()
            return
        now = await self._store.clock()
        found = HOOKS.beats(raw, now)
        self.silent = frozenset(name for name, each in found.items() if not each.alive(now))
        hooks: dict[HookKind, list[HookSpec]] = {}
        for each in sorted(found.values(), key=lambda each: (each.item.order, each.item.name)):
            hooks.setdefault(each.item.kind, []).append(each.item)
        self._hooks = hooks

    async def follow(self) -> None:
        """Read what has changed, for ever."""
        while True:
            await guarded("hooks", self.read)
            await asyncio.sleep(_EVERY_S)


def told_at_end(hook: HookSpec, facts: HookFacts, subject: str, now: int) -> HookCommand:
    """Return the entry that tells a hook of a task's end. ``now``: in ms of the server's clock."""
    return _command(hook, facts, subject, now, _TOLD_FOR_MS)


class HookCalls:
    """Asks for any number of hooks at once, over one stream of outcomes for each shard."""

    def __init__(self, store: Store, catalog: HookCatalog) -> None:
        self._store, self.catalog = store, catalog
        self._replies: dict[int, Replies[HookReply]] = {}

    async def run(self, hook: HookSpec, shard: int, facts: HookFacts, subject: str) -> str | None:
        """Return what a hook made of the subject, as JSON; None: it leaves it as it is.

        Raises ``HookFailedError`` with the reason why there is no outcome, and ``OutageError`` when Redis went away.
        """
        size = len(subject.encode())
        if size > MAX_SUBJECT_BYTES:
            raise HookFailedError(
                f"hook {hook.name!r} can be given {MAX_SUBJECT_BYTES:,} bytes at most, and this has {size:,}"
            )
        if hook.name in self.catalog.silent:
            raise HookFailedError(
                f"no tool-worker has hook {hook.name!r} any more: start one whose PENTAD_PLUGINS names its module"
            )
        limit_s = 2 * hook.timeout + _START_S
        request, replies, sent = "", self._heard_in(shard), b""
        now = await guarded("clock", self._store.clock)
        command = _command(hook, facts, subject, now, round(limit_s * 1000))
        request = command.request_id
        key, answer = replies.expect(request)
        stream = HOOK_CALLS.key(shard)
        try:
            data = command.model_copy(update={"reply_to": key}).to_json()
            sent = await self._store.call("XADD", stream, "*", "data", data)
            metrics.published.labels(HOOK_CALLS.name, HookCommand.__name__).inc()
            async with asyncio.timeout(limit_s):
                reply = await answer
        except TimeoutError:
            raise HookFailedError(
                f"hook {hook.name!r} has no outcome after {limit_s:g} s: no tool-worker that has it is free"
            ) from None
        finally:
            replies.forget(request)
            if sent and not (answer.done() and not answer.cancelled()):
                with suppress(OutageError):
                    self._store.send("XDEL", stream, sent)
        if reply.error is not None:
            raise HookFailedError(reply.error)
        return reply.value

    async def aclose(self) -> None:
        """Close the connections; who waits for an outcome gets ``OutageError``."""
        replies, self._replies = self._replies, {}
        await asyncio.gather(*(each.aclose() for each in replies.values()))

    def _heard_in(self, shard: int) -> Replies[HookReply]:
        replies = self._replies.get(shard)
        if replies is None:
            replies = self._replies[shard] = Replies(self._store, HOOKS_REPLY, shard, _read, _unheard)
        return replies


def _command(hook: HookSpec, facts: HookFacts, subject: str, now: int, wait_ms: int) -> HookCommand:
    return HookCommand(
        request_id=random_hex(32),
        at=rfc3339(now),
        wait_ms=wait_ms,
        hook=hook.name,
        kind=hook.kind,
        timeout=hook.timeout,
        tenant_id=facts.tenant_id,
        facts=facts,
        subject=subject,
    )


def _read(data: bytes) -> tuple[str, HookReply] | None:
    if len(data) > _MAX_REPLY_BYTES:
        return None
    try:
        reply = HookReply.model_validate_json(data)
    except ValidationError:
        return None
    return reply.request_id, reply


def _unheard(why: str) -> OutageError:
    return OutageError(f"the outcome of a hook cannot be heard: {why}")
