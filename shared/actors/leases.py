"""Keeping leases: beats for all that a process holds, and the end of what has lost its lease or was told to stop."""

import asyncio
from typing import Any

from pentad.shared.actors.actors import Actors
from pentad.shared.actors.commit import ActorKeys
from pentad.shared.actors.headers import Lease
from pentad.shared.errors import OutageError
from pentad.shared.kinds import RESUME
from pentad.shared.store.beating import beat_s, keep_beating
from pentad.shared.store.store import Store


class LeaseKeeper:
    """Beats for everything that this process holds, and interrupts what has lost its lease or was told to stop."""

    def __init__(self, actors: Actors, every_s: float | None = None) -> None:
        self._actors = actors
        self._every = every_s or beat_s(actors.lease_ms)
        self._held: dict[str, Held] = {}

    def hold(self, actor: ActorKeys, lease: Lease) -> "Held":
        """Begin to beat for an actor; ``with`` ends it."""
        held = Held(self._held, actor, lease, self._actors.store)
        self._held[actor.header] = held
        return held

    async def run(self) -> None:
        """Beat for ever."""
        await keep_beating(self._actors.store, "actors", self._every, self._beat_all)

    async def _beat_all(self) -> None:
        held = [h for h in self._held.values() if not h.done]
        for error in await asyncio.gather(*(self._beat(h) for h in held), return_exceptions=True):
            if isinstance(error, OutageError):
                raise error
            if isinstance(error, Exception):
                self._actors.store.stumbled("the beat of an actor", error)

    async def _beat(self, held: "Held") -> None:
        connection = self._actors.store.connection
        control = await self._actors.beat(held.actor, held.lease, held.known)
        if control is not None:
            held.confirmed_on = connection
        if control is None:
            if not held.done:  # what has just ended has given its lease back
                self._actors.lost(held.actor, held.lease)
            held.interrupt("lost")
        elif control and control != RESUME:
            held.interrupt(control)


class Held:
    """An actor that is being handled here."""

    def __init__(self, registry: dict[str, "Held"], actor: ActorKeys, lease: Lease, store: Store) -> None:
        self.actor, self.lease = actor, lease
        self._store = store
        self.confirmed_on = store.connection
        """The connection on which Redis said last that the lease is ours."""
        self.interrupted = ""
        """Why the work must stop: ``lost``, ``shutdown``, ``deadline``, ``cancel``, ``pause``, ``user``. '': go on."""
        self.known: int | None = None
        """A message with a higher number stops the work; None: no message does."""
        self._registry = registry
        self._work: asyncio.Future[Any] | None = None
        self.done = False

    @property
    def sure(self) -> bool:
        """Whether the lease was ours on the connection of now. A new one may lead to a server that lost it."""
        return self.confirmed_on == self._store.connection

    def watch(self, work: "asyncio.Future[Any]") -> None:
        """Cancel this future when the work must stop."""
        self._work = work
        if self.interrupted:
            work.cancel()

    def interrupt(self, why: str) -> None:
        """Stop the work; the first reason counts."""
        if not self.interrupted:
            self.interrupted = why
            if self._work is not None:
                self._work.cancel()

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_: object) -> None:
        self.done = True
        if self._registry.get(self.actor.header) is self:
            del self._registry[self.actor.header]
