"""Problems of Redis, as readiness and the log describe them."""

import logging
from collections.abc import Mapping, Sequence
from time import monotonic

from redis.exceptions import RedisError

from pentad.contracts.streams import INBOUND, INBOUND_DEAD, split_key
from pentad.shared.keys import (
    CLUSTER,
    FORGOTTEN_NOTES,
    GATEWAY_ADDRESS,
    GRAPHS_PUBLISHED,
    GRAPHS_REGISTRY,
    HOOKS_PUBLISHED,
    HTTP_TOOLS_REGISTRY,
    INBOUND_LEASE,
    INSTRUCTIONS_PUBLISHED,
    INSTRUCTIONS_REGISTRY,
    LOOP_HOLDS,
    MEMORY_COUNTS,
    MEMORY_REBUILD,
    MEMORY_REBUILD_LATER,
    MEMORY_REBUILD_LEASE,
    MEMORY_WAITS,
    MODEL_HEALTH,
    MODELS_REGISTRY,
    PLUGIN_RELOAD,
    PLUGIN_REPORTS,
    PLUGIN_TURN,
    POLICIES_REGISTRY,
    PREFIX,
    PROCESSES,
    REMEMBERS,
    SCHEDULES_DUE,
    SCHEDULES_SET,
    SCHEDULES_TURN,
    SERVER_REPORTS,
    SERVERS_REGISTRY,
    SIGN_INS,
    TOOLS_REGISTRY,
    TOTALS,
    UNDOABLE,
    WEBHOOKS_REGISTRY,
    schedule,
    schedule_list,
)
from pentad.shared.store.refusals import REFUSALS, refusal_of, said, text_of
from pentad.shared.store.wire import Wire, Word
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))
_STANDS_S = 3.0
"""A refusal is true for this long after it was met: what is refused comes again, and reads between are served."""
_MAX_REFUSALS = 4
_NAMED = 64
"""Keys of one command that are looked at."""
_OUTSIDE = {
    INBOUND.key(): "stream",
    INBOUND_DEAD.key(): "stream",
    INBOUND_LEASE: "hash",
    INSTRUCTIONS_PUBLISHED: "hash",
    INSTRUCTIONS_REGISTRY: "hash",
    GRAPHS_PUBLISHED: "hash",
    HOOKS_PUBLISHED: "hash",
    GRAPHS_REGISTRY: "hash",
    POLICIES_REGISTRY: "hash",
    TOOLS_REGISTRY: "hash",
    SERVERS_REGISTRY: "hash",
    PLUGIN_RELOAD: "hash",
    PLUGIN_REPORTS: "hash",
    PLUGIN_TURN: "string",
    HTTP_TOOLS_REGISTRY: "hash",
    SERVER_REPORTS: "hash",
    WEBHOOKS_REGISTRY: "hash",
    MODELS_REGISTRY: "hash",
    MODEL_HEALTH: "hash",
    LOOP_HOLDS: "hash",
    PROCESSES: "hash",
    TOTALS: "hash",
    GATEWAY_ADDRESS: "string",
    FORGOTTEN_NOTES: "hash",
    MEMORY_COUNTS: "hash",
    MEMORY_REBUILD: "hash",
    MEMORY_REBUILD_LATER: "set",
    MEMORY_REBUILD_LEASE: "string",
    MEMORY_WAITS: "string",
    SCHEDULES_DUE: "zset",
    SCHEDULES_SET: "zset",
    SCHEDULES_TURN: "string",
    CLUSTER: "hash",
}
_BEGINNINGS = {
    "hash": (UNDOABLE, schedule("", "").removesuffix(":")),
    "zset": (schedule_list(""),),
    "string": (REMEMBERS, SIGN_INS),
}
"""Beginnings of keys of each type."""
_STREAMS = (
    "wake",
    "tools",
    "embed",
    "archive",
    "remember",
    "learn",
    "extract",
    "memory",
    "model-calls",
    "hooks",
    "erase",
    "events",
    "dead",
    "bell",
)
_IN_SHARD = {
    **dict.fromkeys(_STREAMS, "stream"),
    **dict.fromkeys(("timers", "sessions", "tasks", "queue", "webhooks-waiting", "webhook-due", "callbacks"), "zset"),
    **dict.fromkeys(("load", "places", "attempts", "session", "task", "user", "webhook", "webhook-cursors"), "hash"),
    **dict.fromkeys(("seen", "vector", "wanted", "callback", "webhook-lease"), "string"),
    "webhook-lane": "list",
}
_OF_ACTOR = {
    "push": "hash",
    "mail": "zset",
    "signals": "zset",
    "turns": "list",
    "log": "list",
    "steps": "list",
    "calls": "hash",
    "big": "hash",
    "walk": "string",
    "erased": "hash",
}
_ACTORS = ("session", "task")
_ACTOR_PARTS = 3
"""``task:TENANT:TASK``; what comes behind is one of the actor's other keys."""


