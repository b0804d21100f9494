"""What kind of value each of our keys holds, to name the one that somebody else has written."""

from collections.abc import Mapping

from pentad.contracts.streams import INBOUND, INBOUND_DEAD, split_key
from pentad.shared.keys import (
    CLUSTER,
    FORGOTTEN_NOTES,
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
    REMEMBERS,
    TOOLS_REGISTRY,
    UNDOABLE,
)

_OUTSIDE = {
    INBOUND.key(): "stream",
    INBOUND_DEAD.key(): "stream",
    INBOUND_LEASE: "hash",
    INSTRUCTIONS_PUBLISHED: "hash",
    INSTRUCTIONS_REGISTRY: "hash",
    TOOLS_REGISTRY: "hash",
    MODELS_REGISTRY: "hash",
    MODEL_HEALTH: "hash",
    LOOP_HOLDS: "hash",
    FORGOTTEN_NOTES: "hash",
    MEMORY_COUNTS: "hash",
    MEMORY_REBUILD: "hash",
    MEMORY_REBUILD_LATER: "set",
    MEMORY_REBUILD_LEASE: "string",
    MEMORY_WAITS: "string",
    CLUSTER: "hash",
}
_STREAMS = (
    "wake",
    "tools",
    "embed",
    "archive",
    "remember",
    "learn",
    "extract",
    "memory",
    "erase",
    "events",
    "dead",
    "bell",
)
_IN_SHARD = {
    **dict.fromkeys(_STREAMS, "stream"),
    **dict.fromkeys(("timers", "sessions", "tasks", "queue"), "zset"),
    **dict.fromkeys(("load", "places", "attempts", "session", "task", "user"), "hash"),
    **dict.fromkeys(("seen", "vector"), "string"),
}
_OF_ACTOR = {
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


def kind_of(key: str) -> str | None:
    """What a key of ours holds, in the words of TYPE; None for a key that this table does not know."""
    place = split_key(key)
    if place is None:
        if key.startswith(UNDOABLE):
            return "hash"
        return "string" if key.startswith(REMEMBERS) else _OUTSIDE.get(key)
    parts = place[1].split(":")
    if parts[0] in _ACTORS and len(parts) > _ACTOR_PARTS:
        return _OF_ACTOR.get(parts[_ACTOR_PARTS])
    return _IN_SHARD.get(parts[0])


def strangers(found: Mapping[str, str]) -> list[str]:
    """Of keys and what they hold, those that hold something else than they should, each with both; else all."""
    held = {key: kind for key, kind in found.items() if kind != "none"}
    wrong = [
        f"{key} is a {kind}, not a {kind_of(key)}" for key, kind in held.items() if kind_of(key) not in (None, kind)
    ]
    return wrong or [f"{key} is a {kind}" for key, kind in held.items() if kind_of(key) is None]
