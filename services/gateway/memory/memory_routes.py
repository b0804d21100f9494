"""The routes of long-term memory, all in the tenant of the request."""

from typing import TYPE_CHECKING, Any

from pentad.contracts.ids import is_external_id
from pentad.contracts.memories import FoundMemory, MemoryKind
from pentad.services.gateway.domain.episode import read_episode
from pentad.services.gateway.domain.expansion import read_expansion
from pentad.services.gateway.domain.forget_request import read_forgetting, read_undo
from pentad.services.gateway.edge.http import (
    admin_only,
    answer,
    number_of,
    owner_of,
    read_asked,
    read_body,
    session_keys,
    tenant_of,
    time_of,
)
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import invalid
from pentad.services.gateway.edge.schemas import Json, gives, json_body, object_of, query, ref
from pentad.services.gateway.memory.forgetting import Forgetting, ForgettingUndo
from pentad.services.gateway.memory.knowledge import Knowledge
from pentad.services.gateway.memory.live_memory import LiveMemory
from pentad.services.gateway.memory.memories import Memories, found_memory
from pentad.services.gateway.memory.memory_turns import MemoryTurns
from pentad.services.gateway.memory.rebuilds import MemoryRebuilds
from pentad.services.gateway.memory.reindexing import Reindexing, read_reindexing
from pentad.services.gateway.memory.statements import Episodes
from pentad.shared.graph.traversal import MOST_DEPTH
from pentad.shared.keys import SessionKeys
from pentad.shared.memory.ranking import MOST_FOUND
from pentad.shared.memory.walk_choice import BY_RULE, CHOICES, DEFAULT_DEPTH, NO_WALK
from pentad.shared.owners import Owner
from pentad.shared.recall.questions import MOST_CHARS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

HITS_DEFAULT = 10

_EXPANSION: Json = {
    "type": "object",
    "properties": {
        "anchor": {"type": "string", "description": "the `anchor` of a hit, or its short form"},
        "window": {
            "type": "integer",
            "minimum": 0,
            "maximum": 50,
            "description": "segments on each side; 2 when missing",
        },
        "user_id": ref("ExternalId") | {"description": "with it, or a session, only what they see is shown"},
        "session_id": ref("ExternalId"),
        "whole": {"type": "boolean", "description": "with the task and its steps; without user and session alone"},
    },
    "required": ["anchor"],
}
_KIND: Json = query("kind", "string", "`working`, `episodic` or `semantic`; the last two when missing") | {
    "schema": {"enum": list(MemoryKind)}
}
_SESSION = query("session_id", "string", "the conversation whose working memory is meant; needed with that kind")
_READS_SESSION = query(
    "session_id",
    "string",
    "finds what was said in this session without a user, too; with kind `working`: the conversation, needed",
)
_EPISODE: Json = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "at most 65,536 characters"},
        "user_id": ref("ExternalId") | {"description": "who said it; shared by all of the tenant when missing"},
        "at": {"type": "string", "format": "date-time", "description": "when; now when missing"},
    },
    "required": ["text"],
}
_WHEN: Json = {"type": "string", "format": "date-time"}
_FORGETTING: Json = {
    "type": "object",
    "description": "at least one of the first five; meant is what meets all that are given",
    "properties": {
        "ids": {"type": "array", "items": {"type": "string"}, "maxItems": 100, "description": "the `id` of hits"},
        "task_id": ref("Id"),
        "since": _WHEN,
        "until": _WHEN | {"description": "the first moment that is not meant any more"},
        "importance_below": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "kind": {"enum": ["episodic", "semantic"], "description": "what was said, or what is known; both when missing"},
        "user_id": ref("ExternalId") | {"description": "of this user alone"},
        "cursor": {"type": "string", "description": "`next` of the answer before"},
    },
}
_UNDO: Json = {
    "type": "object",
    "required": ["anchor"],
    "properties": {
        "anchor": {"type": "string", "description": "the one that the model has given to `memory_forget`"},
        "user_id": ref("ExternalId") | {"description": "of this user alone"},
    },
}
_FORGOTTEN = object_of(forgotten={"type": "integer"}, next={"type": ["string", "null"]})
_REINDEXING: Json = {
    "type": "object",
    "properties": {
        "cursor": {"type": "string", "description": "`next` of the answer before"},
        "queue": {"type": "boolean", "description": "have an archiver embed those that are left; else only look"},
        "switch": {"type": "boolean", "description": "let the model in use's collection count, if it lacks nothing"},
        "force": {"type": "boolean", "description": "switch although it lacks something; the other one is kept"},
    },
}
_REINDEXED = object_of(
    collection={"type": "string"},
    current={"type": "string"},
    tasks={"type": "integer"},
    left={"type": "integer"},
    next={"type": ["string", "null"]},
    kept={"type": ["string", "null"], "description": "a collection that has more than the one that counts"},
    waits_for={"type": ["string", "null"], "description": "what an archiver waits for before it embeds what is left"},
)


