"""Searches the current conversation like the long-term memory, without any store, since it is small. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log

from pentad.contracts.memories import MemoryKind
from pentad.shared.memory.points import CutTask, segment_payload
from pentad.shared.memory.ranking import question_of
from pentad.shared.memory.search import MemoryHit, MemoryQuestion
from pentad.shared.recall.fusion import LETTERS_WEIGHTS, FoundSegments, fused
from pentad.shared.recall.indexed_segments import IndexedSegment, indexed_segments
from pentad.shared.recall.terms import SparseTerms
from pentad.shared.vectors.points import Payload

MOST_TASKS = 10
"""Tasks of a conversation, those that were spoken to last."""
MOST_ENTRIES = 256
"""Entries of each transcript, the newest."""
MOST_BYTES = 4 << 20
"""Bytes of all transcripts; older entries are left out. One search reads hardly more."""


def working_hits(asked: MemoryQuestion, tasks: Sequence[CutTask]) -> list[MemoryHit]:
    """Return what the owner sees that shares a word with the question, the best first. Meanings are not compared."""
    written, payloads = dict[str, IndexedSegment](), dict[str, Payload]()
    for task in tasks:
        for segment, payload in _seen(asked, task):
            written[segment.segment.id], payloads[segment.segment.id] = segment, payload
    question = question_of(asked.owner, asked.text, asked.participants)
    found = FoundSegments(
        text={},
        around={},
        words=_scores(question.terms, {name: each.words for name, each in written.items()}),
        around_words=_scores(question.terms, {name: each.around_words for name, each in written.items()}),
        tasks={},
    )
    facts = {name: each.facts for name, each in written.items() if name in found.words}
    ranked = fused(question, found, facts, LETTERS_WEIGHTS, asked.now_ms)
    return [MemoryHit(each.id, payloads[each.id], each.score, each.parts) for each in ranked[: asked.limit]]


def _seen(asked: MemoryQuestion, task: CutTask) -> Iterator[tuple[IndexedSegment, Payload]]:
    """Yield the segments that the owner sees: what another user says is no neighbour either."""
    segments = [segment for segment in task.segments if asked.owner.sees(segment.holder)]
    for place, each in enumerate(indexed_segments(segments)):
        payload = segment_payload(task, each.segment.holder, place, each)
        yield each, replace(payload, kind=MemoryKind.WORKING.value)


def _scores(asked: SparseTerms, kept: Mapping[str, SparseTerms]) -> dict[str, float]:
    """Return BM25 scores as the stores of vectors compute them; a text that shares no word has no score."""
    having = Counter(term for terms in kept.values() for term in terms.keys() & asked.keys())
    rare = {term: log((len(kept) - n + 0.5) / (n + 0.5) + 1) for term, n in having.items()}
    scores = {
        name: sum(weight * rare[term] for term, weight in terms.items() if term in rare) for name, terms in kept.items()
    }
    return {name: score for name, score in scores.items() if score > 0}
