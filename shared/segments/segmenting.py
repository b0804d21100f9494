"""A finished task as segments: the pieces that are searched for, each with its anchor.

Ids come from places in the transcript, which is only appended to: archiving again gives the same ids, and a task that
was opened again adds segments without touching those it had.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from pentad.contracts.records import Anchor
from pentad.shared.immutable import immutable
from pentad.shared.segments.anchors import quote_digest, segment_id
from pentad.shared.segments.passages import Passage, passages_of
from pentad.shared.segments.splitting import spans_of

MOST_OF_TEXT = 192
"""Segments of one text: a user's longest message has no more. What is beyond is in the record, and not searched."""
MOST_OF_TASK = 4_096
"""Segments of one task, likewise."""


@immutable
class Segment:
    """A piece of what was said in a task."""

    id: str
    """A UUID."""
    anchor: Anchor
    text: str
    speaker: str
    holder: str | None
    """Whose it is (`Owner.holder`); None: all users of the tenant share it."""

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands among the segments of its task: position, part, first character."""
        return self.anchor.position, self.anchor.part, self.anchor.start


def segments_of(tenant: str, task_id: str, messages: Sequence[Mapping[str, Any]], begin: int = 0) -> list[Segment]:
    """The segments in the order of the transcript, from the message at ``begin`` on.

    ``messages``: as a record has them.
    """
    found = (segment for passage in passages_of(messages, begin) for segment in _pieces(tenant, task_id, passage))
    return list(islice(found, MOST_OF_TASK))


def _pieces(tenant: str, task_id: str, passage: Passage) -> Iterator[Segment]:
    for number, (start, end) in enumerate(islice(spans_of(passage.text), MOST_OF_TEXT)):
        quote = passage.text[start:end]
        anchor = Anchor(
            task_id=task_id,
            step=passage.step,
            position=passage.position,
            part=passage.part,
            segment=number,
            start=start,
            end=end,
            type=passage.type,
            at=passage.at,
            quote=quote_digest(quote),
        )
        yield Segment(segment_id(tenant, anchor), anchor, quote, passage.speaker, passage.holder)
