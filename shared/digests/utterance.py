"""One thing that was said, read once: what it is about, what shape it has."""

from pentad.shared.digests.cues import Cues, cues_of
from pentad.shared.digests.sketch import Sketch
from pentad.shared.digests.wording import clean, words_of
from pentad.shared.immutable import immutable


@immutable
class Utterance:
    """A message as routing sees it."""

    words: tuple[int, ...]
    cues: Cues
    sketch: Sketch | None = None
    """Its meaning, where an embedding model was asked for it."""


def read_utterance(text: str, sketch: Sketch | None = None) -> Utterance:
    """Read a message. Of a long one the beginning counts; see `wording.MOST_CHARS`."""
    cleaned = clean(text)
    return Utterance(words_of(cleaned), cues_of(cleaned), sketch)
