"""Digests of tasks, messages and vectors, by which a message finds its task. A digest is updated turn by turn."""

import math
import struct
from collections.abc import Sequence
from itertools import accumulate
from operator import le, mul
from typing import get_args

from pentad.shared.digests.cues import Asked, Cues, asked_by, cues_of, says_goodbye
from pentad.shared.digests.wording import clean, words_of
from pentad.shared.immutable import immutable

MOST_DIMENSIONS = 384
"""A longer vector is folded: its pieces of this length are added, every other one taken away."""
MOST_MODEL_CHARS = 64
_MAX_QUANTUM = 127
_MIN_MAGNITUDE = 1e-30
"""A vector whose every number is smaller is none."""


@immutable
class Sketch:
    """The direction of a vector, a byte for each dimension. Sketches of different models do not compare."""

    model: str
    values: bytes
    """Each -127 to 127, as `array("b")` writes it."""


def sketch_of(model: str, vector: Sequence[float]) -> Sketch | None:
    """A model's vector as a sketch; None for one that has no direction: empty, zero, or not of finite numbers."""
    return _quantised(model[:MOST_MODEL_CHARS], _folded(vector))


def likeness(one: Sketch, other: Sketch) -> float | None:
    """The cosine of two sketches, -1 to 1; None when they are of different models."""
    if one.model != other.model or len(one.values) != len(other.values):
        return None
    a, b = memoryview(one.values).cast("b"), memoryview(other.values).cast("b")
    return _dot(a, b) / math.sqrt(_dot(a, a) * _dot(b, b))


def blended(new: Sketch, old: Sketch | None, share: float) -> Sketch:
    """Blend a new sketch with a share of the old one. A sketch of another model is dropped."""
    if old is None or old.model != new.model or len(old.values) != len(new.values):
        return new
    a, b = memoryview(new.values).cast("b"), memoryview(old.values).cast("b")
    scale = share * math.sqrt(_dot(a, a) / _dot(b, b))
    return _quantised(new.model, [x + scale * y for x, y in zip(a, b, strict=True)]) or new


def _folded(vector: Sequence[float]) -> Sequence[float]:
    if len(vector) <= MOST_DIMENSIONS:
        return vector
    sums = [0.0] * MOST_DIMENSIONS
    for at, value in enumerate(vector):
        piece, place = divmod(at, MOST_DIMENSIONS)
        sums[place] += -value if piece % 2 else value
    return sums


def _quantised(model: str, vector: Sequence[float]) -> Sketch | None:
    largest = max(map(abs, vector), default=0.0)
    if largest < _MIN_MAGNITUDE or not all(map(math.isfinite, vector)):
        return None
    scale = _MAX_QUANTUM / largest
    return Sketch(model, bytes(round(value * scale) & 0xFF for value in vector))


def _dot(a: memoryview, b: memoryview) -> int:
    return sum(map(mul, a, b))


@immutable
class Utterance:
    """A message as routing sees it."""

    words: tuple[int, ...]
    cues: Cues
    sketch: Sketch | None = None
    """The meaning of the message, where an embedding model was asked for it."""


def read_utterance(text: str, sketch: Sketch | None = None) -> Utterance:
    """Read a message. Of a long one the beginning counts; see `wording.MOST_CHARS`."""
    cleaned = clean(text)
    return Utterance(words_of(cleaned), cues_of(cleaned), sketch)


GOAL_WORDS = 32
"""Words kept of what the task began with."""
TURN_WORDS = 64
"""Words kept of the person's last message, and of the last answer."""
KNOWN_WORDS = 256
"""Words kept of everything that was said; the oldest make room."""
_PAST_SHARE = 0.7
"""How much of a turn's meaning is left in the next one's."""


