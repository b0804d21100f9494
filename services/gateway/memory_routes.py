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
    tenant_of,
    time_of,
)
from pentad.services.gateway.edge.problems import invalid
from pentad.services.gateway.memory.memories import found_memory
from pentad.services.gateway.memory.reindexing import read_reindexing
from pentad.services.gateway.parts import Parts
from pentad.shared.graph.traversal import MOST_DEPTH
from pentad.shared.keys import SessionKeys
from pentad.shared.memory.searching import MOST_FOUND
from pentad.shared.memory.walk_choice import BY_RULE, CHOICES, DEPTH, NO_WALK
from pentad.shared.owners import Owner
from pentad.shared.recall.questions import MOST_CHARS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

HITS_DEFAULT = 10


async def search_memory(parts: Parts, request: "Request") -> "Response":
    """What a question finds, the best first."""
    question = request.query_params.get("q", "")
    if not 1 <= len(question) <= MOST_CHARS:
        raise invalid(f"q must be a question of 1 to {MOST_CHARS} characters")
    limit, owner, kind = number_of(request, "limit", HITS_DEFAULT, 1, MOST_FOUND), owner_of(request), _kind_of(request)
    if kind is MemoryKind.WORKING:
        keys = _session_of(parts, request)
        async with parts.memory_turn(owner.tenant):
            said_now = await parts.working.search(keys, owner.user, question, limit)
        return answer({"hits": [_told(found_memory(hit)) for hit in said_now], "tasks": []})
    strategy, depth = request.query_params.get("strategy"), number_of(request, "depth", DEPTH, 0, MOST_DEPTH)
    if strategy is not None and strategy not in CHOICES:
        raise invalid(f"strategy must be one of {', '.join(CHOICES)}")
    as_of, kinds = time_of(request, "as_of"), () if kind is None else (kind.value,)
    walk = NO_WALK if kind is MemoryKind.EPISODIC else strategy or BY_RULE  # a walk comes to what is known
    async with parts.memory_turn(owner.tenant):
        found = await parts.memories.search(owner, question, limit, as_of, walk, depth, kinds)
    hits: dict[str, Any] = {"hits": [_told(hit) for hit in found.hits]}
    return answer(
        hits if strategy is None else hits | {"tasks": [task.model_dump(mode="json") for task in found.tasks]}
    )


def _told(hit: FoundMemory) -> dict[str, Any]:
    """Times are told of what is known alone."""
    return hit.model_dump(mode="json", exclude_none=True) | {"at": hit.at}


async def expand_anchor(parts: Parts, request: "Request") -> "Response":
    """The very words that an anchor points at, in their place."""
    tenant = tenant_of(request)
    asked = await read_asked(request, read_expansion)
    reader = Owner(tenant, asked.user, asked.session)
    async with parts.memory_turn(tenant):
        opened = await parts.memories.expand(reader, asked.anchor, asked.window)
    return answer(opened.model_dump(mode="json"))


async def forget_memories(parts: Parts, request: "Request") -> "Response":
    """Let segments not be found any more."""
    tenant = tenant_of(request)
    asked = await read_asked(request, read_forgetting)
    async with parts.memory_turn(tenant):
        page = await parts.forgetting.forget(tenant, asked)
    return answer({"forgotten": page.forgotten, "next": page.next}, 202)


async def unforget_memories(parts: Parts, request: "Request") -> "Response":
    """Let be found again what a model had forgotten."""
    tenant = tenant_of(request)
    asked = await read_asked(request, read_undo)
    async with parts.memory_turn(tenant):
        restored = await parts.unforgetting.undo(tenant, asked.anchor, asked.user)
    return answer({"restored": restored}, 202)


async def reindex_memory(parts: Parts, request: "Request") -> "Response":
    """Have the memory embedded anew, a page of it; or let what was embedded count."""
    admin_only(request)
    cursor, queue, switch, force = read_reindexing(await read_body(request))
    done = await (parts.reindexing.switch(force=force) if switch else parts.reindexing.page(cursor, queue=queue))
    told = {"collection": done.collection, "current": done.current, "tasks": done.tasks, "left": done.left}
    return answer(told | {"next": done.next, "kept": done.kept, "waits_for": done.waits_for}, 202)


async def rebuild_memory(parts: Parts, request: "Request") -> "Response":
    """Have the memory rebuilt, unless that goes on already."""
    admin_only(request)
    return answer((await parts.rebuilds.start()).model_dump(mode="json"), 202)


async def rebuild_progress(parts: Parts, request: "Request") -> "Response":
    """How far a rebuild of the memory is."""
    admin_only(request)
    return answer((await parts.rebuilds.progress()).model_dump(mode="json"))


async def keep_episode(parts: Parts, request: "Request") -> "Response":
    """Keep what was said elsewhere."""
    tenant = tenant_of(request)
    asked = await read_asked(request, read_episode)
    return answer((await parts.episodes.keep(tenant, asked)).model_dump(mode="json"), 202)


async def memory_stats(parts: Parts, request: "Request") -> "Response":
    """How much is remembered, of one kind or of what lasts."""
    async with parts.memory_turn(tenant_of(request)):
        return await _stats(parts, request)


async def _stats(parts: Parts, request: "Request") -> "Response":
    tenant, kind = tenant_of(request), _kind_of(request)
    if kind is MemoryKind.WORKING:
        found = await parts.working.counts(_session_of(parts, request))
    elif kind is MemoryKind.EPISODIC:
        found = await parts.memories.said(tenant)
    elif kind is MemoryKind.SEMANTIC:
        known = await parts.knowledge.tally(tenant)
        return answer({"nodes": known.nodes, "edges": known.edges})
    else:
        return answer((await parts.memories.stats(tenant)).model_dump(mode="json"))
    return answer({"segments": found.segments, "tasks": found.tasks})


def _kind_of(request: "Request") -> MemoryKind | None:
    """The kind that the query names; None: all that lasts. Raises ``ProblemError`` (422)."""
    kind = request.query_params.get("kind")
    try:
        return None if kind is None else MemoryKind(kind)
    except ValueError:
        raise invalid(f"kind must be one of {', '.join(MemoryKind)}") from None


def _session_of(parts: Parts, request: "Request") -> SessionKeys:
    """The conversation whose working memory is meant. Raises ``ProblemError`` (422)."""
    session = request.query_params.get("session_id", "")
    if not is_external_id(session):
        raise invalid("session_id must name the conversation whose working memory is meant")
    return parts.session(tenant_of(request), session)
