"""Actors: sessions and tasks, each with a header, a mailbox and a lease. The four moves of a worker, and the post."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import field, replace
from functools import cache
from time import monotonic
from typing import Any

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE, Stream
from pentad.shared import metrics
from pentad.shared.actors.commit import ActorKeys, Commit, Outcome, own_keys
from pentad.shared.actors.headers import Lease, Mail, lease_of, mail_of, numbered_mail, pairs
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys, TaskKeys, timers
from pentad.shared.kinds import MailKind
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Argument, Store, guarded

SESSION_MESSAGES = 1
"""Messages of a session that one handling reads: it routes one."""
TASK_MESSAGES = 256
"""Messages of a task that one step takes in, at most; the rest waits for the next."""
MESSAGE_BYTES = 1 << 20
"""Bytes of messages that one handling takes in; a longer message comes alone."""
_LEASED_TRIES = 2
_UNLIMITED = (1_000_000, 1_000_000)
"""How often the end of another's lease is waited for; a holder that lives extends it meanwhile."""


@immutable
class Taken:
    """An actor under our lease."""

    lease: Lease
    raw: dict[str, bytes]
    messages: tuple[Mail, ...]
    """The oldest that wait: so many as one handling takes in."""
    signals: tuple[Mail, ...]
    """All that wait."""
    transcript: Sequence[bytes]
    """Entries from ``start`` on."""
    start: int | None
    """The position that was asked for; None: none of it."""
    taken_at: float = field(default_factory=monotonic, compare=False)
    """Our own clock when it was read, in s."""

    def clock(self) -> int:
        """The server's clock now, in ms, as far as it can be told without asking."""
        return self.lease.now + round((monotonic() - self.taken_at) * 1000)

    @property
    def mail(self) -> tuple[Mail, ...]:
        """Both, by their numbers."""
        return tuple(sorted((*self.messages, *self.signals), key=lambda mail: mail.number))

    @property
    def read(self) -> int:
        """Number of the newest message read, or of the newest mail ever when there was none."""
        return self._newest(self.messages)

    @property
    def seen(self) -> int:
        """Number of the newest signal seen, or of the newest mail ever when there was none."""
        return self._newest(self.signals)

    @property
    def newest(self) -> int:
        """Number of the newest mail ever."""
        return int(self.raw.get("mail", b"0"))

    def _newest(self, box: tuple[Mail, ...]) -> int:
        return box[-1].number if box else self.newest


WAKE_UP = WakeUp.__name__
"""The type of a wake-up, for the metrics."""


def count_wake_ups(stream: Stream, number: int) -> None:
    """Count the wake-ups that a script says it has added."""
    if number:
        metrics.published.labels(stream.name, WAKE_UP).inc(number)


@cache
def _handled(stream: str) -> tuple[Any, Any]:
    """The metrics of the handled wake-ups of a stream, and of the starts that they needed."""
    return metrics.consumed.labels(stream, WAKE_UP), metrics.attempts.labels(stream)


def _count_woken(actor: ActorKeys, reply: Sequence[Any]) -> None:
    """The wake-ups that a commit has added: for tasks that it has posted to, and for its own actor."""
    if reply[2]:
        count_wake_ups(TASK_WAKE, reply[2])
    if reply[3]:
        count_wake_ups(actor.stream, reply[3])


def _most(actor: ActorKeys) -> int:
    """How many messages one handling reads."""
    return SESSION_MESSAGES if actor.stream is SESSION_WAKE else TASK_MESSAGES


Boxes = tuple[tuple[Mail, ...], tuple[Mail, ...]]
"""Messages and signals."""


def _boxes(messages: Sequence[bytes], signals: Sequence[bytes]) -> Boxes | None:
    """Parse both boxes; None when an item is no valid mail."""
    try:
        return mail_of(messages), mail_of(signals)
    except ValueError:
        return None


