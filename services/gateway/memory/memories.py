"""Long-term memory for clients: search, opening of anchors, and the size and the lag of the memory."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pentad.contracts.ids import milliseconds, rfc3339, shard_of
from pentad.contracts.memories import (
    ExtractionToday,
    FoundMemory,
    MemoryStats,
    OpenedAnchor,
    PathEdge,
    QuotedSegment,
    RecalledMemories,
    RecalledTask,
    WholeTask,
)
from pentad.contracts.records import Task, TaskStep
from pentad.contracts.streams import LEARN, REMEMBER
from pentad.services.gateway.edge.http import PAGE_LIMIT
from pentad.services.gateway.edge.problems import busy, invalid, missing
from pentad.services.gateway.memory.knowledge import Knowledge
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.step_list import StepList
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.errors import DamagedError, MemoryOutageError, MemoryRefusedError
from pentad.shared.graph.knowledge import Tally, WalkedEdge
from pentad.shared.memory.extraction_budget import spent_today
from pentad.shared.memory.nodes import stored_metadata
from pentad.shared.memory.points import NODE_KIND
from pentad.shared.memory.ranking import MemoryHit, MemoryQuestion
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.true_times import times_kept
from pentad.shared.memory.walk_choice import requested_walk
from pentad.shared.memory.walks import HitWalks, WalkedMemories
from pentad.shared.models.ports import ModelFailed
from pentad.shared.owners import TENANT_HOLDER, Owner
from pentad.shared.segments.anchors import BadAnchorError, anchor_of, anchor_text, short_place
from pentad.shared.segments.expansion import ExpandedAnchor, expanded, segment_at
from pentad.shared.segments.segment import Segment
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.stream_states import oldest_waiting

_say = ThrottledLog(logging.getLogger(__name__))

_SESSION = "memory"
"""Session name for texts that are embedded for no conversation."""


class MemoryLag:
    """Measures how late tasks are remembered and learned from. Raises ``OutageError`` if Redis is unavailable."""

    def __init__(self, store: Store, shards: int) -> None:
        self._store, self._shards = store, shards

    async def seconds(self) -> float:
        """Return the seconds that the longest waiting task of all tenants waits for either; 0: none waits."""
        now = await self._store.clock()
        waiting = [
            oldest_waiting(self._store, stream, stream.key(shard))
            for stream in (REMEMBER, LEARN)
            for shard in range(self._shards)
        ]
        oldest = await asyncio.gather(*waiting)
        return max((max(0, now - at) / 1000 for at in oldest if at is not None), default=0.0)


class Memories:
    """Reads memory. Methods raise ``OutageError`` if a store is unavailable, and ``ProblemError``."""

    def __init__(
        self,
        store: Store,
        queries: Queries,
        vectors: Vectors,
        embedder: Embedder,
        knowledge: Knowledge,
        walks: HitWalks,
        shards: int,
    ) -> None:
        self._store, self._queries, self._knowledge, self._shards = store, queries, knowledge, shards
        self._vectors, self._embedder, self._steps = vectors, embedder, StepList(queries)
        self._memory, self._walks, self._lag = MemorySearch(vectors, embedder), walks, MemoryLag(store, shards)

    async def search(
        self,
        owner: Owner,
        question: str,
        limit: int,
        as_of: int | None,
        strategy: str,
        depth: int,
        kinds: tuple[str, ...] = (),
    ) -> RecalledMemories:
        """Return the memories that the owner may see and a question finds, the best first.

        ``as_of``: time for which memories must be true; ``strategy``: one of `walk_choice.CHOICES`; ``depth``: depth of
        a requested walk; ``kinds``: kinds of memories, empty for all.
        """
        now_ms = milliseconds(await self._store.now())
        asked = MemoryQuestion(owner, question, limit, now_ms, as_of=as_of, kinds=kinds)
        try:
            hits = await self._memory.search(asked, self._requester(owner))
            walked = await self._walks.walked(asked, hits, requested_walk(strategy, depth, hits))
            return _recalled(walked, now_ms if as_of is None else as_of)
        except MemoryRefusedError as error:
            raise invalid(str(error)) from None
        except ModelFailed as error:
            raise busy(f"the question cannot be compared with what was said: {error}", outage=True) from None

    async def stats(self, tenant: str) -> MemoryStats:
        """Return the size of the tenant's memory, of all owners, and the lag of the whole memory.

        The graph may be away alone, when it is on a server of its own: then its figures are missing.
        """
        found, known = await asyncio.gather(self.said(tenant), self._tally(tenant))
        lag_s = round(await self._lag.seconds(), 3)
        spent = await spent_today(self._store, tenant)
        today = None if spent is None else ExtractionToday(tokens=spent.tokens, most=spent.most, refused=spent.refused)
        nodes, edges = (None, None) if known is None else (known.nodes, known.edges)
        more = {"nodes": nodes, "edges": edges, "lag_s": lag_s, "extraction": today}
        return found.model_copy(update=more)

    async def _tally(self, tenant: str) -> Tally | None:
        try:
            return await self._knowledge.tally(tenant)
        except MemoryOutageError as error:
            _say.warning("graph", "the size of the graph is not told: %s", error)
            return None

    async def said(self, tenant: str) -> MemoryStats:
        """Return the size of the tenant's episodic memory."""
        try:
            return await self._memory.counts(Owner(tenant), self._requester(Owner(tenant)))
        except ModelFailed as error:
            raise busy(f"which memory is in use is not known: {error}", outage=True) from None

    async def knows_session(self, tenant: str, session: str) -> bool:
        """Return whether any memory of a session exists, whichever model embedded it."""
        selection = Selection(Owner(tenant), Whose.ALL, sessions=(session,))
        for there in await self._vectors.collections():
            if await self._vectors.count(there.name, selection):
                return True
        return False

    async def with_tasks(self, reader: Owner, found: RecalledMemories) -> RecalledMemories:
        """Return what a search has found with its tasks themselves, those that the reader may see."""
        tasks = await asyncio.gather(*(self._with_task(reader, each) for each in found.tasks))
        return found.model_copy(update={"tasks": tasks})

    async def _with_task(self, reader: Owner, recalled: RecalledTask) -> RecalledTask:
        try:
            task = await self._queries.task(reader.tenant, recalled.task_id)
        except DamagedError:
            task = None
        if task is None or not _may_see(reader, task):
            return recalled
        return recalled.model_copy(update={"task": task})

    async def expand(self, reader: Owner, text: str, window: int, *, whole: bool = False) -> OpenedAnchor:
        """Return the words at an anchor or at its short form, from the live task or else from its record.

        A reader who names a user or a session gets what these may see; one who names neither gets everything of the
        tenant, whose transcripts he may read anyway. ``whole``: with the task and its steps, for one who names neither.
        """
        tenant, sees_all = reader.tenant, reader.holder is None
        if whole and not sees_all:
            raise invalid("whole: all of a task is shown to nobody in particular: leave user_id and session_id out")
        short = short_place(text)
        try:
            task_id = anchor_of(text).task_id if short is None else short[0]
        except BadAnchorError as error:
            raise invalid(f"anchor: {error}") from None
        messages = await self._queries.transcript(tenant, task_id)
        if messages is None:
            raise missing("there is no such task: this anchor opens nothing")
        try:
            opened = await asyncio.to_thread(_opened, tenant, text, messages, window)
        except BadAnchorError as error:
            raise missing(str(error)) from None
        if not (sees_all or reader.sees(opened.focus.holder)):
            raise missing("there is no such memory of this user or session: this anchor opens nothing for them")
        before, after = (
            [_quoted(each) for each in side if sees_all or reader.sees(each.holder)]
            for side in (opened.before, opened.after)
        )
        return OpenedAnchor(
            anchor=anchor_text(opened.focus.anchor),
            focus=_quoted(opened.focus),
            before=before,
            after=after,
            place=opened.focus.anchor,
            short=opened.focus.anchor.short,
            whole=await self._whole(tenant, task_id) if whole else None,
        )

    async def _whole(self, tenant: str, task_id: str) -> WholeTask | None:
        """Return a task with its steps; None if it was erased meanwhile."""
        task = await self._queries.task(tenant, task_id)
        page = await self._steps.page(tenant, task_id, PAGE_LIMIT, 0)
        if task is None or page is None:
            return None
        return WholeTask(task=task, steps=[TaskStep.model_validate(step) for step in page.items], next=page.next)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._vectors.aclose()
        await self._embedder.aclose()

    def _requester(self, owner: Owner) -> Requester:
        shard = shard_of(owner.tenant, _SESSION, self._shards)
        return Requester(shard, owner.tenant, _SESSION, cached_for=owner.holder or TENANT_HOLDER)


