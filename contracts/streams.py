"""The registry of streams: the key of each, the contracts that it carries, its writers and readers, and its retention.

Keys that are committed together share the hash tag ``{shard}``; ``pentad:inbound`` and ``pentad:dead`` have none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from pentad.contracts.commands import (
    EmbedCommand,
    EmbedReply,
    EraseCommand,
    InboundMessage,
    MemoryReply,
    MemoryRequest,
    ModelCallCommand,
    ModelCallReply,
    ToolCallCommand,
    WakeUp,
)
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.envelope import Contract
from pentad.contracts.events import (
    ApprovalEvent,
    ApprovalRequest,
    Compacted,
    Content,
    ControlResult,
    ErrorEvent,
    MessageEvent,
    MessageMoved,
    MessageRouted,
    NodeEnd,
    NodeStart,
    Snapshot,
    TaskEnd,
    TaskStart,
    TaskStatusEvent,
    Thinking,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
)
from pentad.contracts.hooks import HookCommand, HookReply

Service = Literal["gateway", "router", "task-runner", "tool-worker", "embedding", "archiver"]
SERVICES: tuple[Service, ...] = ("gateway", "router", "task-runner", "tool-worker", "embedding", "archiver")
Retention = Literal["consumed", "capped", "kept"]


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of the registry."""

    name: str
    template: str
    """Template of the key; ``{shard}``, ``{tenant}``, ``{session}``, ``{queue}`` and ``{reply}`` are replaced."""
    description: str
    carries: tuple[type[Contract], ...]
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    group: str | None
    """Name of the consumer group; None if every reader has a cursor of its own."""
    dead: str | None
    """Name of the stream that takes the dead letters."""
    retention: Retention
    """Rule by which entries are removed. ``consumed``: after every group has consumed them. ``capped``: by length and
    TTL. ``kept``: only by a person."""

    def key(self, shard: int = 0, **parts: str) -> str:
        """Return the Redis key, in which the shard's hash tag has literal braces."""
        key = _of_shard(self.template, shard)
        for name, value in parts.items():
            key = key.replace(f"{{{name}}}", value)
        return key


@lru_cache(maxsize=1024)
def _of_shard(template: str, shard: int) -> str:
    return template.replace("{shard}", f"{{{shard}}}")


