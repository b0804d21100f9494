"""A step of the server's clock, as it looks to what was stored before it."""

from pentad.shared.store.store import Argument, Store

TEN_MINUTES_MS = 600_000
_TIMES = (
    b"asked_at",
    b"waiting_at",
    b"retry_since",
    b"updated",
    b"created",
    b"ended_at",
    b"turn_at",
    b"exp",
    b"done_at",
    b"seen",
    b"until",
    b"trial_end",
)


async def step_back(store: Store, ms: int = TEN_MINUTES_MS) -> None:
    """The clock steps back: every time that is stored, and every end of a key, lies so much further ahead."""
    for key in sorted(await store.call("KEYS", "pentad:*")):
        left = await store.call("PTTL", key)
        if left > 0:
            await store.call("PEXPIRE", key, left + ms)
        kind = await store.call("TYPE", key)
        if kind == b"zset":
            flat = await store.call("ZRANGE", key, 0, -1, "WITHSCORES")
            for member, score in zip(flat[::2], flat[1::2], strict=True):
                if float(score) > ms:  # others are numbers of mail, and places in a queue
                    await store.call("ZADD", key, float(score) + ms, member)
        elif kind == b"hash":
            for name in _TIMES:
                value: Argument | None = await store.call("HGET", key, name)
                if value and int(value) > ms:
                    await store.call("HINCRBY", key, name, ms)
