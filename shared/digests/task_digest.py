"""What a message is compared with: a task in little, updated turn by turn, never made from a transcript."""

from pentad.shared.digests.cues import Asked, asked_by, says_goodbye
from pentad.shared.digests.sketch import Sketch, blended
from pentad.shared.digests.utterance import Utterance
from pentad.shared.digests.wording import clean, words_of
from pentad.shared.immutable import immutable

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
    """What it began with."""
    said: tuple[int, ...] = ()
    """The person's last message."""
    answered: tuple[int, ...] = ()
    """The last answer."""
    known: tuple[int, ...] = ()
    """Everything that was said, the newest last."""
    asked: Asked = ""
    """What the last answer asked, until the person says something."""
    closed: bool = False
    """One of the two has said goodbye last."""
    sketch: Sketch | None = None
    """The meaning of the last turns, the newest most."""

    def heard(self, message: Utterance) -> "TaskDigest":
        """With a message of the person."""
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
        """With an answer that the task has given. ``sketch``: of that text, where a model was asked for it."""
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
