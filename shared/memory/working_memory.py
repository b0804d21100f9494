"""Searches the current conversation like the long-term memory, without any store, since it is small. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log

from pentad.contracts.memories import MemoryKind
from pentad.shared.memory.points import CutTask, segment_payload
from pentad.shared.memory.ranking import MemoryHit, MemoryQuestion, question_of
from pentad.shared.recall.fusion import LETTERS_WEIGHTS, FoundSegments, fused, highest_sum, spread_over_messages
from pentad.shared.recall.segment_features import SegmentFeatures, features_of
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
    features, payloads = dict[str, SegmentFeatures](), dict[str, Payload]()
    for task in tasks:
        for name, its, payload in _seen(asked, task):
            features[name], payloads[name] = its, payload
    question = question_of(asked.owner, asked.text, asked.participants)
    found = FoundSegments(
        text={},
        around={},
        words=_scores(question.terms, {name: each.words for name, each in features.items()}),
        around_words=_scores(question.terms, {name: each.around_words for name, each in features.items()}),
        tasks={},
    )
    facts = {name: each.facts for name, each in features.items() if name in found.words}
    ranked = fused(question, found, facts, LETTERS_WEIGHTS, asked.now_ms)
    spread = spread_over_messages(ranked, facts, highest_sum(question, LETTERS_WEIGHTS))
    return [MemoryHit(each.id, payloads[each.id], each.score, each.parts) for each in spread[: asked.limit]]


def _seen(asked: MemoryQuestion, task: CutTask) -> Iterator[tuple[str, SegmentFeatures, Payload]]:
    """Yield the segments that the owner sees, by id: what another user says is no neighbour either."""
    places = [place for place, segment in enumerate(task.segments) if asked.owner.sees(segment.holder)]
    seen = CutTask(task.tenant, task.id, task.session, [task.segments[place] for place in places])
    for place, (segment, features) in enumerate(zip(seen.segments, features_of(seen.segments), strict=True)):
        payload = segment_payload(seen, segment.holder, place, features.facts)
        yield segment.id, features, replace(payload, kind=MemoryKind.WORKING.value)


def _scores(asked: SparseTerms, kept: Mapping[str, SparseTerms]) -> dict[str, float]:
    """Return BM25 scores as the stores of vectors compute them; a text that shares no word has no score."""
    having = Counter(term for terms in kept.values() for term in terms.keys() & asked.keys())
    rare = {term: log((len(kept) - n + 0.5) / (n + 0.5) + 1) for term, n in having.items()}
    scores = {
        name: sum(weight * rare[term] for term, weight in terms.items() if term in rare) for name, terms in kept.items()
    }
    return {name: score for name, score in scores.items() if score > 0}
