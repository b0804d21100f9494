"""Serving wake-ups: none is just set aside, for its actor gets no other while its header names this one as current."""

import asyncio
import logging
from abc import abstractmethod
from typing import ClassVar, Generic, TypeVar

from pydantic_core import from_json

from pentad.contracts.commands import WakeUp
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.streams import DEAD
from pentad.shared import metrics
from pentad.shared.actors.actors import Actors, Taken, count_wake_ups
from pentad.shared.actors.leases import Held, LeaseKeeper
from pentad.shared.errors import DamagedError, OutageError, PoisonError
from pentad.shared.keys import SessionKeys, TaskKeys, actor_parts
from pentad.shared.passing_failures import passes
from pentad.shared.store.store import Argument
from pentad.shared.work.entry import Done, Entry, reason_of
from pentad.shared.work.handler import MAX_STARTS, Handler, SetAside

log = logging.getLogger(__name__)
_BACKOFF_S = 0.2
K = TypeVar("K", SessionKeys, TaskKeys)


class WakeUps(Handler, Generic[K]):
    """One handling of an actor: take it, hold it, serve it. What fails backs off and is counted, then it is given up.

    A service brings what is its own: `serve`, `give_up`, and what its actors are called.
    """

    failing: ClassVar[str]
    """The type of the failing work, for the metrics."""

    def __init__(self, actors: Actors, keeper: LeaseKeeper, shard: int, max_attempts: int) -> None:
        self._actors, self._keeper, self._shard, self._max_attempts = actors, keeper, shard, max_attempts

    @abstractmethod
    def keys_of(self, tenant: str, name: str) -> K:
        """The keys of one of this shard's actors. Raises ``ValueError`` for a name that none of them can have."""

    @abstractmethod
    async def serve(self, keys: K, taken: Taken, held: Held) -> None:
        """Do what the actor's mail asks for, and commit. ``DamagedError``: trying again is no use."""

    @abstractmethod
    async def give_up(self, keys: K, taken: Taken, reason: str, attempts: int) -> None:
        """Set aside what this actor cannot be served with, or end it. ``attempts``: how often it was tried.

        A start that has ended without an outcome counts as one.
        """

    def read_from(self, keys: K) -> int | None:
        """The position from which the actor's transcript is read; None reads none of it."""
        return None

    async def wait(self, keys: K, taken: Taken, error: OutageError) -> None:
        """A store does not answer. Raising it leaves the wake-up with this worker, which goes on when Redis answers."""
        raise error

    async def handle(self, entry: Entry) -> Done:
        keys = self.woken(entry)
        taken = await self._actors.take(keys, entry.id, self.read_from(keys))
        if taken is None:
            return Done.LEFT
        with self._keeper.hold(keys, taken.lease) as held:
            if taken.lease.starts > MAX_STARTS:
                await self.give_up(keys, taken, f"{MAX_STARTS} starts ended without an outcome", MAX_STARTS)
            else:
                await self._attempts(keys, taken, held)
        return Done.COMMITTED

    async def _attempts(self, keys: K, taken: Taken, held: Held) -> None:
        for attempt in range(1, self._max_attempts + 1):
            try:
                await self.serve(keys, taken, held)
            except OutageError as error:
                await self.wait(keys, taken, error)
                return
            except Exception as error:
                if passes(error):
                    await self.wait(keys, taken, OutageError(str(error)))
                    return
                metrics.failed.labels(keys.stream.name, self.failing).inc()
                if not isinstance(error, DamagedError):
                    self.breaker.failed(keys.actor, reason_of(error))
                    if self.breaker.open:
                        await self._actors.release(keys, taken.lease.wake_id, taken.lease.token)
                        return
                log.exception("serving %s failed (attempt %d)", keys.actor, attempt)
                if attempt == self._max_attempts or isinstance(error, DamagedError):
                    await self.give_up(keys, taken, reason_of(error), taken.lease.starts - 1 + attempt)
                    return
                await asyncio.sleep(_BACKOFF_S * 2**attempt)
            else:
                self.breaker.succeeded()
                return

    def woken(self, entry: Entry) -> K:
        """The actor that an entry wakes. Raises ``PoisonError``."""
        try:
            return self.keys_of(*actor_parts(entry.parse(WakeUp).actor))
        except ValueError as error:
            raise PoisonError(str(error)) from None

    async def hand_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            await self._actors.release(self.woken(entry), entry.id)

    async def set_aside(self, entry: Entry, letter: DeadLetter) -> SetAside:
        keys = self._named(entry.data)
        if keys is None:
            return SetAside.NOTHING  # no header names it
        readable = self._is_readable(entry)
        if readable and await self._given_up(keys, entry, letter):
            return SetAside.ENDED
        names = [entry.stream, DEAD.key(self._shard), keys.header]
        args: list[Argument] = [keys.group, entry.id, letter.to_json(), keys.actor, "" if readable else "1"]
        done, woken = await self._actors.store.run("wake_set_aside", names, args)
        count_wake_ups(keys.stream, woken)
        return SetAside.BURIED if done else SetAside.NOTHING

    async def _given_up(self, keys: K, entry: Entry, letter: DeadLetter) -> bool:
        try:
            taken = await self._actors.take(keys, entry.id)
            if taken is None:
                return False
            with self._keeper.hold(keys, taken.lease):
                await self.give_up(keys, taken, letter.reason, letter.attempts)
        except OutageError:
            raise
        except Exception:
            log.exception("%s cannot even be ended", keys.actor)
            return False
        return True

    def _named(self, data: bytes) -> K | None:
        """The actor that an entry names, also when it cannot be read otherwise."""
        try:
            return self.keys_of(*actor_parts(str(from_json(data)["actor"])))
        except (ValueError, TypeError, KeyError):
            return None

    def _is_readable(self, entry: Entry) -> bool:
        try:
            self.woken(entry)
        except PoisonError:
            return False
        return True
