"""Actors: sessions and tasks, each with a header, a mailbox and a lease. The four moves of a worker, and the post."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from contracts.streams import SESSION_WAKE, TASK_WAKE
from shared import metrics
from shared.state.commit import ActorKeys, Commit, Outcome
from shared.state.headers import Lease, Mail, lease_of, mail_of, pairs
from shared.state.keys import SessionKeys, TaskKeys
from shared.state.store import Argument, Store, guarded

MAIL_LIMIT = 64
"""Pieces of a session's mail that one handling reads; the rest waits for the next."""
_WHOLE = 0
"""A task's mailbox is read whole: a step needs the results of all its calls, wherever they lie."""


_LEASED_TRIES = 2
"""How often the end of another's lease is waited for; a holder that lives extends it meanwhile."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An actor under our lease."""

    lease: Lease
    raw: dict[str, bytes]
    mail: tuple[Mail, ...]
    transcript: Sequence[bytes]
    """Entries from the position that was asked for."""

    @property
    def read(self) -> int:
        """Number of the newest mail seen, or of the newest ever when there was none."""
        return self.mail[-1].number if self.mail else int(self.raw.get("mail", b"0"))


def group_of(actor: ActorKeys) -> str:
    """The consumer group that serves an actor's wake-ups."""
    group = (SESSION_WAKE if isinstance(actor, SessionKeys) else TASK_WAKE).group
    assert group is not None
    return group


class Actors:
    """The moves, for one process."""

    def __init__(self, store: Store, consumer: str, lease_ms: int) -> None:
        self.store = store
        self.consumer = consumer
        self.lease_ms = lease_ms

    async def take(self, actor: ActorKeys, wake_id: str, start: int | None = None) -> Taken | None:
        """Take the lease that a wake-up offers.

        None when the wake-up is no longer current (it is acknowledged) or another holds the lease (it stays pending).
        ``start``: the position from which the transcript is read; None reads none of it.
        """
        log = actor.log if isinstance(actor, TaskKeys) else actor.mail
        keys = [actor.header, actor.mail, log, actor.wake]
        position: Argument = "" if start is None else start
        limit = MAIL_LIMIT if isinstance(actor, SessionKeys) else _WHOLE
        args: list[Argument] = [wake_id, group_of(actor), self.lease_ms, position, limit]
        reply = await self.store.run("take", keys, args)
        for _ in range(_LEASED_TRIES):
            if reply[0] != b"leased":
                break
            await asyncio.sleep(int(reply[1]) / 1000 + 0.01)
            reply = await self.store.run("take", keys, args)
        if reply[0] != b"ok":
            return None
        raw = pairs(reply[2])
        return Taken(lease_of(raw, wake_id, int(reply[1])), raw, mail_of(reply[3]), reply[4])

    async def look(self, actor: ActorKeys, taken: Taken) -> Taken | None:
        """Read header and whole mailbox again under the lease; None when it is lost.

        ``attempt`` grows: a plan that is made again must not be taken for the one before.
        """
        keys = [actor.header, actor.mail]
        reply = await guarded("look", lambda: self.store.run("look", keys, [taken.lease.token]))
        if reply is None:
            return None
        raw = pairs(reply[1])
        lease = replace(taken.lease, now=int(reply[0]), attempt=int(raw["attempt"]))
        return replace(taken, lease=lease, raw=raw, mail=mail_of(reply[2]))

    async def beat(self, actor: ActorKeys, lease: Lease) -> str | None:
        """Keep the lease. None when it is lost, else the kind of control mail that waits ('' for none)."""
        args: list[Argument] = [lease.token, self.lease_ms, group_of(actor), self.consumer, lease.wake_id]
        reply = await self.store.run("beat", [actor.header, actor.wake], args)
        return None if reply is None else reply.decode()

    async def commit(self, commit: Commit, taken: Taken) -> Outcome:
        """End a handling. Repeated until Redis answers: the script knows its own step id."""
        lease = taken.lease
        args = commit.arguments(lease.token, lease.version, lease.wake_id, taken.read, group_of(commit.actor))
        reply = await guarded("commit", lambda: self.store.run("commit", commit.keys, args))
        outcome: Outcome = reply[0].decode()
        if outcome in ("ok", "open"):
            commit.tallies.apply(int(reply[1]), ended=outcome == "ok")
        elif outcome == "stale":
            metrics.lease_losses.labels(group_of(commit.actor)).inc()
        return outcome

    async def release(self, actor: ActorKeys, wake_id: str, token: str = "") -> None:
        """Hand an actor back untouched, so that another worker can take it at once."""
        args: list[Argument] = [wake_id, group_of(actor), actor.actor, token]
        await self.store.run("release", [actor.header, actor.wake], args)

    async def post(self, to: ActorKeys, kind: str, body: bytes, statuses: Sequence[str], control: str = "") -> str:
        """Put mail into a mailbox if the actor has one of these statuses; returns the one it has ('none': no actor)."""
        args: list[Argument] = [to.actor, kind, body, control, "|".join(statuses)]
        reply = await self.store.run("post", [to.header, to.mail, to.wake], args)
        status: str = reply.decode()
        return status


class LeaseKeeper:
    """Beats for everything that this process holds, and interrupts what has lost its lease or was told to stop."""

    def __init__(self, actors: Actors, every_s: float = 0.5) -> None:
        self._actors = actors
        self._every = min(every_s, actors.lease_ms / 4000)
        self._held: dict[str, Held] = {}

    def hold(self, actor: ActorKeys, lease: Lease) -> "Held":
        """Begin to beat for an actor; ``with`` ends it."""
        held = Held(self._held, actor, lease)
        self._held[actor.header] = held
        return held

    async def run(self) -> None:
        """Beat for ever. A beat that gets no answer is no loss: the fence decides in the end."""
        while True:
            await asyncio.sleep(self._every)
            held = [h for h in self._held.values() if not h.done]
            await asyncio.gather(*(self._beat(h) for h in held), return_exceptions=True)

    async def _beat(self, held: "Held") -> None:
        control = await self._actors.beat(held.actor, held.lease)
        if control is None:
            held.interrupt("lost")
        elif control:
            held.interrupt(control)


class Held:
    """An actor that is being handled here."""

    def __init__(self, registry: dict[str, "Held"], actor: ActorKeys, lease: Lease) -> None:
        self.actor, self.lease = actor, lease
        self.interrupted = ""
        """Why the work must stop: ``lost``, ``cancel``, ``deadline``, ``timeout``; '' while it may go on."""
        self._registry = registry
        self._work: asyncio.Future[Any] | None = None
        self.done = False

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
