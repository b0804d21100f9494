"""How much each part of a memory's score counts.

They are few and round on purpose, and chosen on two halves of conversations and on documents: other people's memories
are of other shapes (docs/decisions/0022).
"""

from dataclasses import replace

from pentad.shared.immutable import immutable

_HASHING = "simple-"
"""What the names of embeddings begin with that compare letters, not meanings."""


@immutable
class PartWeights:
    """A weight for each part; a part is 0 to 1."""

    text: float
    """Likeness of meaning."""
    around: float
    """The same with the segments beside it."""
    words: float
    """BM25."""
    around_words: float
    task: float
    """BM25 of the whole task it comes from."""
    answers: float
    """It follows a question that is like this one."""
    speaker: float = 0.5
    """Somebody said it whom the question names."""
    by_user: float = 0.1
    """The user said it, and the question is in the first person."""
    when: float = 0.3
    """It says a time, and the question asks for one."""
    asks: float = -0.2
    """It is a question itself."""
    graph: float = 0.7
    """It shares a rare name with one of the best hits."""
    recency: float = 0.05
    importance: float = 0.03
    found_each: int = 200
    """How many hits each search is asked for."""


MEANING = PartWeights(text=0.5, around=0.2, words=0.2, around_words=0.3, task=0.3, answers=0.2)
LETTERS = PartWeights(text=0.1, around=0.0, words=0.4, around_words=0.3, task=0.3, answers=0.3, found_each=100)
"""For the embedding without a model: words find, and its vectors forgive another spelling."""
WORDS = replace(LETTERS, text=0.0)
"""The same without its vectors, whose search takes as long as two of words."""


def weights_for(model: str, hurried: bool = False) -> PartWeights:
    """The weights for vectors of this embedding model. ``hurried``: what takes long and counts little is left out."""
    if not model.startswith(_HASHING):
        return MEANING
    return WORDS if hurried else LETTERS
