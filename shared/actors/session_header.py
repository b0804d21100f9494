"""A session's header: which of its tasks the next message may belong to, and what they are compared by."""

from collections.abc import Mapping
from dataclasses import field

from pentad.shared.actors.headers import read_integer, read_text
from pentad.shared.immutable import immutable

RECENT_TASKS = 10
"""Tasks of a session that its next message may belong to; others go on, and are named to be spoken to."""
_RECENT, _DIGEST, _ANSWER = "live", "digest", "answer"
_ANSWER_HEAD, _ANSWER_TAIL = 600, 390
"""Characters kept of an answer: how it begins, and what it asks at its end."""


VERDICT = "verdict"
"""The field with what a model has said of the message that is being routed."""


def recent_field(task: str) -> str:
    """The field of a session's header that names one of its tasks; its value is when that was spoken to last, in ms."""
    return f"{_RECENT}:{task}"


def digest_field(task: str) -> str:
    """The field with what messages are compared with, see `pentad.shared.digests`."""
    return f"{_DIGEST}:{task}"


def answer_field(task: str) -> str:
    """The field with the task's last answer, as long as no message has come since."""
    return f"{_ANSWER}:{task}"


def fields_of_task(task: str) -> tuple[str, str, str]:
    """All that a session's header knows of a task."""
    return recent_field(task), digest_field(task), answer_field(task)


def excerpt(answer: str) -> str:
    """An answer as it is kept in its session: its beginning and its end."""
    if len(answer) <= _ANSWER_HEAD + _ANSWER_TAIL:
        return answer
    return f"{answer[:_ANSWER_HEAD]} … {answer[-_ANSWER_TAIL:]}"


@immutable
class SessionHeader:
    """A session: which tasks its next message may belong to, and which one ended last."""

    recent: tuple[str, ...]
    """The one that was spoken to last first. The router keeps `RECENT_TASKS` of them."""
    done: str
    done_at: int
    last_in: str
    spoken_at: int = 0
    """When one of them was spoken to last, in ms."""
    digests: Mapping[str, bytes] = field(default_factory=dict)
    """The stored digests that messages are compared with, by task."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """The last answers of tasks since they were spoken to, by task."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """All of them, each once, the one that was spoken to last first."""
        return self.recent if self.done in ("", *self.recent) else (*self.recent, self.done)


def session_header(raw: dict[str, bytes]) -> SessionHeader:
    """A session's header from its hash; a session that nobody wrote to yet is an empty one."""
    spoken_to, digests, answers = dict[str, int](), dict[str, bytes](), dict[str, str]()
    for name, value in raw.items():
        kind, colon, task = name.partition(":")
        if not colon:
            continue
        if kind == _RECENT:
            spoken_to[task] = read_integer(value)
        elif kind == _DIGEST:
            digests[task] = value
        elif kind == _ANSWER:
            answers[task] = read_text(value)
    recent = tuple(sorted(spoken_to, key=spoken_to.__getitem__, reverse=True)) if spoken_to else ()
    return SessionHeader(
        recent=recent,
        done=read_text(raw.get("done", b"")),
        done_at=read_integer(raw.get("done_at", b"0")),
        last_in=read_text(raw.get("last_in", b"")),
        spoken_at=spoken_to[recent[0]] if recent else 0,
        digests=digests,
        answers=answers,
    )
