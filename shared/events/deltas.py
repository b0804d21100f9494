"""A filter for the deltas that a client gets: each attempt's text once, in order, two attempts never mixed (hazard 4).

Deltas are written outside the transaction, so a runner that lost its lease can still write some, a retried append can
repeat some, and a lost one leaves a hole. The ``message`` event that follows heals a gap that the filter leaves. Pure.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic_core import from_json, to_json

from pentad.contracts.events import MessageEvent, TaskEnd, ToolCallEvent

DROP = -1
PASS = 0
_CLOSED = 1 << 62
"""Number of an attempt that no runner reaches: every delta of a closed step is older."""
_TASKS = 512
"""Tasks that one filter remembers; the one whose deltas began first is forgotten first."""
_ENDS = tuple(event.type_name() for event in (MessageEvent, ToolCallEvent, TaskEnd))
_MARK_OF_AN_END = re.compile('"type":"({})"'.format("|".join(_ENDS)).encode())

Marks = tuple[str, str, int, int, int, int]


@dataclass(slots=True)
class _Progress:
    """How far a client has read a task's newest attempt."""

    step: int
    attempt: int
    thinking: int = 0
    content: int = 0


@dataclass(slots=True)
class StreamEvent:
    """One entry of an event stream, the same for all who listen."""

    id: bytes
    data: bytes
    """JSON object without ``id``."""
    mark: bytes | None = None
    """``KIND TASK STEP ATTEMPT OFFSET LENGTH`` of a delta."""
    closes: tuple[str, int | None] | None = field(init=False)
    """The task and step (None: the newest) whose deltas are over with this event."""

    _text: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.closes = None if self.mark is not None else _closed_by(self.data)

    @property
    def text(self) -> str:
        """The event as clients get it: the same JSON object with its ``id``, spliced in without parsing."""
        if not self._text:  # what is only read back to find one's place is never sent
            self._text = f'{{"id":"{self.id.decode()}",{self.data[1:].decode(errors="replace")}'
        return self._text

    def cut(self, characters: int) -> "StreamEvent":
        """Return this delta without its first characters."""
        body = from_json(self.data)
        body["content"] = body["content"][characters:]
        body["offset"] += characters
        return StreamEvent(self.id, to_json(body), self.mark)


def _closed_by(data: bytes) -> tuple[str, int | None] | None:
    if _MARK_OF_AN_END.search(data) is None:
        return None
    body = from_json(data)
    if body.get("type") not in _ENDS or not body.get("task_id"):
        return None
    return body["task_id"], body["step"] if body["type"] == "message" else None


def marks_of(mark: bytes) -> Marks:
    """A delta's mark: kind, task, step, attempt, offset, length. Raises ``ValueError`` when it is none."""
    kind, task, step, attempt, offset, length = mark.decode().split(" ")
    return kind, task, int(step), int(attempt), int(offset), int(length)


class DeltaFilter:
    """One subscriber's view of the deltas of its session."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[str, _Progress] = {}

    def apply(self, event: StreamEvent) -> StreamEvent | None:
        """Return the part of an event that the client gets: all of it, its end, or None."""
        if event.mark is None:
            if event.closes is not None:
                self.close(*event.closes)
            return event
        verdict = self.judge(event.mark)
        if verdict == PASS:
            return event
        return None if verdict == DROP else event.cut(verdict)

    def judge(self, mark: bytes, adopt: bool = False) -> int:
        """`PASS`, `DROP`, or how many leading characters the client has already.

        ``adopt``: trust a delta of a task that nothing is known of, wherever it starts.
        """
        try:
            kind, task, step, attempt, offset, length = marks_of(mark)
        except ValueError:
            return DROP
        known = self._tasks.get(task)
        if known is None or (step, attempt) > (known.step, known.attempt):
            start = offset if adopt and known is None else 0
            known = self._remember(task, _Progress(step, attempt, start, start))
        elif (step, attempt) < (known.step, known.attempt):
            return DROP
        following = known.thinking if kind == "thinking" else known.content
        if offset > following or offset + length <= following:
            return DROP
        if kind == "thinking":
            known.thinking = offset + length
        else:
            known.content = offset + length
        return following - offset

    def close(self, task: str, step: int | None) -> None:
        """The step is over (None: the newest known): nothing of it, by whatever attempt, passes any more."""
        known = self._tasks.get(task)
        if known is None:
            if step is not None:
                self._remember(task, _Progress(step, _CLOSED))
        elif step is None or step >= known.step:
            known.step, known.attempt = known.step if step is None else step, _CLOSED

    def prime(self, earlier: Iterable[StreamEvent]) -> None:
        """Learn, from the events before its cursor in their order, what the client has read."""
        for event in earlier:
            if event.mark is not None:
                self.judge(event.mark, adopt=True)
            elif event.closes is not None:
                self.close(*event.closes)

    def _remember(self, task: str, progress: _Progress) -> _Progress:
        if task not in self._tasks and len(self._tasks) >= _TASKS:
            del self._tasks[next(iter(self._tasks))]
        self._tasks[task] = progress
        return progress


def without_finished(events: list[StreamEvent]) -> list[StreamEvent]:
    """A replay without the deltas of those steps whose ``message`` is in it."""
    finished = {e.closes for e in events if e.closes is not None and e.closes[1] is not None}
    if not finished:
        return events
    return [e for e in events if e.mark is None or _step_of(e.mark) not in finished]


def reaches_back(events: list[StreamEvent]) -> bool:
    """Whether the newest attempt of every task in these events begins, or is over, within them."""
    begun: dict[str, bool] = {}
    newest: dict[str, tuple[int, int]] = {}
    for event in events:
        if event.closes is not None:
            begun[event.closes[0]] = True
        elif event.mark is not None:
            try:
                _, task, step, attempt, offset, _ = marks_of(event.mark)
            except ValueError:
                continue
            if (step, attempt) > newest.get(task, (-1, -1)):
                newest[task] = (step, attempt)
                begun[task] = offset == 0
    return all(begun.values())


def _step_of(mark: bytes) -> tuple[str, int] | None:
    try:
        return marks_of(mark)[1:3]
    except ValueError:
        return None
