"""The ranking of what a question finds: five searches, one look-up of names, and their fusion. Pure.

It yields searches and receives their hits, so it runs beside any store: in the process that asks a server, and in the
process of the embedded store, where the hits need not be sent to anybody.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from pentad.contracts.ids import LAST_MS
from pentad.shared.graph.knowledge import WalkedEdge
from pentad.shared.immutable import immutable
from pentad.shared.memory.mentions import mentions_in, most_asked, name_terms
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND, TASK_KIND, facts_of, sparse, words_kept
from pentad.shared.memory.true_times import untrue_among
from pentad.shared.owners import Owner
from pentad.shared.recall.fusion import (
    FoundSegments,
    PartWeights,
    RankedSegment,
    fused,
    highest_sum,
    spread_over_messages,
    weights_for,
)
from pentad.shared.recall.name_paths import connected, names_to_follow
from pentad.shared.recall.newer_first import newer_first
from pentad.shared.recall.questions import ReadQuestion, read_question
from pentad.shared.recall.segment_features import SegmentFacts
from pentad.shared.vectors.points import Dense, Hit, Payload, Sparse
from pentad.shared.vectors.selection import DenseQuery, Selection, SparseQuery, VectorQuery

MOST_FOUND = 100
"""Hits of one search, at most."""


@immutable
class MemoryQuestion:
    """A question to the memory, and who asks it."""

    owner: Owner
    text: str
    limit: int
    """Number of hits, 1 to `MOST_FOUND`."""
    now_ms: int
    """Time from which recency counts, in ms since the epoch."""
    participants: tuple[str, ...] = ()
    """Names of those who have spoken in these memories, where they have names; the owner's user always counts."""
    as_of: int | None = None
    """Time in ms since the epoch: only what had been said and was true then counts; None: what is still true."""
    kinds: tuple[str, ...] = ()
    """Kinds of memory as points have them; empty: all."""
    hurried: bool = False
    """Whether a turn waits for it: what takes long and counts little is left out."""


@immutable
class MemoryHit:
    """A memory that was found."""

    id: str
    payload: Payload
    score: float
    """Score, 0 to 1: how it compares with the other hits, not whether it answers."""
    parts: Mapping[str, float]
    """Parts of the score, by the names of `PartWeights`."""
    also: tuple[str, ...] = ()
    """Anchors of other places where the same owner says the same words, the newest first."""
    path: tuple[WalkedEdge, ...] = ()
    """Edges from this node back to the node at which the walk that reached it started."""


@immutable
class EmbeddedQuestion:
    """A question with its vector."""

    question: MemoryQuestion
    vector: tuple[float, ...]
    """Vector of the question without the participants' names."""
    model: str
    """Embedding model that made the vector."""


Searching = Generator[Sequence[VectorQuery], list[list[Hit]], list[MemoryHit]]
"""A generator that yields queries, receives the hits of each query, and returns the ranking."""


@runtime_checkable
class RankingVectors(Protocol):
    """A store of vectors that ranks where its points are."""

    async def rank(self, collection: str, asked: EmbeddedQuestion) -> list[MemoryHit]:
        """Return what `ranked_memories` returns for this store's hits. Raises what a search raises."""
        ...


def question_of(owner: Owner, text: str, participants: Sequence[str]) -> ReadQuestion:
    """Parse a question; the owner's user is a participant too."""
    return read_question(text, [*participants, owner.user or ""])


def ranked_memories(
    embedded: EmbeddedQuestion, facts_of_kept: Callable[[str, Payload], SegmentFacts] = lambda _, kept: facts_of(kept)
) -> Searching:
    """Search and rank, and once more with what the names in the best hits lead to.

    ``facts_of_kept``: reads the facts of a payload, perhaps from a cache.
    """
    asked = embedded.question
    question = question_of(asked.owner, asked.text, asked.participants)
    weights, moment = weights_for(embedded.model, asked.hurried), asked.now_ms if asked.as_of is None else asked.as_of
    selections = _selections(asked)
    searches = [pair for each in selections for pair in searches_for(question, embedded.vector, each, weights).items()]
    answers = yield [query for _, query in searches]
    payloads = _segments_in(answers)
    untrue = untrue_among(payloads, asked.now_ms, asked.as_of)
    found = found_segments(_hits_by_search([using for using, _ in searches], answers, untrue))
    known = {name: kept for name, kept in payloads.items() if name not in untrue and _is_wanted(kept, asked)}
    facts = {name: facts_of_kept(name, kept) for name, kept in known.items()}
    ranked = fused(question, found, facts, weights, moment)
    following = names_to_follow(question, ranked, facts)
    if following:
        answers = yield [name_lookup(following, selections[0])]
        graph = connected(following, mentions_in(answers[0], following))
        if graph:
            payloads |= _segments_in(answers)
            more = {name: payloads[name] for name in graph.keys() - facts.keys() if _is_wanted(payloads[name], asked)}
            facts |= {name: facts_of_kept(name, kept) for name, kept in more.items()}
            for name in untrue_among(payloads, asked.now_ms, asked.as_of):
                facts.pop(name, None)
            ranked = fused(question, found.with_graph(graph), facts, weights, moment, ranked)
    texts = {each.id: payloads[each.id].text for each in ranked}
    most = highest_sum(question, weights)
    spread = spread_over_messages(newer_first(ranked, facts, texts, most), facts, most)
    return without_duplicates(spread, payloads, asked.limit)