@immutable
class TaskDigest:
    """A task as routing remembers it. Words are hashes, see `wording.words_of`."""

    goal: tuple[int, ...] = ()
    """The words with which the task began."""
    said: tuple[int, ...] = ()
    """The person's last message."""
    answered: tuple[int, ...] = ()
    """The last answer."""
    known: tuple[int, ...] = ()
    """Everything that was said, the newest last."""
    asked: Asked = ""
    """The kind of question that the last answer asked, until the person says something."""
    closed: bool = False
    """One of the two has said goodbye last."""
    sketch: Sketch | None = None
    """The meaning of the last turns, the newest most."""

    def heard(self, message: Utterance) -> "TaskDigest":
        """Return the digest after a message of the person."""
        words, cues = message.words, message.cues
        return TaskDigest(
            goal=self.goal or words[:GOAL_WORDS],
            said=words[:TURN_WORDS],
            answered=self.answered,
            known=self._known_with(words),
            asked="",
            closed=cues.farewell and not cues.requests,
            sketch=self._sketch_with(message.sketch),
        )

    def answering(self, text: str, sketch: Sketch | None = None) -> "TaskDigest":
        """Return the digest after an answer of the task. ``sketch``: its vector, where one was asked for."""
        cleaned = clean(text)
        words = words_of(cleaned)
        return TaskDigest(
            goal=self.goal or words[:GOAL_WORDS],
            said=self.said,
            answered=words[:TURN_WORDS],
            known=self._known_with(words),
            asked=asked_by(text),
            closed=self.closed or says_goodbye(cleaned),
            sketch=self._sketch_with(sketch),
        )

    def _known_with(self, words: tuple[int, ...]) -> tuple[int, ...]:
        new = frozenset(words)
        return (*[word for word in self.known if word not in new], *words)[-KNOWN_WORDS:]

    def _sketch_with(self, sketch: Sketch | None) -> Sketch | None:
        return self.sketch if sketch is None else blended(sketch, self.sketch, _PAST_SHARE)


_VERSION = 1
_HEAD = struct.Struct("<BBBHHHHHH")
"""Version, what was asked, closed, then how long each part is: four lists of words, the model's name, the vector."""
_ASKED: tuple[Asked, ...] = get_args(Asked)
_LISTS = (GOAL_WORDS, TURN_WORDS, TURN_WORDS, KNOWN_WORDS)
_MAX_LENGTHS = (*_LISTS, 4 * MOST_MODEL_CHARS, MOST_DIMENSIONS)
MOST_BYTES = _HEAD.size + sum(_LISTS) + sum(_MAX_LENGTHS)
"""Bytes that a stored digest may have, a little under 1.5 KiB; most have 200 to 900."""


def digest_bytes(digest: TaskDigest) -> bytes:
    """A digest as it is kept, at most `MOST_BYTES`."""
    lists = (digest.goal, digest.said, digest.answered, digest.known)
    name, values = b"", b""
    if digest.sketch is not None:
        name, values = digest.sketch.model.encode("utf-8", "replace"), digest.sketch.values
    head = _HEAD.pack(_VERSION, _ASKED.index(digest.asked), digest.closed, *map(len, lists), len(name), len(values))
    words = (*digest.goal, *digest.said, *digest.answered, *digest.known)
    return head + struct.pack(f"<{len(words)}H", *words) + name + values


def digest_of(stored: bytes) -> TaskDigest | None:
    """The digest, or None for what is none: damaged, or written by a newer version."""
    try:
        return _read(stored)
    except (ValueError, IndexError, struct.error):
        return None


def _read(stored: bytes) -> TaskDigest:
    version, asked, closed, *lengths = _HEAD.unpack_from(stored)
    *lists, name, values = lengths
    fits = all(map(le, lengths, _MAX_LENGTHS))
    if version != _VERSION or not fits or len(stored) != _HEAD.size + 2 * sum(lists) + name + values:
        raise ValueError("no digest of this version")
    words = struct.unpack_from(f"<{sum(lists)}H", stored, _HEAD.size)
    goal, said, answered, known = [words[end - n : end] for end, n in zip(accumulate(lists), lists, strict=True)]
    rest = stored[_HEAD.size + 2 * sum(lists) :]
    sketch = Sketch(rest[:name].decode(), rest[name:]) if any(rest[name:]) else None
    return TaskDigest(goal, said, answered, known, asked=_ASKED[asked], closed=bool(closed), sketch=sketch)
