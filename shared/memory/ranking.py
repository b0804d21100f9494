"""The order of what a question finds: five searches, one look-up of names, and what comes first of all of it. Pure.

It says what is to be searched for and is told what was found, so it runs beside any store: in the process that asks a
server, and in the one that has the embedded store open, where the hits are not sent to anybody.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, runtime_checkable

from pentad.shared.immutable import immutable
from pentad.shared.memory.five_searches import found_by, look_up_of, searches_for
from pentad.shared.memory.mentions import mentions_in
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND, facts_of
from pentad.shared.owners import Owner
from pentad.shared.recall.fusion import RankedSegment, fused
from pentad.shared.recall.name_paths import connected, names_to_follow
from pentad.shared.recall.part_weights import weights_for
from pentad.shared.recall.questions import ReadQuestion, read_question
from pentad.shared.recall.written import SegmentFacts
from pentad.shared.vectors.points import Hit, Payload
from pentad.shared.vectors.selection import VectorQuery

RankedMemories = list[tuple[RankedSegment, Payload]]
"""The best first, each with what is kept of it."""
Searching = Generator[Sequence[VectorQuery], list[list[Hit]], RankedMemories]
"""Yields what to search for, is sent what each query has found, and returns the order."""


@immutable
class MemoryRanking:
    """A question whose vector is known."""

    owner: Owner
    text: str
    participants: tuple[str, ...]
    """Who has spoken in these memories."""
    vector: tuple[float, ...]
    """Of the question without their names."""
    model: str
    """That made the vector."""
    now_ms: int
    limit: int
    """How many are told of."""


@runtime_checkable
class RankingVectors(Protocol):
    """A store of vectors that ranks where its points are."""

    async def rank(self, collection: str, asked: MemoryRanking) -> RankedMemories:
        """What `ranked_memories` returns when it is told what this store finds. Raises what a search raises."""
        ...


def question_of(owner: Owner, text: str, participants: Sequence[str]) -> ReadQuestion:
    """Read a question: the owner's user is a participant too."""
    return read_question(text, [*participants, owner.user or ""])


def ranked_memories(
    asked: MemoryRanking, facts_of_kept: Callable[[str, Payload], SegmentFacts] = lambda _, kept: facts_of(kept)
) -> Searching:
    """Search, rank, and once more with what the names in the best hits lead to.

    ``facts_of_kept``: for who has read the facts of a point before.
    """
    question = question_of(asked.owner, asked.text, asked.participants)
    weights = weights_for(asked.model)
    searches = searches_for(question, asked.vector, asked.owner, weights)
    answers = yield list(searches.values())
    found, payloads = found_by(dict(zip(searches, answers, strict=True))), _segments_in(answers)
    facts = {name: facts_of_kept(name, kept) for name, kept in payloads.items()}
    ranked = fused(question, found, facts, weights, asked.now_ms)
    following = names_to_follow(question, ranked, facts)
    if following:
        answers = yield [look_up_of(following, asked.owner)]
        graph = connected(following, mentions_in(answers[0], following))
        if graph:
            payloads |= _segments_in(answers)
            facts |= {name: facts_of_kept(name, payloads[name]) for name in graph.keys() - facts.keys()}
            ranked = fused(question, found.with_graph(graph), facts, weights, asked.now_ms)
    return [(each, payloads[each.id]) for each in ranked[: asked.limit]]


def _segments_in(answers: Sequence[Sequence[Hit]]) -> dict[str, Payload]:
    """What is kept of the segments that were found."""
    return {hit.id: hit.payload for hits in answers for hit in hits if hit.payload.kind in (SEGMENT_KIND, NODE_KIND)}


class KeptFacts:
    """The facts of points that were ranked before, as long as these keep the same."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, tuple[Payload, SegmentFacts]] = {}

    def __call__(self, name: str, kept: Payload) -> SegmentFacts:
        known = self._known.get(name)
        if known is not None and known[0] is kept:
            return known[1]
        if len(self._known) >= self._most:
            self._known.clear()
        facts = facts_of(kept)
        self._known[name] = (kept, facts)
        return facts
