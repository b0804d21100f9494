"""How far work streams are: what lies in each, how far its groups are behind, and how long the oldest entry waits."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from redis.exceptions import ResponseError

from pentad.contracts.operations import GroupState, StreamState
from pentad.contracts.streams import Stream, split_key, tool_queue_of
from pentad.shared.store.store import Store

ACTIVE_MS = 10_000
"""Milliseconds within which a consumer that asked for work counts as active."""
_KEYS_AT_ONCE = 100
"""Streams that are asked about in one write."""
_MAX_GROUPS = 4
"""Consumer groups of a stream that are told: ours, and some of others."""
_MAX_NAME_CHARS = 64
"""Characters of a group's name that are told: a foreign one may have any."""


async def oldest_waiting(store: Store, stream: Stream, key: str) -> int | None:
    """Return the time in milliseconds of the oldest entry that is pending or unread; None if there is none."""
    name = str(stream.group)
    group = next((each for each in await store.groups(key) if each[b"name"].decode() == name), None)
    if group is None:
        return _time_of([await _next_id(store, key, "0-0")])
    return _time_of([*await _pending_ids(store, key, group), await _next_id(store, key, group[b"last-delivered-id"])])


async def stream_states(store: Store, streams: Sequence[tuple[Stream, str]], now: int) -> list[StreamState]:
    """Return how far these streams are. ``now``: Redis's time in ms. Raises ``OutageError``.

    One that is not there yet is empty; a key that holds something else is told as a stream without groups.
    """
    found = list[StreamState]()
    for begin in range(0, len(streams), _KEYS_AT_ONCE):
        found += await _some(store, streams[begin : begin + _KEYS_AT_ONCE], now)
        await asyncio.sleep(0)
    return found


async def _some(store: Store, streams: Sequence[tuple[Stream, str]], now: int) -> list[StreamState]:
    keys = [key for _, key in streams]
    lengths = await store.answers([("XLEN", key) for key in keys])
    told = await store.answers([("XINFO", "GROUPS", key) for key in keys])
    groups = [_ours_first(stream, reply) for (stream, _), reply in zip(streams, told, strict=True)]
    pairs = [(key, group) for key, there in zip(keys, groups, strict=True) for group in there]
    consumers = await store.answers([("XINFO", "CONSUMERS", key, group[b"name"]) for key, group in pairs])
    waiting = await asyncio.gather(*(_oldest_of(store, key, group) for key, group in pairs))
    states = [
        _group(group, None if isinstance(reply, Exception) else reply, oldest, now)
        for (_, group), reply, oldest in zip(pairs, consumers, waiting, strict=True)
    ]
    made, given = list[StreamState](), iter(states)
    for (stream, key), length, there in zip(streams, lengths, groups, strict=True):
        of_stream = [next(given) for _ in there]
        made.append(_state(stream, key, 0 if isinstance(length, Exception) else int(length), of_stream))
    return made


def _ours_first(stream: Stream, reply: Any) -> Sequence[Mapping[bytes, Any]]:
    """Return the groups of a stream from Redis's reply; none for a refusal: there is no such stream."""
    if isinstance(reply, ResponseError):
        return []
    read = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in reply]
    ours = (stream.group or "").encode()
    return sorted(read, key=lambda group: group[b"name"] != ours)[:_MAX_GROUPS]


async def _oldest_of(store: Store, key: str, group: Mapping[bytes, Any]) -> int | None:
    """Return the time of the oldest entry that waits for a group; nothing is asked where none does."""
    try:
        ids = await _pending_ids(store, key, group)
        if group[b"lag"] != 0:
            ids.append(await _next_id(store, key, group[b"last-delivered-id"]))
    except ResponseError:  # the stream has gone meanwhile
        return None
    return _time_of(ids)


async def _pending_ids(store: Store, key: str, group: Mapping[bytes, Any]) -> list[bytes | None]:
    if not group[b"pending"]:
        return []
    return [entry[0] for entry in await store.call("XPENDING", key, group[b"name"], "-", "+", 1)]


async def _next_id(store: Store, key: str, after: bytes | str) -> bytes | None:
    found: bytes | None = await store.run("next_id", [key], [after])
    return found


def _time_of(ids: Sequence[bytes | None]) -> int | None:
    """Return the time in the oldest of these ids of entries; None where there is none."""
    return min((int(entry.split(b"-")[0]) for entry in ids if entry is not None), default=None)


def _group(group: Mapping[bytes, Any], consumers: Sequence[Any] | None, oldest: int | None, now: int) -> GroupState:
    idle = [dict(zip(flat[::2], flat[1::2], strict=True))[b"idle"] for flat in consumers or ()]
    return GroupState(
        name=group[b"name"].decode(errors="replace")[:_MAX_NAME_CHARS],
        lag=group[b"lag"],
        pending=group[b"pending"],
        oldest_s=None if oldest is None else round(max(0, now - oldest) / 1000, 1),
        consumers=len(idle),
        active=sum(1 for each in idle if each < ACTIVE_MS),
    )


def _state(stream: Stream, key: str, length: int, groups: list[GroupState]) -> StreamState:
    shard, _ = split_key(key) or (None, "")
    return StreamState(stream=stream.name, key=key, shard=shard, queue=tool_queue_of(key), length=length, groups=groups)