class Actors:
    """The moves, for one process."""

    def __init__(
        self,
        store: Store,
        consumer: str,
        lease_ms: int,
        active: tuple[int, int] = _UNLIMITED,
    ) -> None:
        """``active``: how many tasks of a session, and of a tenant in one shard, may be active; for who takes tasks."""
        self.store = store
        self.consumer = consumer
        self.lease_ms = lease_ms
        self._active = active
        self._losses: deque[str] = deque(maxlen=256)
        """Tokens of the leases that were lost last."""

    async def take(self, actor: ActorKeys, wake_id: str, start: int | None = None) -> Taken | None:
        """Take the lease that a wake-up offers.

        None when the wake-up is no longer current (it is acknowledged) or another holds the lease (it stays pending).
        ``start``: the position from which the transcript is read; None reads none of it.
        """
        keys = own_keys(actor)
        position: Argument = "" if start is None else start
        args: list[Argument] = [
            wake_id,
            actor.group,
            self.lease_ms,
            random_hex(16),
            position,
            _most(actor),
            MESSAGE_BYTES,
        ]
        args += (actor.actor, *self._active)
        reply = await self.store.run("take", keys, args)
        for _ in range(_LEASED_TRIES):
            if reply[0] != b"leased":
                break
            await asyncio.sleep(int(reply[1]) / 1000 + 0.01)
            reply = await self.store.run("take", keys, args)
        if reply[0] != b"ok":
            return None
        raw = pairs(reply[2])
        lease = lease_of(raw, wake_id, int(reply[1]))
        boxes = _boxes(reply[3], reply[4]) or await self._numbered(actor, reply[3], reply[4])
        return Taken(lease, raw, *boxes, reply[5], start)

    async def look(self, actor: ActorKeys, taken: Taken) -> Taken | None:
        """Read header and mail again under the lease; None when it is lost.

        ``attempt`` grows: a plan that is made again must not be taken for the one before.
        """
        keys = [actor.header, actor.messages, actor.signals]
        args: list[Argument] = [taken.lease.token, _most(actor), MESSAGE_BYTES]
        reply = await guarded("look", self.store.run, "look", keys, args)
        if reply is None:
            self.lost(actor, taken.lease)
            return None
        raw = pairs(reply[1])
        lease = replace(taken.lease, now=int(reply[0]), attempt=int(raw["attempt"]))
        boxes = _boxes(reply[2], reply[3]) or await self._numbered(actor, reply[2], reply[3])
        return Taken(lease, raw, *boxes, taken.transcript, taken.start)

    async def _numbered(self, actor: ActorKeys, messages: Sequence[bytes], signals: Sequence[bytes]) -> Boxes:
        """Boxes with something in them that is no mail of ours: numbered by its place, so that it can be set aside."""
        found = [
            numbered_mail(await self.store.call("ZRANGE", box, 0, len(read) - 1, "WITHSCORES")) if read else ()
            for box, read in ((actor.messages, messages), (actor.signals, signals))
        ]
        return found[0], found[1]

    async def beat(self, actor: ActorKeys, lease: Lease, known: int | None = None) -> str | None:
        """Keep the lease. None when it is lost, else the kind of control mail that waits ('' for none).

        ``known``: a message with a higher number is told too, as ``user``; None asks for none.
        """
        keys = [actor.header, actor.wake]
        args: list[Argument] = [lease.token, self.lease_ms, actor.group, self.consumer, lease.wake_id]
        if known is not None:
            keys.append(actor.messages)
            args.append(known)
        reply = await self.store.run("beat", keys, args)
        return None if reply is None else reply.decode()

    def lost(self, actor: ActorKeys, lease: Lease) -> None:
        """Count a lease that went to another, once: its beat, its next look and its commit may all find out."""
        if lease.token not in self._losses:
            self._losses.append(lease.token)
            metrics.lease_losses.labels(actor.group).inc()

    async def commit(self, commit: Commit, taken: Taken) -> Outcome:
        """End a handling. Repeated until Redis answers: the script knows its own step id."""
        lease = taken.lease
        known = (taken.newest if commit.leaves_messages else taken.read, taken.seen)
        status = commit.status or taken.raw.get("status", b"").decode(errors="replace")
        args = commit.arguments(
            lease.token, lease.version, lease.wake_id, known, commit.actor.group, self._places(commit.actor, status)
        )
        reply = await guarded("commit", self.store.run, "commit", commit.keys, args)
        outcome: Outcome = reply[0].decode()
        if outcome in ("committed", "continued"):
            commit.tallies.apply(int(reply[1]), ended=outcome == "committed")
            consumed, attempts = _handled(commit.actor.stream.name)
            consumed.inc()
            attempts.observe(lease.starts)
            _count_woken(commit.actor, reply)
        elif outcome == "lost":
            self.lost(commit.actor, lease)
        return outcome

    def _places(self, actor: ActorKeys, status: str) -> str:
        """The effect on its place of a commit that leaves a task with this status, see `scripts/commit.lua`."""
        if isinstance(actor, SessionKeys) or status == "active":
            return ""
        limits = f"{self._active[0]} {self._active[1]}"
        return f"pending {limits}" if status == "pending" else limits

    async def commit_untaken(self, commit: Commit, version: str, on: int | None = None) -> Outcome:
        """A commit to an actor that nobody has taken, because it had nothing to do; ``lost`` when that is over.

        ``on``: over this connection or not at all; None: over any. Raises ``OutageError``; then it may have been
        committed.
        """
        args = commit.arguments("", version, "", (0, 0), commit.actor.group)
        reply = await self.store.run("commit", commit.keys, args, on=on)
        outcome: Outcome = reply[0].decode()
        if outcome == "committed":
            commit.tallies.apply(int(reply[1]), ended=True)
            _count_woken(commit.actor, reply)
        return outcome

    async def release(self, actor: ActorKeys, wake_id: str, token: str = "") -> None:
        """Hand an actor back untouched, so that another worker can take it at once."""
        args: list[Argument] = [wake_id, actor.group, actor.actor, self.lease_ms, token]
        if await self.store.run("release", [actor.header, actor.wake], args) == b"ok":
            count_wake_ups(actor.stream, 1)

    async def archive_now(self, task: TaskKeys) -> str:
        """End an ended task's grace time; returns the status it has ('none': no such task). Safe to repeat."""
        status = await self.store.run("archive_now", [task.header, timers(task.shard)], [f"archive {task.actor}"])
        said: str = status.decode()
        return said

    async def post(self, to: ActorKeys, kind: MailKind, body: bytes, statuses: Sequence[str], control: str = "") -> str:
        """Put mail into an actor's box if it has one of these statuses; returns the one it has ('none': no actor)."""
        args: list[Argument] = [to.actor, kind, body, control, "|".join(statuses)]
        status, posted, woken = await self.store.run("post", [to.header, to.box(kind), to.wake], args)
        stream = to.stream
        metrics.published.labels(stream.name, kind).inc(posted)
        count_wake_ups(stream, woken)
        said: str = status.decode()
        return said