class MemoryRoutes:
    """Routes that search the tenant's memory, open anchors, store episodes and give figures."""

    def __init__(
        self,
        memories: Memories,
        working: LiveMemory,
        knowledge: Knowledge,
        episodes: Episodes,
        turns: MemoryTurns,
        shards: int,
    ) -> None:
        self._memories, self._working, self._knowledge = memories, working, knowledge
        self._episodes, self._turns, self._shards = episodes, turns, shards

    @operation(
        "GET",
        "/v1/memory/search",
        "What was said in finished tasks that a question is about, the best first",
        query("q", "string", "the question", minLength=1, maxLength=2000) | {"required": True},
        query("limit", "integer", "hits; 10 when missing", minimum=1, maximum=100),
        query("user_id", "string", "finds this user's memories too, beside what the tenant shares"),
        query("as_of", "string", "RFC 3339: what had been said and was true then; else what is still true"),
        query(
            "strategy",
            "string",
            "how the graph is walked from what was found: `bfs`, `dfs`, `astar` from hits that are nodes "
            "and from names in the best hits; `none`: not; `auto` (when missing): from hits that are nodes, if "
            "some are among the best. When it is given, `tasks` says which tasks all of it is from",
        ),
        query("tasks", "boolean", "`true`: with `tasks`, each with the task itself, if it is the reader's"),
        query("depth", "integer", "edges of a walk that is asked for; 2 when missing", minimum=0, maximum=6),
        _KIND,
        _READS_SESSION,
        problems=(422,),
        _200=gives("", ref("RecalledMemories")),
    )
    async def search_memory(self, request: "Request") -> "Response":
        """Return the memories that a question finds, the best first."""
        question = request.query_params.get("q", "")
        if not 1 <= len(question) <= MOST_CHARS:
            raise invalid(f"q must be a question of 1 to {MOST_CHARS} characters")
        limit, owner, kind = (
            number_of(request, "limit", HITS_DEFAULT, 1, MOST_FOUND),
            owner_of(request),
            _kind_of(request),
        )
        if kind is MemoryKind.WORKING:
            keys = _session_of(request, self._shards)
            async with self._turns.turn(owner.tenant):
                said_now = await self._working.search(keys, owner.user, question, limit)
            return answer({"hits": [_told(found_memory(hit)) for hit in said_now], "tasks": []})
        strategy, depth = (
            request.query_params.get("strategy"),
            number_of(request, "depth", DEFAULT_DEPTH, 0, MOST_DEPTH),
        )
        if strategy is not None and strategy not in CHOICES:
            raise invalid(f"strategy must be one of {', '.join(CHOICES)}")
        with_tasks = _is_asked(request, "tasks")
        as_of, kinds = time_of(request, "as_of"), () if kind is None else (kind.value,)
        walk = NO_WALK if kind is MemoryKind.EPISODIC else strategy or BY_RULE  # a walk comes to what is known
        async with self._turns.turn(owner.tenant):
            found = await self._memories.search(owner, question, limit, as_of, walk, depth, kinds)
            if with_tasks:
                found = await self._memories.with_tasks(owner, found)
        hits: dict[str, Any] = {"hits": [_told(hit) for hit in found.hits]}
        if strategy is None and not with_tasks:
            return answer(hits)
        left_out = None if with_tasks else {"task"}
        return answer(hits | {"tasks": [task.model_dump(mode="json", exclude=left_out) for task in found.tasks]})

    @operation(
        "POST",
        "/v1/memory/expand",
        "The very words that an anchor points at, and what stands before and after them in their task",
        body=json_body(_EXPANSION),
        problems=(400, 404, 410, 413, 415, 422),
        _200=gives("", ref("OpenedAnchor")),
    )
    async def expand_anchor(self, request: "Request") -> "Response":
        """Return the exact words at an anchor, with the segments around them."""
        tenant = tenant_of(request)
        asked = await read_asked(request, read_expansion)
        reader = Owner(tenant, asked.user, asked.session)
        async with self._turns.turn(tenant):
            opened = await self._memories.expand(reader, asked.anchor, asked.window, whole=asked.whole)
        return answer(opened.model_dump(mode="json", exclude=None if asked.whole else {"whole"}))

    @operation(
        "POST",
        "/v1/memory/episodes",
        "Keep what was said elsewhere: it is found a moment later. With the same time it is the same one",
        body=json_body(_EPISODE),
        problems=(400, 413, 415, 422),
        _202=gives("where it is", ref("KeptEpisode")),
    )
    async def keep_episode(self, request: "Request") -> "Response":
        """Store an episode: words that were said elsewhere."""
        tenant = tenant_of(request)
        asked = await read_asked(request, read_episode)
        return answer((await self._episodes.keep(tenant, asked)).model_dump(mode="json"), 202)

    @operation(
        "GET",
        "/v1/memory/stats",
        "How much is remembered. With `kind` the figures of that alone",
        _KIND,
        _SESSION,
        problems=(422,),
        _200=gives("", ref("MemoryStats")),
    )
    async def memory_stats(self, request: "Request") -> "Response":
        """Return the size of the memory, of one kind or of all lasting kinds."""
        async with self._turns.turn(tenant_of(request)):
            return await self._stats(request)

    async def _stats(self, request: "Request") -> "Response":
        tenant, kind = tenant_of(request), _kind_of(request)
        if kind is MemoryKind.WORKING:
            found = await self._working.counts(_session_of(request, self._shards))
        elif kind is MemoryKind.EPISODIC:
            found = await self._memories.said(tenant)
        elif kind is MemoryKind.SEMANTIC:
            known = await self._knowledge.tally(tenant)
            return answer({"nodes": known.nodes - known.names, "edges": known.edges, "names": known.names})
        else:
            return answer((await self._memories.stats(tenant)).model_dump(mode="json"))
        return answer({"segments": found.segments, "tasks": found.tasks})


