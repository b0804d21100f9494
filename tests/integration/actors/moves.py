"""The moves of two workers on one task and one session, by the real writers."""

from typing import Any, cast
from uuid import uuid4

from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE
from pentad.shared.actors.actors import Actors, Taken
from pentad.shared.actors.commit import ActorKeys, Commit, own_keys
from pentad.shared.actors.headers import mail_of
from pentad.shared.keys import SessionKeys, TaskKeys, load
from pentad.shared.kinds import MailKind
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.broker import ensure_group

LEASE_MS = 60_000
TASK = TaskKeys(0, "default", "task-0-a")
SESSION = SessionKeys(0, "default", "s1")
LIVE = ("active",)


class Moves:
    """`one` and `two` are workers; what they take is theirs for a minute unless `expire` says otherwise."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.one, self.two = Actors(store, "one", LEASE_MS), Actors(store, "two", LEASE_MS)

    async def prepare(self) -> None:
        """An active task without mail, and both groups."""
        await ensure_group(self.store, TASK_WAKE.key(0), TASK_WAKE.group or "")
        await ensure_group(self.store, SESSION_WAKE.key(0), SESSION_WAKE.group or "")
        await self.store.call("HSET", TASK.header, "status", "active", "session", SESSION.session)

    async def mail(self, kind: str = "user", body: bytes = b"{}", count: int = 1) -> None:
        """Post to the task."""
        for _ in range(count):
            await self.one.post(TASK, cast(MailKind, kind), body, LIVE)

    async def read(self, consumer: str = "one", stream: str = TASK.wake, group: str = "task-runner") -> list[str]:
        """Be given fresh wake-ups; their ids."""
        reply = await self.store.call("XREADGROUP", "GROUP", group, consumer, "STREAMS", stream, ">")
        return [i.decode() for i, _ in reply[0][1]] if reply else []

    async def take(self, actors: Actors, wake_id: str) -> Taken:
        """Take the task's lease, which must be free."""
        taken = await actors.take(TASK, wake_id, 0)
        assert taken is not None
        return taken

    async def offer(self, wake_id: str) -> str:
        """What the script of `take` says to a second worker, which would wait for the lease's end."""
        args: list[Argument] = [wake_id, "task-runner", LEASE_MS, "nonce", "", 64, 1 << 20, TASK.actor, 10, 1000]
        verdict: bytes = (await self.store.run("take", own_keys(TASK), args))[0]
        return verdict.decode()

    async def expire(self, actor: ActorKeys = TASK) -> None:
        """The lease's time is over."""
        await self.store.call("HSET", actor.header, "exp", 0)

    async def header(self, actor: ActorKeys = TASK) -> dict[str, str]:
        """An actor's header."""
        raw = await self.store.call("HGETALL", actor.header)
        return {k.decode(): v.decode() for k, v in zip(raw[::2], raw[1::2], strict=True)}

    async def kinds(self, actor: ActorKeys = TASK) -> list[str]:
        """The kinds of the mail that waits, in order."""
        boxes = [await self.store.call("ZRANGE", box, 0, -1) for box in (actor.messages, actor.signals)]
        return [m.kind for m in sorted(mail_of([*boxes[0], *boxes[1]]), key=lambda m: m.number)]

    async def waiting(self) -> dict[str, int]:
        """What is counted for back-pressure."""
        raw = await self.store.call("HGETALL", load(0))
        return {name.decode(): int(value) for name, value in zip(raw[::2], raw[1::2], strict=True)}

    async def pending(self, stream: str = TASK.wake, group: str = "task-runner") -> dict[str, str]:
        """Entries that are not acknowledged, with who has them."""
        found = await self.store.call("XPENDING", stream, group, "-", "+", 1000)
        return {i.decode(): consumer.decode() for i, consumer, *_ in found}

    async def unread(self, stream: str = TASK.wake, group: str = "task-runner") -> int:
        """Entries that nobody was given yet."""
        groups: list[dict[str, Any]] = await self.store.redis.xinfo_groups(stream)
        return next(int(g["lag"]) for g in groups if g["name"] == group.encode())


def commit(step_id: str = "", actor: ActorKeys = TASK) -> Commit:
    """An empty commit."""
    return Commit(actor, step_id or f"step-{uuid4().hex}")
