"""Serving wake-ups: none is just set aside, for its actor gets no other while its header names this one as current."""

import logging
from abc import abstractmethod
from typing import Generic, TypeVar

from pydantic_core import from_json

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import is_identifier
from pentad.contracts.streams import DEAD, DeadLetter
from pentad.shared.actors.actors import Actors, LeaseKeeper, Taken, count_wake_ups
from pentad.shared.errors import OutageError, PoisonError
from pentad.shared.keys import SessionKeys, TaskKeys, actor_parts
from pentad.shared.store.store import Argument
from pentad.shared.work.entry import Entry
from pentad.shared.work.handler import Handler, SetAside

log = logging.getLogger(__name__)
K = TypeVar("K", SessionKeys, TaskKeys)


class WakeUps(Handler, Generic[K]):
    """A handler of one shard's wake-ups. What fails is a message's matter or the actor's: it is ended, visibly."""

    def __init__(self, actors: Actors, keeper: LeaseKeeper, shard: int) -> None:
        self._actors, self._keeper, self._shard = actors, keeper, shard

    @abstractmethod
    def keys_of(self, tenant: str, name: str) -> K:
        """The keys of one of this shard's actors."""

    def woken(self, entry: Entry) -> K:
        """The actor that an entry wakes. Raises ``PoisonError``."""
        try:
            return self.keys_of(*actor_parts(entry.parse(WakeUp).actor))
        except ValueError as error:
            raise PoisonError(str(error)) from None

    @abstractmethod
    async def give_up(self, keys: K, taken: Taken, reason: str) -> None:
        """Set aside what this actor cannot be served with, or end it, in a commit."""

    async def hand_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            await self._actors.release(self.woken(entry), entry.id)

    async def set_aside(self, entry: Entry, letter: DeadLetter) -> SetAside:
        keys = self._named(entry.data)
        if keys is None:
            return SetAside.NOTHING  # no header names it
        readable = self._is_readable(entry)
        if readable and await self._given_up(keys, entry, letter.reason):
            return SetAside.ENDED
        names = [entry.stream, DEAD.key(self._shard), keys.header]
        args: list[Argument] = [keys.group, entry.id, letter.to_json(), keys.actor, "" if readable else "1"]
        done, woken = await self._actors.store.run("wake_set_aside", names, args)
        count_wake_ups(keys.stream, woken)
        return SetAside.BURIED if done else SetAside.NOTHING

    async def _given_up(self, keys: K, entry: Entry, reason: str) -> bool:
        try:
            taken = await self._actors.take(keys, entry.id)
            if taken is None:
                return False
            with self._keeper.hold(keys, taken.lease):
                await self.give_up(keys, taken, reason)
        except OutageError:
            raise
        except Exception:
            log.exception("%s cannot even be ended", keys.actor)
            return False
        return True

    def _named(self, data: bytes) -> K | None:
        """The actor that an entry names, also when it cannot be read otherwise."""
        try:
            tenant, name = actor_parts(str(from_json(data)["actor"]))
        except (ValueError, TypeError, KeyError):
            return None
        return self.keys_of(tenant, name) if is_identifier(tenant) and is_identifier(name) else None

    def _is_readable(self, entry: Entry) -> bool:
        try:
            self.woken(entry)
        except PoisonError:
            return False
        return True