class ForgettingRoutes:
    """Routes that forget memories, and undo forgetting by models."""

    def __init__(self, forgetting: Forgetting, undo: ForgettingUndo, turns: MemoryTurns) -> None:
        self._forgetting, self._undo, self._turns = forgetting, undo, turns

    @operation(
        "POST",
        "/v1/memory/forget",
        "Let what was said, and what is known, not be found any more. One request looks at 1,000 segments, or "
        "200 nodes; go on while `next` is there",
        body=json_body(_FORGETTING),
        problems=(400, 413, 415, 422),
        _202=gives("how many of them were forgotten, and where to go on", _FORGOTTEN),
    )
    async def forget_memories(self, request: "Request") -> "Response":
        """Forget memories, so that no search finds them."""
        tenant = tenant_of(request)
        asked = await read_asked(request, read_forgetting)
        async with self._turns.turn(tenant):
            page = await self._forgetting.forget(tenant, asked)
        return answer({"forgotten": page.forgotten, "next": page.next}, 202)

    @operation(
        "POST",
        "/v1/memory/unforget",
        "Let be found again what a model has had forgotten (`memory_forget`) within the last day. It comes "
        "back from the records a moment later",
        body=json_body(_UNDO),
        problems=(400, 404, 413, 415, 422),
        _202=gives("how many memories come back", object_of(restored={"type": "integer"})),
    )
    async def unforget_memories(self, request: "Request") -> "Response":
        """Restore memories that a model had forgotten."""
        tenant = tenant_of(request)
        asked = await read_asked(request, read_undo)
        async with self._turns.turn(tenant):
            restored = await self._undo.undo(tenant, asked.anchor, asked.user)
        return answer({"restored": restored}, 202)


