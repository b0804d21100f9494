"""What a session compares its next message with, once a message has moved from one of its tasks to another."""

from collections.abc import Sequence

from pentad.services.task_runner.domain.giving_away import Line, spoken
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.session_header import SessionHeader
from pentad.shared.digests.task_digest import TaskDigest, digest_bytes, digest_of, read_utterance

_TURNS = 64
"""Of what a task keeps, so much is read again: its first message, and the last turns."""


def digest_of_rest(lines: Sequence[Line], without: Sequence[int]) -> bytes:
    """A task's digest, made anew from what it keeps: nothing can be taken out of one. It has no meanings."""
    turns, digest = spoken(lines, without), TaskDigest()
    for line in (*turns[:1], *turns[1:][-_TURNS:]):
        if line["role"] == "user":
            digest = digest.heard(read_utterance(line["content"]))
        else:
            digest = digest.answering(line["content"])
    return digest_bytes(digest)


def digest_with(session: SessionHeader, task: TaskHeader, content: str) -> bytes:
    """A task's digest with what it has answered since it was spoken to last, and with this message."""
    kept, answer = session.digests.get(task.task_id), session.answers.get(task.task_id)
    digest = (digest_of(kept) if kept is not None else None) or TaskDigest().heard(read_utterance(task.goal))
    if answer is not None:
        digest = digest.answering(answer)
    return digest_bytes(digest.heard(read_utterance(content)))
