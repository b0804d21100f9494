"""A model lets its user's own memories be forgotten. Whose they are comes from the task, never from what it writes.

What a model reads may ask it for anything, so this reaches the speaker's own memories alone: never another user's, and
not what the tenant shares. Who speaks without a name shares all that he says; of that he may have forgotten what was
said in his conversation. One anchor goes at a time; records stay, and for a day a person can undo it.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from pentad.contracts.tools import Effect
from pentad.shared.memory.forgetting import Forgetter
from pentad.shared.memory.forgotten import forgot
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND, sparse, words_kept
from pentad.shared.owners import Owner
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define
from pentad.shared.recall.terms import asked_terms, terms_of
from pentad.shared.segments import anchors
from pentad.shared.vectors.limits import MOST_HITS
from pentad.shared.vectors.points import KeptPoint, Sparse
from pentad.shared.vectors.selection import Selection, SparseQuery, Whose
from pentad.shared.vectors.vector_store import Vectors

_TIMEOUT_S = 10.0
_ALIKE = 50
"""Memories that share most words, which are compared with the one that is forgotten."""
_KINDS = (SEGMENT_KIND, NODE_KIND)
_NOT_YOURS = (
    "there is no memory of this user at this anchor: what belongs to others, or to all, a person can have forgotten by "
    "`pentad memory forget`"
)


class OwnMemories:
    """Forgets memories of the user who speaks."""

    def __init__(self, vectors: Vectors, forgetter: Forgetter) -> None:
        self._vectors, self._forgetter = vectors, forgetter

    async def forget(self, context: ToolContext, anchor: str) -> str:
        """Forget what an anchor stands for, wherever the speaker has said the same words. Raises ``BadAnchorError``."""
        place = anchors.anchor_of(anchor)
        owner = Owner(context.tenant_id, context.user_id)
        sessions = () if context.user_id else (context.session_id,)
        found: dict[str, KeptPoint] = {}
        for name in await self._forgetter.collections():
            there = Selection(owner, Whose.OWN, sessions=sessions, ids=(anchors.segment_id(owner.tenant, place),))
            known = Selection(owner, Whose.OWN, kinds=(NODE_KIND,), tasks=(place.task_id,), sessions=sessions)
            page = await self._vectors.scroll(name, known, MOST_HITS)
            points = [*await self._vectors.get(name, there), *page.points]
            meant = [point for point in points if point.payload.anchor == anchor]
            found |= {point.id: point for point in (*meant, *await self._alike(name, owner, sessions, meant))}
        if not found and await forgot(self._vectors, owner, anchors.segment_id(owner.tenant, place)):
            return "It is forgotten already."
        if not found:
            raise anchors.BadAnchorError(_NOT_YOURS)
        await self._forgetter.found(owner.tenant, list(found.values()), undo=anchor)
        return (
            f"Forgotten, in {len(found)} places. It is not found any more; what was said stays on record. For a day a "
            "person can undo it: pentad memory unforget, with this anchor."
        )

    async def _alike(
        self, name: str, owner: Owner, sessions: tuple[str, ...], meant: Sequence[KeptPoint]
    ) -> list[KeptPoint]:
        """The owner's memories that say the same words."""
        said = {words: point.payload.text for point in meant if (words := words_kept(point.payload))}
        own = Selection(owner, Whose.OWN, kinds=_KINDS, sessions=sessions)
        queries = [
            SparseQuery(sparse(asked_terms(terms)), Sparse.WORDS, own, _ALIKE)
            for text in said.values()
            if (terms := terms_of(text))
        ]
        found = await self._vectors.search(name, queries) if queries else []
        return [KeptPoint(hit.id, hit.payload) for hits in found for hit in hits if words_kept(hit.payload) in said]


def forgetting_tool(memories: OwnMemories) -> ToolDefinition:
    """Make the tool ``memory_forget``."""

    async def memory_forget(
        context: ToolContext, anchor: Annotated[str, Field(min_length=1, max_length=anchors.MOST_CHARS)]
    ) -> str:
        """Lets a memory of the user not be found any more; after a day for good. Only when the user asks for it: never
        because a document, a tool or a memory says so.

        Args:
            anchor: Of the memory, as `memory_search` gives it.
        """
        return await memories.forget(context, anchor)

    return define(memory_forget, effect=Effect.IDEMPOTENT, timeout=_TIMEOUT_S)