class Trouble:
    """The last error of the connection, and what the server has refused lately."""

    def __init__(self) -> None:
        self.down: str | None = None
        """Why nothing is served; None as soon as something is."""
        self._down_since = 0.0
        self._refused: dict[str, float] = {}
        self.unfit: str | None = None
        """The change that a serving server needs; None when it needs none."""

    @property
    def text(self) -> str | None:
        """All of it on one line, or None."""
        if self._refused:
            limit = monotonic() - _STANDS_S
            self._refused = {text: at for text, at in self._refused.items() if at > limit}
        return "; ".join(self._refused) or self.down or self.unfit

    def note(self, error: Exception, words: str) -> str:
        """Keep an error in mind; returns it as it is said."""
        refusal = refusal_of(error)
        text = f"Redis is unavailable: {words}"
        if refusal is not None:
            if refusal.to_mend:
                _say.error(text, "%s", text)
            return self.refuse(text)
        if self.down is None:
            self._down_since = monotonic()
        self.down = text
        return text

    def refuse(self, text: str) -> str:
        """Keep what was refused in mind for a while; returns it."""
        if text in self._refused or len(self._refused) < _MAX_REFUSALS:
            self._refused[text] = monotonic()
        return text

    def over(self) -> None:
        """Note that Redis has served a command again."""
        _say.warning("over", "Redis serves again, after %.1f s", monotonic() - self._down_since)
        self.down = None


async def explained(error: Exception, command: Sequence[Word], wire: Wire) -> str:
    """An error with what is waited for, and the keys that it is about."""
    keys = list(dict.fromkeys(w for w in command if isinstance(w, str) and w.startswith(PREFIX)))[:_NAMED]
    text = text_of(error)
    if text.startswith("WRONGTYPE"):
        return said(error, "; ".join(await _strangers(keys, wire)))
    if refusal_of(error) is REFUSALS["NOPERM"]:
        return said(error, f"{command[0]!s} {' '.join(keys)}".strip())
    return said(error)


async def _strangers(keys: Sequence[str], wire: Wire) -> list[str]:
    try:
        kinds = await wire.ask_all([("TYPE", key) for key in keys])
    except (RedisError, OSError):
        return list(keys)
    return strangers({key: kind.decode() for key, kind in zip(keys, kinds, strict=True)})


def kind_of(key: str) -> str | None:
    """Return the type of value that a key of Pentad holds, as TYPE names it; None for an unknown key."""
    place = split_key(key)
    if place is None:
        return _OUTSIDE.get(key) or next((kind for kind, begins in _BEGINNINGS.items() if key.startswith(begins)), None)
    parts = place[1].split(":")
    if parts[0] in _ACTORS and len(parts) > _ACTOR_PARTS:
        return _OF_ACTOR.get(parts[_ACTOR_PARTS])
    return _IN_SHARD.get(parts[0])


def strangers(found: Mapping[str, str]) -> list[str]:
    """Return a line for each key with another type than it should have; without one, a line for each unknown key."""
    held = {key: kind for key, kind in found.items() if kind != "none"}
    wrong = [
        f"{key} is a {kind}, not a {kind_of(key)}" for key, kind in held.items() if kind_of(key) not in (None, kind)
    ]
    return wrong or [f"{key} is a {kind}" for key, kind in held.items() if kind_of(key) is None]
