"""What a Redis holds, as readable JSON: recorded once, put back later. Times are kept relative to the recording.

Each key is an object with its ``type``, its ``value`` and, when it ends, ``ttl_s``. In texts ``<ms +5>`` stands for a
time in ms since the epoch, 5 ms after the recording, and ``<at -5>`` for one as RFC 3339.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from pentad.contracts.ids import milliseconds, rfc3339

_YEAR_MS = 366 * 86_400_000
_MS = re.compile(r"(?<![0-9A-Za-z])\d{13}(?![0-9A-Za-z])")
_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_RELATIVE = re.compile(r"<(ms|at) ([+-]\d+)>")


def relative(text: str, now: int) -> str:
    """Times within a year of ``now``, in ms, become relative to it. JSON may be nested in the text."""

    def ms(found: re.Match[str]) -> str:
        passed = int(found[0]) - now
        return f"<ms {passed:+d}>" if abs(passed) < _YEAR_MS else found[0]

    return _MS.sub(ms, _AT.sub(lambda found: f"<at {milliseconds(found[0]) - now:+d}>", text))


def absolute(text: str, now: int) -> str:
    """Relative times become those around ``now``, in ms."""

    def time(found: re.Match[str]) -> str:
        at = now + int(found[2])
        return str(at) if found[1] == "ms" else rfc3339(at)

    return _RELATIVE.sub(time, text)


def put_back(redis: Any, keys: Mapping[str, Any]) -> None:
    """Write the keys of a recording, its times absolute. ``redis``: a client that is not asyncio's."""
    for key, held in keys.items():
        _WRITE[held["type"]](redis, key, held["value"])
        if "ttl_s" in held:
            redis.expire(key, held["ttl_s"])


def read_keys(redis: Any, leave_out: Callable[[str], bool]) -> dict[str, Any]:
    """The keys of a Redis. Of a work stream's entries those that are done with are left out, and consumers' names."""
    keys: dict[str, Any] = {}
    for key in sorted(key for key in redis.scan_iter() if not leave_out(key)):
        kind = redis.type(key)
        keys[key] = {"type": kind, "value": _READ[kind](redis, key)}
        if (ttl_ms := redis.pttl(key)) > 0:
            keys[key]["ttl_s"] = -(-ttl_ms // 1000)
    return keys


def _read_stream(redis: Any, key: str) -> dict[str, Any]:
    last = redis.xinfo_stream(key)["last-generated-id"]
    groups = {group["name"]: _read_group(redis, key, group) for group in redis.xinfo_groups(key)}
    fresh = {entry for group in groups.values() for entry, _ in redis.xrange(key, f"({group['last']}", "+")}
    wanted = fresh.union(*(group["pending"] for group in groups.values()))
    entries = {entry: fields for entry, fields in redis.xrange(key) if not groups or entry in wanted}
    return {"entries": entries, "last": last, "groups": groups}


def _read_group(redis: Any, key: str, group: Mapping[str, Any]) -> dict[str, Any]:
    found = redis.xpending_range(key, group["name"], "-", "+", 1000) if group["pending"] else ()
    pending = {p["message_id"]: {"consumer": "gone", "times": p["times_delivered"]} for p in found}
    return {"last": group["last-delivered-id"], "pending": pending}


_READ: Mapping[str, Callable[[Any, str], Any]] = {
    "string": lambda redis, key: redis.get(key),
    "hash": lambda redis, key: dict(sorted(redis.hgetall(key).items())),
    "list": lambda redis, key: redis.lrange(key, 0, -1),
    "zset": lambda redis, key: {member: f"{score:.0f}" for member, score in redis.zrange(key, 0, -1, withscores=True)},
    "stream": _read_stream,
}


def _write_stream(redis: Any, key: str, stream: Mapping[str, Any]) -> None:
    """Entries that a group has read are there only while they are pending."""
    for name in stream["groups"]:
        redis.xgroup_create(key, name, mkstream=True)
    for entry, fields in stream["entries"].items():
        redis.xadd(key, fields, id=entry)
    redis.execute_command("XSETID", key, stream["last"])
    for name, group in stream["groups"].items():
        redis.xgroup_setid(key, name, group["last"], entries_read=len(group["pending"]))
        for entry, given in group["pending"].items():
            redis.xclaim(key, name, given["consumer"], 0, [entry], retrycount=given["times"], force=True)


_WRITE: Mapping[str, Callable[[Any, str, Any], object]] = {
    "string": lambda redis, key, value: redis.set(key, value),
    "hash": lambda redis, key, value: redis.hset(key, mapping=value),
    "list": lambda redis, key, value: redis.rpush(key, *value),
    "zset": lambda redis, key, value: redis.zadd(key, value),
    "stream": _write_stream,
}
