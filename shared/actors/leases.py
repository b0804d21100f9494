"""Keeping leases: beats for all that a process holds, and the end of what has lost its lease or was told to stop."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pentad.shared.actors.actors import Actors
from pentad.shared.actors.commit import ActorKeys
from pentad.shared.actors.headers import Lease
from pentad.shared.errors import OutageError
from pentad.shared.kinds import RESUME
from pentad.shared.store.beats import beat_s, keep_beating
from pentad.shared.store.store import Store

T = TypeVar("T")


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


class StoppedWorkError(Exception):
    """Work for an actor that was stopped before its end: `Held.interrupted` says why."""


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
        self._stopping: asyncio.Task[Any] | None = None
        """The asyncio task that `interrupt` cancels; None while no work runs."""
        self._stopped = False
        self.done = False

    @property
    def sure(self) -> bool:
        """Whether the lease was ours on the connection of now. A new one may lead to a server that lost it."""
        return self.confirmed_on == self._store.connection

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something that `interrupt` stops; it raises ``StoppedWorkError`` then.

        The task that asks does it, and is cancelled for the while, as `asyncio.timeout` does: a task of its own would
        cost more than what it waits for.
        """
        if self.interrupted:
            work.close()
            raise StoppedWorkError(self.interrupted)
        task = asyncio.current_task()
        assert task is not None
        self._stopping, self._stopped, before = task, False, task.cancelling()
        try:
            done = await work
        except asyncio.CancelledError:
            if self._stopped and task.uncancel() <= before:
                raise StoppedWorkError(self.interrupted) from None
            raise
        finally:
            self._stopping = None
        if self._stopped:  # the work has ended all the same
            task.uncancel()
        return done

    def interrupt(self, why: str) -> None:
        """Stop the work; the first reason counts."""
        if not self.interrupted:
            self.interrupted = why
            if self._stopping is not None:
                self._stopped = True
                self._stopping.cancel()

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_: object) -> None:
        self.done = True
        if self._registry.get(self.actor.header) is self:
            del self._registry[self.actor.header]
