"""A task's transcript as it was read last: the next time only what stands behind that is read, and cut. Pure.

A transcript only grows, and how a message is cut depends on none behind it, unless that says that messages were moved.
"""

from collections.abc import Sequence

from pentad.services.archiver.domain import Message
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.transcript import EXCLUSION, shown
from pentad.shared.immutable import immutable
from pentad.shared.memory.points import CutTask, cut_further, cut_task
from pentad.shared.segments.passages import owned

_WEIGHT = 1_000
"""Bytes that a message, or a segment, takes beside its text."""


@immutable
class ReadSoFar:
    """What was read of a task in Redis."""

    last: bytes
    """The last entry; empty when there was none."""
    shown: Sequence[Message]
    messages: Sequence[Message]
    """The same, each user's with who said it."""
    cut: CutTask
    size: int
    """Bytes of the entries."""

    @property
    def next(self) -> int:
        """The entry from which to read on: the last one again, by which it is seen that this is the same transcript."""
        return max(0, len(self.shown) - 1)

    @property
    def weight(self) -> int:
        """About how many bytes it takes here."""
        return 2 * self.size + _WEIGHT * (len(self.shown) + len(self.cut.segments))

    def continues_in(self, entries: Sequence[bytes]) -> bool:
        """Whether these, read from `next` on, are of the same transcript: a server may have lost its last writes."""
        return not self.last or (bool(entries) and entries[0] == self.last)


def read_on(header: TaskHeader, entries: Sequence[bytes], earlier: ReadSoFar | None) -> ReadSoFar:
    """The transcript as it is now. ``entries``: from ``earlier.next`` on, all of them without ``earlier``."""
    fresh = entries[1:] if earlier is not None and earlier.last else entries
    if earlier is not None and not fresh:
        return earlier
    new = [shown(entry) for entry in fresh]
    there = earlier.shown if earlier is not None else []
    messages = [*there, *new]
    said = owned(messages, header.user)
    size = sum(map(len, fresh)) + (earlier.size if earlier is not None else 0)
    if earlier is None or not _adds(earlier, new) or said is not messages:
        cut = cut_task(header.tenant, header.task_id, header.session, said)
    else:
        cut = cut_further(earlier.cut, said, len(there))
    return ReadSoFar(entries[-1] if entries else b"", messages, said, cut, size)


def _adds(earlier: ReadSoFar, new: Sequence[Message]) -> bool:
    """Whether new messages leave the segments there as they are."""
    return earlier.messages is earlier.shown and not any(message.get("role") == EXCLUSION for message in new)