INBOUND = Stream(
    "inbound",
    "pentad:inbound",
    "Messages of users, from the gateway or any Redis client, in the order they are routed within a session.",
    (InboundMessage,),
    ("gateway", "any producer"),
    ("router",),
    "router",
    "inbound-dead",
    "consumed",
)
INBOUND_DEAD = Stream(
    "inbound-dead",
    "pentad:dead",
    "Inbound entries that cannot be read, with the reason.",
    (DeadLetter,),
    ("router",),
    ("a person",),
    None,
    None,
    "kept",
)
SESSION_WAKE = Stream(
    "session-wake",
    "pentad:{shard}:wake:session",
    "Sessions with mail, for any router.",
    (WakeUp,),
    ("router", "gateway"),
    ("router",),
    "router",
    "dead",
    "consumed",
)
TASK_WAKE = Stream(
    "task-wake",
    "pentad:{shard}:wake:task",
    "Tasks with mail, for any task-runner.",
    (WakeUp,),
    ("router", "task-runner", "tool-worker", "gateway"),
    ("task-runner",),
    "task-runner",
    "dead",
    "consumed",
)
TOOL_CALLS = Stream(
    "tool-calls",
    "pentad:{shard}:tools:{queue}",
    "Tool calls of one queue, for any tool-worker that serves it.",
    (ToolCallCommand,),
    ("task-runner", "tool-worker"),
    ("tool-worker",),
    "tool-worker",
    "dead",
    "consumed",
)
EMBED = Stream(
    "embed",
    "pentad:{shard}:embed",
    "Texts to embed, for any embedding service.",
    (EmbedCommand,),
    ("archiver", "task-runner", "tool-worker", "router", "gateway"),
    ("embedding",),
    "embedding",
    "dead",
    "consumed",
)
EMBED_REPLY = Stream(
    "embed-reply",
    "pentad:{shard}:embed:reply:{reply}",
    "Vectors for one caller; ends with its TTL.",
    (EmbedReply,),
    ("embedding",),
    ("archiver", "task-runner", "tool-worker", "router", "gateway"),
    None,
    None,
    "capped",
)
ARCHIVE = Stream(
    "archive",
    "pentad:{shard}:archive",
    "Tasks that ended and whose grace time is over, for any archiver.",
    (WakeUp,),
    ("task-runner",),
    ("archiver",),
    "archiver",
    "dead",
    "consumed",
)
REMEMBER = Stream(
    "remember",
    "pentad:{shard}:remember",
    "Tasks that ended, to be written to long-term memory by any archiver that has it.",
    (WakeUp,),
    ("task-runner", "archiver", "gateway", "tool-worker"),
    ("archiver",),
    "archiver",
    "dead",
    "consumed",
)
LEARN = Stream(
    "learn",
    "pentad:{shard}:learn",
    "Remembered tasks whose knowledge is to be written to the graph by any archiver that has it.",
    (WakeUp,),
    ("archiver",),
    ("archiver",),
    "archiver",
    "dead",
    "consumed",
)
EXTRACT = Stream(
    "extract",
    "pentad:{shard}:extract",
    "Archived tasks in which a model looks for knowledge, for any archiver that has the graph.",
    (WakeUp,),
    ("archiver",),
    ("archiver",),
    "archiver",
    "dead",
    "consumed",
)
MEMORY = Stream(
    "memory",
    "pentad:{shard}:memory",
    "Calls of the embedded memory, vectors or graph, for the archiver that has it; unanswered ones are taken back.",
    (MemoryRequest,),
    ("gateway", "task-runner", "tool-worker", "archiver"),
    ("archiver",),
    "archiver",
    "dead",
    "consumed",
)
MEMORY_REPLY = Stream(
    "memory-reply",
    "pentad:{shard}:memory:reply:{reply}",
    "Results of calls to the memory for one caller; ends with its TTL.",
    (MemoryReply,),
    ("archiver",),
    ("gateway", "task-runner", "tool-worker", "archiver"),
    None,
    None,
    "capped",
)
MODEL_CALLS = Stream(
    "model-calls",
    "pentad:{shard}:model-calls",
    "Model calls outside a conversation, for any task-runner; unanswered ones are taken back.",
    (ModelCallCommand,),
    ("gateway",),
    ("task-runner",),
    "task-runner",
    "dead",
    "consumed",
)
MODEL_CALLS_REPLY = Stream(
    "model-calls-reply",
    "pentad:{shard}:model-calls:reply:{reply}",
    "Answers to model calls for one caller; ends with its TTL.",
    (ModelCallReply,),
    ("task-runner",),
    ("gateway",),
    None,
    None,
    "capped",
)
HOOKS = Stream(
    "hooks",
    "pentad:{shard}:hooks",
    "Hooks to be run for a step of a task, or told of its end, for any tool-worker that has them.",
    (HookCommand,),
    ("task-runner", "tool-worker"),
    ("tool-worker",),
    "tool-worker",
    "dead",
    "consumed",
)
HOOKS_REPLY = Stream(
    "hooks-reply",
    "pentad:{shard}:hooks:reply:{reply}",
    "Outcomes of hooks for one caller; ends with its TTL.",
    (HookReply,),
    ("tool-worker",),
    ("task-runner",),
    None,
    None,
    "capped",
)
ERASE = Stream(
    "erase",
    "pentad:{shard}:erase",
    "Requests to erase data everywhere, for any archiver: sessions and tasks in their shard, users in the first.",
    (EraseCommand,),
    ("gateway",),
    ("archiver",),
    "archiver",
    "dead",
    "consumed",
)
EVENTS = Stream(
    "events",
    "pentad:{shard}:events:{tenant}:{session}",
    "Events for a session's clients. The entry id is the cursor.",
    (
        MessageRouted,
        ControlResult,
        MessageMoved,
        Compacted,
        TaskStart,
        Thinking,
        Content,
        MessageEvent,
        ToolCallEvent,
        ToolProgress,
        ToolResultEvent,
        ApprovalRequest,
        ApprovalEvent,
        TaskStatusEvent,
        NodeStart,
        NodeEnd,
        TaskEnd,
        Snapshot,
        ErrorEvent,
    ),
    ("router", "task-runner", "tool-worker", "gateway"),
    ("gateway",),
    None,
    None,
    "capped",
)
DEAD = Stream(
    "dead",
    "pentad:{shard}:dead",
    "Entries of the shard's work streams that failed for good, with reason and causation.",
    (DeadLetter,),
    ("router", "task-runner", "tool-worker", "embedding", "archiver"),
    ("a person",),
    None,
    None,
    "kept",
)

STREAMS: Mapping[str, Stream] = MappingProxyType(
    {
        s.name: s
        for s in (
            INBOUND,
            INBOUND_DEAD,
            SESSION_WAKE,
            TASK_WAKE,
            TOOL_CALLS,
            EMBED,
            EMBED_REPLY,
            ARCHIVE,
            REMEMBER,
            LEARN,
            EXTRACT,
            MEMORY,
            MEMORY_REPLY,
            MODEL_CALLS,
            MODEL_CALLS_REPLY,
            HOOKS,
            HOOKS_REPLY,
            ERASE,
            EVENTS,
            DEAD,
        )
    }
)

IN_SHARDS = "pentad:{*}:*"
"""Redis pattern that matches all keys of all shards, those of streams and others."""
_IN_SHARD = re.compile(r"pentad:\{(\d+)\}:(.+)")


def split_key(key: str) -> tuple[int, str] | None:
    """Return the shard of a key and the rest of its name; None for a key that has no shard."""
    found = _IN_SHARD.fullmatch(key)
    return (int(found[1]), found[2]) if found else None


def queues_of(shard: int, tool_queues: tuple[str, ...]) -> list[tuple[Stream, str]]:
    """Return every work stream of a shard with its key: these are trimmed, watched and given consumer groups."""
    work = (SESSION_WAKE, TASK_WAKE, EMBED, ARCHIVE, REMEMBER, LEARN, EXTRACT, MEMORY, MODEL_CALLS, HOOKS, ERASE)
    fixed = [(stream, stream.key(shard)) for stream in work]
    return fixed + [(TOOL_CALLS, TOOL_CALLS.key(shard, queue=queue)) for queue in tool_queues]


def tool_queue_of(key: str) -> str | None:
    """Return the queue of tool calls that a stream's key names; None for the key of any other stream."""
    _, rest = split_key(key) or (0, "")
    kind, _, queue = rest.partition(":")
    return queue if kind == "tools" and queue else None


def work_stream(key: str) -> Stream | None:
    """Return the work stream of a shard that has this key; None for any other key, and for a queue of tool calls."""
    shard = (split_key(key) or (0, ""))[0]
    return next((stream for stream, its_key in queues_of(shard, ()) if its_key == key), None)