def _opened(tenant: str, text: str, messages: Sequence[Mapping[str, Any]], window: int) -> ExpandedAnchor:
    """Return the words at an anchor or at its short form. Raises `BadAnchorError`."""
    short = short_place(text)
    anchor = anchor_of(text) if short is None else segment_at(tenant, *short, messages).anchor
    return expanded(tenant, anchor, messages, window)


def _may_see(reader: Owner, task: Task) -> bool:
    """Whether a task is the reader's: begun by their user, or in their session by nobody in particular. One who names
    neither reads all of the tenant."""
    if reader.holder is None:
        return True
    return task.session_id == reader.session if task.user_id is None else task.user_id == reader.user


def _recalled(walked: WalkedMemories, moment: int) -> RecalledMemories:
    tasks = [
        RecalledTask(task_id=each.task, at=rfc3339(each.at) if each.at else None, hits=list(each.hits))
        for each in walked.tasks
    ]
    return RecalledMemories(hits=[found_memory(hit, moment) for hit in walked.hits], tasks=tasks)


def found_memory(hit: MemoryHit, moment: int = 0) -> FoundMemory:
    """Return a hit in the form that clients get. ``moment``: time by which one of a node's times is chosen."""
    kept = hit.payload
    begin, end = (times_kept(kept).nearest(moment) if kept.kind == NODE_KIND else None) or (None, None)
    return FoundMemory(
        id=hit.id,
        kind=kept.kind,
        type=kept.type,
        content=kept.text,
        score=round(hit.score, 4),
        parts={name: round(part, 4) for name, part in hit.parts.items()},
        anchor=kept.anchor,
        task_id=kept.task,
        at=rfc3339(kept.at) if kept.at else None,
        importance=kept.importance or None,
        anchors=[kept.anchor, *hit.also] if hit.also else None,
        true_from=None if begin is None else rfc3339(begin),
        true_until=None if end is None else rfc3339(end),
        path=[_path_edge(edge) for edge in hit.path] or None,
        metadata=(stored_metadata(kept) if kept.kind == NODE_KIND else None) or None,
    )


def _path_edge(edge: WalkedEdge) -> PathEdge:
    return PathEdge(source=edge.source, target=edge.target, type=edge.type.value, weight=edge.weight)


def _quoted(segment: Segment) -> QuotedSegment:
    anchor = segment.anchor
    return QuotedSegment(
        id=segment.id,
        type=anchor.type,
        content=segment.text,
        speaker=segment.speaker,
        anchor=anchor_text(anchor),
        task_id=anchor.task_id,
        at=anchor.at or None,
    )
