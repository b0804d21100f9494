"""The kind of server behind an address, as far as it can be seen, and whether Pentad can work on it.

Managed servers deny INFO and CONFIG, users without rights see even less: a property that is denied is unknown, never
an error.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NEEDED = ("XAUTOCLAIM", "EXPIRETIME")
"""Commands that tell Redis 7.0 from what came before; Valkey names versions of its own."""
OLDEST = 7
_MAJOR = re.compile(r"\d+")
_ADDRESS = "give REDIS_URL the address of a Redis >= 7.0 or Valkey >= 8"

Ask = Callable[[Sequence[Sequence[str]]], Awaitable[Sequence[Any]]]
"""Sends commands in one go; each reply, or the error that came instead of it."""


@dataclass(frozen=True, slots=True)
class Server:
    """Facts that a server reports about itself; None where it does not."""

    name: str
    """``Redis 7.4.1``, ``Valkey 9.1.2``; ``Redis`` when nothing is known."""
    major: int | None
    role: str | None
    """``primary`` or ``replica``."""
    missing: tuple[str, ...]
    """Commands that we need and it has not."""
    policy: str | None
    limit: int | None
    """Bytes that it may use, 0: no limit."""
    used: int | None
    aof: bool | None
    cluster_size: int | None
    """Primaries that share the keys of a cluster."""
    watched: tuple[str, ...] | None
    """Primaries that a sentinel watches; None for other servers."""

    @property
    def evicts(self) -> bool:
        """Whether keys are lost when its memory is full."""
        return self.policy not in (None, "noeviction")


async def look(ask: Ask) -> Server:
    """Look at a server: one round trip, another for a cluster's node, for a sentinel, and where INFO is not allowed.

    Raises what ``ask`` raises; a refusal is no answer and no error.
    """
    hello, info, commands = await ask((("HELLO",), ("INFO",), ("COMMAND", "INFO", *NEEDED)))
    said, told = _pairs(hello), _lines(info)
    mode = said.get("mode") or told.get("redis_mode")
    if not told and mode != "sentinel":
        told = await _configured(ask)
    major = _MAJOR.match(said.get("version") or told.get("redis_version") or "")
    role = said.get("role") or told.get("role")
    return Server(
        name=_name(said, told),
        major=int(major[0]) if major else None,
        role={"master": "primary", "slave": "replica"}.get(role or "", role),
        missing=_missing(commands),
        policy=told.get("maxmemory_policy"),
        limit=_number(told.get("maxmemory")),
        used=_number(told.get("used_memory")),
        aof=None if (aof := told.get("aof_enabled")) is None else aof == "1",
        cluster_size=await _cluster_size(ask) if mode == "cluster" else None,
        watched=await _watched(ask) if mode == "sentinel" else None,
    )


async def _configured(ask: Ask) -> Mapping[str, str]:
    """Read from CONFIG the facts that INFO would have given."""
    names = ("maxmemory", "maxmemory-policy", "appendonly")
    found: dict[str, str] = {}
    for reply in await ask([("CONFIG", "GET", name) for name in names]):
        found |= _pairs(reply)
    found["aof_enabled"] = {"yes": "1", "no": "0"}.get(found.pop("appendonly", ""), "")
    told = {name.replace("-", "_"): value for name, value in found.items()}
    return {name: value for name, value in told.items() if value}


async def _cluster_size(ask: Ask) -> int | None:
    [state] = await ask([("CLUSTER", "INFO")])
    return _number(_lines(state).get("cluster_size"))


async def _watched(ask: Ask) -> tuple[str, ...]:
    [primaries] = await ask([("SENTINEL", "MASTERS")])
    found = [_pairs(primary) for primary in primaries] if isinstance(primaries, list) else []
    return tuple(f"{p.get('ip')}:{p.get('port')} ({p.get('name')})" for p in found)


def refusal_at_start(server: Server) -> str | None:
    """Why Pentad cannot work at this address, whatever happens there; None when it can."""
    if server.watched is not None:
        return f"REDIS_URL leads to a Redis Sentinel, which keeps no data: {_instead(server.watched)}"
    if server.missing:
        return f"{server.name} lacks {', '.join(server.missing)}: {_ADDRESS}"
    if server.major is not None and server.major < OLDEST:
        return f"{server.name} is too old: {_ADDRESS}"
    if server.cluster_size is not None and server.cluster_size > 1:
        return (
            f"REDIS_URL leads to a Redis Cluster whose keys are shared by {server.cluster_size} primaries: "
            "give the address of a Redis that has all keys, e.g. a cluster of one shard"
        )
    return None


def unfit(server: Server) -> str | None:
    """Return the change that the server needs before Pentad uses it; None when it needs none."""
    if server.evicts and server.limit != 0:
        return (
            f"Redis may lose keys when it is full (maxmemory-policy {server.policy}), and an evicted key is a lost "
            "task: set maxmemory-policy noeviction"
        )
    return None


def advice(server: Server) -> str | None:
    """Return a warning about a setting that works now and would not after one more change; None without one."""
    if server.evicts and server.limit == 0:
        return f"set maxmemory-policy noeviction: with {server.policy} a maxmemory would make Redis lose tasks"
    return None


def _instead(watched: Sequence[str]) -> str:
    watches = f"; now that is {' or '.join(watched)}" if watched else ""
    return f"give the address of the primary that it watches, or a name that follows it{watches}"


def _pairs(reply: Any) -> dict[str, str]:
    if not isinstance(reply, list):
        return {}
    words = [_text(word) for word in reply]
    return dict(zip(words[::2], words[1::2], strict=False))


def _lines(reply: Any) -> Mapping[str, str]:
    text = _text(reply) if isinstance(reply, bytes) else ""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def _text(word: Any) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _name(said: Mapping[str, str], told: Mapping[str, str]) -> str:
    if "valkey_version" in told:
        return f"Valkey {told['valkey_version']}"
    version = said.get("version") or told.get("redis_version")
    return f"{said.get('server', 'Redis').capitalize()} {version}" if version else "Redis"


def _missing(commands: Any) -> tuple[str, ...]:
    if not isinstance(commands, list) or len(commands) != len(NEEDED):
        return ()
    return tuple(name for name, about in zip(NEEDED, commands, strict=True) if not about)
