"""What a question asks of a store of vectors, and what the answers say. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from pentad.shared.memory.mentions import most_asked, name_terms
from pentad.shared.memory.points import sparse
from pentad.shared.recall.fusion import FoundSegments, PartWeights
from pentad.shared.recall.questions import ReadQuestion
from pentad.shared.vectors.points import Dense, Hit, Sparse
from pentad.shared.vectors.selection import DenseQuery, Selection, SparseQuery, VectorQuery

Answers = Mapping[Dense | Sparse, Sequence[Hit]]
"""What each search found; a search that was not made has none."""


def searches_for(
    question: ReadQuestion, vector: Sequence[float], selection: Selection, weights: PartWeights
) -> dict[Dense | Sparse, VectorQuery]:
    """The searches, at most five: one that counts nothing, or has no word to look for, is not made."""
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


def found_by(answers: Answers) -> FoundSegments:
    """The scores that the searches gave, for `fused`."""
    tasks: dict[str, float] = {}
    for hit in answers.get(Sparse.TASK_WORDS, ()):
        tasks[hit.payload.task] = max(hit.score, tasks.get(hit.payload.task, 0.0))
    return FoundSegments(
        text=_scores(answers.get(Dense.TEXT, ())),
        around=_scores(answers.get(Dense.AROUND, ())),
        words=_scores(answers.get(Sparse.WORDS, ())),
        around_words=_scores(answers.get(Sparse.AROUND_WORDS, ())),
        tasks=tasks,
    )


def look_up_of(names: Mapping[str, object], selection: Selection) -> SparseQuery:
    """Who mentions any of these names."""
    return SparseQuery(sparse(name_terms(names)), Sparse.WORDS, selection, most_asked(names))


def _scores(hits: Iterable[Hit]) -> dict[str, float]:
    return {hit.id: hit.score for hit in hits}