def _selections(asked: MemoryQuestion) -> list[Selection]:
    """Return the selections to search: as of another time, segments said by then, and nodes, which have their own
    times.

    Nodes also say which statements do not count, so they are searched when only those are wanted.
    """
    if asked.kinds == (NODE_KIND,):
        return [Selection(asked.owner, kinds=asked.kinds)]
    if asked.as_of is None:
        return [Selection(asked.owner)]
    said = Selection(asked.owner, kinds=(SEGMENT_KIND, TASK_KIND), until=min(asked.as_of + 1, LAST_MS))
    return [said, Selection(asked.owner, kinds=(NODE_KIND,))]


def _is_wanted(kept: Payload, asked: MemoryQuestion) -> bool:
    return not asked.kinds or kept.kind in asked.kinds


def _hits_by_search(
    searches: Sequence[Dense | Sparse], answers: Sequence[Sequence[Hit]], untrue: Collection[str]
) -> dict[Dense | Sparse, list[Hit]]:
    """Return the hits of each search in all selections, without those that are not true."""
    found: dict[Dense | Sparse, list[Hit]] = {}
    for using, hits in zip(searches, answers, strict=True):
        found.setdefault(using, []).extend(hit for hit in hits if hit.id not in untrue)
    return found


def _segments_in(answers: Sequence[Sequence[Hit]]) -> dict[str, Payload]:
    """Return the payloads of the segments and nodes that were found."""
    return {hit.id: hit.payload for hits in answers for hit in hits if hit.payload.kind in (SEGMENT_KIND, NODE_KIND)}


class FactsCache:
    """Caches the facts of ranked points as long as their payloads are the same objects."""

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


Answers = Mapping[Dense | Sparse, Sequence[Hit]]
"""Hits of each search; a search that was not made has none."""


def searches_for(
    question: ReadQuestion, vector: Sequence[float], selection: Selection, weights: PartWeights
) -> dict[Dense | Sparse, VectorQuery]:
    """Return the searches, at most five: one with weight 0 or without a word to look for is not made."""
    near, terms = tuple(vector), sparse(question.terms)
    dense = {Dense.TEXT: weights.text, Dense.AROUND: weights.around}
    words = {Sparse.WORDS: weights.words, Sparse.AROUND_WORDS: weights.around_words, Sparse.TASK_WORDS: weights.task}
    searches: dict[Dense | Sparse, VectorQuery] = {
        using: DenseQuery(near, using, selection, weights.found_each) for using, weight in dense.items() if weight
    }
    if terms.indices:
        searches |= {
            using: SparseQuery(terms, using, selection, weights.found_each) for using, weight in words.items() if weight
        }
    return searches


def found_segments(answers: Answers) -> FoundSegments:
    """Return the scores that the searches gave, for `fused`."""
    tasks: dict[str, float] = {}
    for hit in answers.get(Sparse.TASK_WORDS, ()):
        tasks[hit.payload.task] = max(hit.score, tasks.get(hit.payload.task, 0.0))
    return FoundSegments(
        text=_scores_by_id(answers.get(Dense.TEXT, ())),
        around=_scores_by_id(answers.get(Dense.AROUND, ())),
        words=_scores_by_id(answers.get(Sparse.WORDS, ())),
        around_words=_scores_by_id(answers.get(Sparse.AROUND_WORDS, ())),
        tasks=tasks,
    )


def name_lookup(names: Mapping[str, object], selection: Selection) -> SparseQuery:
    """Return a query for the segments that mention any of these names."""
    return SparseQuery(sparse(name_terms(names)), Sparse.WORDS, selection, most_asked(names))


def _scores_by_id(hits: Iterable[Hit]) -> dict[str, float]:
    return {hit.id: hit.score for hit in hits}


MOST_ANCHORS = 16
"""Anchors of one hit, the newest."""


def without_duplicates(ranked: Sequence[RankedSegment], payloads: Mapping[str, Payload], limit: int) -> list[MemoryHit]:
    """Return the best ``limit`` memories; the same words of an owner are one hit with the anchors of all places.

    Merging happens at a search and not at a write: each place keeps its point, so one that is moved, forgotten or
    erased takes nothing of the others along. Nothing is merged across owners.
    """
    places: dict[tuple[str | None, str], int] = {}
    chosen: list[RankedSegment] = []
    others: list[list[Payload]] = []
    for each in ranked:
        kept = payloads[each.id]
        said = kept.owner.holder, words_kept(kept) or each.id
        if (place := places.get(said)) is not None:
            others[place].append(kept)
        elif len(chosen) < limit:
            places[said] = len(chosen)
            chosen.append(each)
            others.append([])
    return [
        MemoryHit(each.id, kept, each.score, each.parts, _anchors(more, kept.anchor))
        for each, kept, more in zip(chosen, (payloads[each.id] for each in chosen), others, strict=True)
    ]


def _anchors(others: Sequence[Payload], own: str) -> tuple[str, ...]:
    newest = sorted(others, key=lambda kept: (-kept.at, kept.anchor))
    return tuple(dict.fromkeys(kept.anchor for kept in newest if kept.anchor != own))[: MOST_ANCHORS - 1]