class UpkeepRoutes:
    """Routes by which an operator maintains the memory of all tenants."""

    def __init__(self, reindexing: Reindexing, rebuilds: MemoryRebuilds) -> None:
        self._reindexing, self._rebuilds = reindexing, rebuilds

    @operation(
        "POST",
        "/v1/memory/reindex",
        "Have the memory embedded anew with the model in use, 500 tasks a request; go on while `next` is "
        "there. With `switch` what was embedded counts from now on, and what was there before is removed if it "
        "lacks nothing of any tenant (else 409). "
        "Needs the admin key, PENTAD_ADMIN_KEY, as a bearer token",
        body=json_body(_REINDEXING),
        problems=(400, 409, 413, 415, 422),
        _202=gives("how many of these tasks are left, and where to go on", _REINDEXED),
    )
    async def reindex_memory(self, request: "Request") -> "Response":
        """Embed a page of the memory with the model in use, or switch to its collection."""
        admin_only(request)
        cursor, queue, switch, force = read_reindexing(await read_body(request))
        done = await (self._reindexing.switch(force=force) if switch else self._reindexing.page(cursor, queue=queue))
        told = {"collection": done.collection, "current": done.current, "tasks": done.tasks, "left": done.left}
        return answer(told | {"next": done.next, "kept": done.kept, "waits_for": done.waits_for}, 202)

    @operation(
        "POST",
        "/v1/memory/rebuild",
        "Have the memory of all tenants rebuilt from their records and from the tasks in Redis, where its "
        "stores were emptied or damaged. One that goes on is gone on with. Needs the admin key, "
        "PENTAD_ADMIN_KEY, as a bearer token",
        _202=gives("how far it is", ref("MemoryRebuild")),
    )
    async def rebuild_memory(self, request: "Request") -> "Response":
        """Start a rebuild of the memory, unless one is running."""
        admin_only(request)
        return answer((await self._rebuilds.start()).model_dump(mode="json"), 202)

    @operation(
        "GET",
        "/v1/memory/rebuild",
        "How far a rebuild of the memory is, and what is wrong with its stores. Needs the admin key, "
        "PENTAD_ADMIN_KEY, as a bearer token",
        _200=gives("", ref("MemoryRebuild")),
    )
    async def rebuild_progress(self, request: "Request") -> "Response":
        """Return the progress of a rebuild of the memory."""
        admin_only(request)
        return answer((await self._rebuilds.progress()).model_dump(mode="json"))


def _told(hit: FoundMemory) -> dict[str, Any]:
    """Return a hit as JSON without absent fields, but always with ``at``."""
    return hit.model_dump(mode="json", exclude_none=True) | {"at": hit.at}


def _is_asked(request: "Request", name: str) -> bool:
    text = request.query_params.get(name, "false")
    if text not in ("true", "false"):
        raise invalid(f"{name} must be true or false")
    return text == "true"


def _kind_of(request: "Request") -> MemoryKind | None:
    """Return the kind that the query names; None: all lasting kinds. Raises ``ProblemError`` (422)."""
    kind = request.query_params.get("kind")
    try:
        return None if kind is None else MemoryKind(kind)
    except ValueError:
        raise invalid(f"kind must be one of {', '.join(MemoryKind)}") from None


def _session_of(request: "Request", shards: int) -> SessionKeys:
    """Return the keys of the conversation whose working memory is wanted. Raises ``ProblemError`` (422)."""
    session = request.query_params.get("session_id", "")
    if not is_external_id(session):
        raise invalid("session_id must name the conversation whose working memory is meant")
    return session_keys(tenant_of(request), session, shards)
