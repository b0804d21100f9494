"""The webhooks that are followed: those of the registry, in each process, and those of one shard's turns and tasks."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pentad.contracts.webhooks import Webhook
from pentad.services.gateway.domain.webhooks import CallbackTurn, PushedTask
from pentad.services.gateway.webhooks.webhook_registry import read_kept
from pentad.shared.errors import DamagedError
from pentad.shared.keys import CALLBACK_TTL_S, SessionKeys, TaskKeys, callbacks
from pentad.shared.registries.registrations import REGISTERED_WEBHOOKS
from pentad.shared.store.store import Command, Store
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)
_say = ThrottledLog(log)
_PER_READ = 200
"""Callbacks that are read at once."""
LOOK_S = 60.0
"""Seconds between two looks at the tasks that are followed."""


class RegisteredWebhooks:
    """The webhooks of the registry, as they were read last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._of: Mapping[str, Sequence[Webhook]] = {}
        self.ids: frozenset[str] = frozenset()
        """Ids of all, those that get nothing any more included."""

    async def follow(self) -> None:
        """Follow the registry for ever."""
        await REGISTERED_WEBHOOKS.keep_following(self._store, self._use)

    def _use(self, entries: Sequence[Webhook]) -> None:
        found = defaultdict[str, list[Webhook]](list)
        for each in entries:
            if each.gone is None:
                found[each.tenant_id].append(each)
        self._of = found
        self.ids = frozenset(each.id for each in entries)

    def all(self) -> Sequence[Webhook]:
        """Return those to which events are sent."""
        return [each for of_tenant in self._of.values() for each in of_tenant]

    def of(self, tenant: str, session: str) -> Sequence[Webhook]:
        """Return those that get events of a session."""
        return [each for each in self._of.get(tenant, ()) if each.session_id in (None, session)]


class FollowedTurn:
    """A callback with its turn, which goes on; or with its task, for a client of A2A."""

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        self.is_gone = False
        """Whether the task is removed: nothing is to come but what its session has already."""
        self.restart()

    def restart(self) -> None:
        """Begin the turn anew, because what is known of it may be wrong."""
        push = self.webhook.push
        self.turn = CallbackTurn(self.webhook.message_id or "") if push is None else PushedTask(push.task_id)


class FollowedCallbacks:
    """The callbacks of turns that go on in one shard."""

    def __init__(self, store: Store, shard: int) -> None:
        self._store, self._shard = store, shard
        self._by_session: dict[str, dict[str, FollowedTurn]] = {}
        self._newest = "-inf"
        self._looked_at = float("-inf")
        """Loop time at which the tasks were looked at last."""

    def __bool__(self) -> bool:
        return bool(self._by_session)

    def clear(self) -> None:
        """Forget all, to read them again."""
        self._by_session.clear()
        self._newest = "-inf"

    def of(self, actor: str) -> Collection[FollowedTurn]:
        """Return the callbacks of a session that its actor names."""
        return tuple(self._by_session.get(actor, {}).values())

    async def read_new(self) -> list[str]:
        """Read the callbacks that have come, and return the actors of their sessions. Raises ``OutageError``."""
        actors: list[str] = []
        while True:
            command = (
                "ZRANGEBYSCORE",
                callbacks(self._shard),
                self._newest,
                "+inf",
                "WITHSCORES",
                "LIMIT",
                0,
                _PER_READ,
            )
            flat: list[Any] = await self._store.call(*command)
            if not flat:
                return actors
            found = await asyncio.gather(*(self._read(name.decode()) for name in flat[::2]))
            actors += [self._add(each, each.session_id) for each in found if each is not None and each.session_id]
            self._newest = f"({flat[-1].decode()}"

    async def _read(self, name: str) -> Webhook | None:
        """Return a callback; None for one that has expired, or that cannot be read here."""
        try:
            webhook = await read_kept(self._store, self._shard, name)
        except DamagedError as error:
            _say.error(name, "a callback is left as it is: %s", error)
            return None
        if webhook is None:
            await self._store.call("ZREM", callbacks(self._shard), name)
        return webhook

    def _add(self, webhook: Webhook, session: str) -> str:
        actor = SessionKeys(self._shard, webhook.tenant_id, session).actor
        of_session = self._by_session.setdefault(actor, {})
        known = of_session.get(webhook.id)
        if known is None or known.webhook != webhook:
            of_session[webhook.id] = FollowedTurn(webhook)
        return actor

    async def look(self) -> list[str]:
        """Look from time to time whether the tasks that are followed are still there, and keep what is known of them.

        Returns the actors of sessions of which one is gone: their last events are taken, then it is followed no more.
        Raises ``OutageError``.
        """
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < LOOK_S:
            return []
        self._looked_at = now
        if await self._store.call("ZCARD", callbacks(self._shard)) != sum(map(len, self._by_session.values())):
            self._newest = "-inf"  # some may have come behind what was read, by a clock that was set back
        pushed = [
            (actor, turn)
            for actor, of_session in self._by_session.items()
            for turn in of_session.values()
            if turn.webhook.push is not None
        ]
        gone: list[str] = []
        for first in range(0, len(pushed), _PER_READ):
            some = pushed[first : first + _PER_READ]
            for (actor, turn), (exists, known) in zip(some, await self._states(some), strict=True):
                if not known:
                    await self.end(actor, turn.webhook.id)
                elif not exists:
                    turn.is_gone = True
                    gone.append(actor)
        return gone

    async def _states(self, some: Sequence[tuple[str, FollowedTurn]]) -> list[tuple[bool, bool]]:
        """Return whether each task is there, and whether its updates are still wanted."""
        asked: list[Command] = [("EXPIRE", callbacks(self._shard), CALLBACK_TTL_S)]
        for _, turn in some:
            assert turn.webhook.push is not None
            keys = TaskKeys(self._shard, turn.webhook.tenant_id, turn.webhook.push.task_id)
            asked.append(("EXISTS", keys.header))
            asked.append(("HEXISTS", keys.push_configs, turn.webhook.id.rpartition(":")[2]))
        _, *found = await self._store.calls(asked)
        states = [(bool(exists), bool(known)) for exists, known in zip(found[::2], found[1::2], strict=True)]
        kept = [asked[number * 2 + 2][1] for number, state in enumerate(states) if all(state)]
        if kept:
            await self._store.calls([("EXPIRE", key, CALLBACK_TTL_S) for key in kept])
        return states

    async def end(self, actor: str, name: str) -> None:
        """Follow a callback no more. Raises ``OutageError``."""
        await self._store.call("ZREM", callbacks(self._shard), name)
        of_session = self._by_session.get(actor, {})
        of_session.pop(name, None)
        if not of_session:
            self._by_session.pop(actor, None)
