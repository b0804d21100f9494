"""Long-term memory as tools. Whose it is comes from the task, never from the model: its tenant, and who speaks."""

import asyncio
import re
from typing import Annotated

from pydantic import Field

from pentad.contracts.ids import milliseconds, shard_of
from pentad.contracts.quotes import Quote, quotation, quote_line
from pentad.contracts.tools import Effect
from pentad.services.tool_worker.transcripts import Transcripts
from pentad.shared.embedder.vectors import Requester
from pentad.shared.memory.quotes import new_hits, numbered
from pentad.shared.memory.ranking import MemoryQuestion
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.walk_choice import walk_by_rule
from pentad.shared.memory.walks import HitWalks
from pentad.shared.owners import Owner
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define
from pentad.shared.recall.questions import MOST_CHARS
from pentad.shared.segments import anchors
from pentad.shared.segments.expansion import expanded, first_anchor
from pentad.shared.segments.segment import Segment
from pentad.shared.store.store import Store

_TIMEOUT_S = 10.0
_MOST_HITS = 20
_MOST_WINDOW = 20
_NUMBER = re.compile(r"\[?([0-9]{1,9})\]?")
_NO_HITS = "Nothing was found."
_NOT_THERE = "there is no such memory: this anchor opens nothing"


class MemoryReader:
    """Reads memories for the tools. ``shards``: number of shards of the system."""

    def __init__(
        self, store: Store, memory: MemorySearch, walks: HitWalks, transcripts: Transcripts, shards: int
    ) -> None:
        self._store, self._memory, self._walks, self._shards = store, memory, walks, shards
        self._transcripts = transcripts

    async def search(self, context: ToolContext, query: str, limit: int, as_of: int | None = None) -> str:
        """A quotation of what was said in other tasks. ``as_of``: of what had been said and was true then; a fork sees
        nothing later than the step with which it begins."""
        owner, now_ms = _speaker(context), await self._store.clock()
        if (bound := _bound(context)) is not None:
            as_of = bound if as_of is None else min(as_of, bound)
        shard = shard_of(context.tenant_id, context.session_id, self._shards)
        requester = Requester(shard, context.tenant_id, context.session_id, context.task_id, cause=context.tool_call_id)
        asked = MemoryQuestion(owner, query, 2 * limit, now_ms, as_of=as_of)
        hits = await self._memory.search(asked, requester)
        walked = await self._walks.walked(asked, hits, walk_by_rule(hits))
        lines = numbered(list(new_hits(walked.hits, (), context.task_id))[:limit])
        return quotation(lines) if lines else _NO_HITS

    async def expand(self, context: ToolContext, anchor: str, window: int) -> str:
        """A quotation of the words that an anchor stands for, in their place. Raises ``BadAnchorError``."""
        owner, number = _speaker(context), _number_in(anchor)
        place = anchors.anchor_of(anchor) if number is None else None
        messages = await self._transcripts.read(owner.tenant, context.task_id if place is None else place.task_id)
        if messages is None:
            raise anchors.BadAnchorError(_NOT_THERE)
        if place is None:
            place = await asyncio.to_thread(first_anchor, owner.tenant, context.task_id, number or 0, messages)
        opened = await asyncio.to_thread(expanded, owner.tenant, place, messages, window)
        bound = _bound(context)
        if not owner.sees(opened.focus.holder) or not _was_said(opened.focus, bound):
            raise anchors.BadAnchorError(_NOT_THERE)
        around = (*opened.before, opened.focus, *opened.after)
        segments = [each for each in around if owner.sees(each.holder) and _was_said(each, bound)]
        return quotation([_line(number, each, opened.focus) for number, each in enumerate(segments, start=1)])


def _number_in(text: str) -> int | None:
    """Return the number of a message of this conversation, as its summary has it: 12 or [12]; None for an anchor."""
    found = _NUMBER.fullmatch(text.strip())
    return None if found is None else int(found[1])


def _speaker(context: ToolContext) -> Owner:
    """Who reads: the user who speaks, in his session. What was said in it without a user belongs to it."""
    return Owner(context.tenant_id, context.user_id, context.session_id or None)


def _bound(context: ToolContext) -> int | None:
    """Return the time, in ms, after which nothing is seen: that of the step with which a fork begins."""
    return None if context.as_of is None else milliseconds(context.as_of.isoformat())


def _was_said(segment: Segment, bound: int | None) -> bool:
    """Return whether a segment was said by then, as far as its time is known."""
    return bound is None or not segment.anchor.at or milliseconds(segment.anchor.at) <= bound


def _line(number: int, segment: Segment, focus: Segment) -> str:
    anchor = segment.anchor
    told = anchors.anchor_text(anchor)
    is_focus = True if segment is focus else None
    return quote_line(
        Quote(quote=number, type=anchor.type.value, at=anchor.at, text=segment.text, anchor=told, focus=is_focus)
    )


def memory_tools(reader: MemoryReader) -> dict[str, ToolDefinition]:
    """The tools that only read, by name."""

    async def memory_search(
        context: ToolContext,
        query: Annotated[str, Field(min_length=1, max_length=MOST_CHARS)],
        limit: Annotated[int, Field(ge=1, le=_MOST_HITS)] = 5,
        as_of: Annotated[str, Field(max_length=64)] = "",
    ) -> str:
        """Finds what was said in earlier conversations, the best first, each with an anchor. Something is always the
        best: see whether it answers.

        Args:
            query: What to look for, as a question or in a few words.
            limit: How many at most.
            as_of: What had been said and was true then, like 2026-01-31T12:00:00Z; without it, what is still true.
        """
        return await reader.search(context, query, limit, max(0, milliseconds(as_of)) if as_of else None)

    async def memory_expand(
        context: ToolContext,
        anchor: Annotated[str, Field(min_length=1, max_length=anchors.MOST_CHARS)],
        window: Annotated[int, Field(ge=0, le=_MOST_WINDOW)] = 2,
    ) -> str:
        """Opens an anchor: the very words that it stands for, with what was said before and after them.

        Args:
            anchor: As a memory gives it; or the number of a message of this conversation, as its summary gives it.
            window: How many pieces on each side.
        """
        return await reader.expand(context, anchor, window)

    made = (define(tool, effect=Effect.PURE, timeout=_TIMEOUT_S) for tool in (memory_search, memory_expand))
    return {each.spec.name: each for each in made}
