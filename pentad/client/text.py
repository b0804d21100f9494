"""From deltas to the text a person sees: overlaps cut, void attempts withdrawn, gaps healed. Pure."""

from dataclasses import dataclass, replace

from pentad.contracts.events import Content, ControlResult, MessageEvent, SessionEvent, Snapshot


@dataclass(frozen=True, slots=True)
class Shown:
    """The text of one step that is on the screen."""

    task_id: str | None = None
    step: int = -1
    attempt: int = 0
    text: str = ""
    whole: bool = False
    """The step's ``message`` has come: nothing more will."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The text to show next. ``restart``: the step's text so far is void, ``text`` begins it anew."""

    text: str = ""
    restart: bool = False


NO_TEXT = Piece()
_MOST_STEPS = 1 << 30
"""More steps than a turn has: what is no step's text has a place below zero."""


def show(shown: Shown, event: Content | MessageEvent) -> tuple[Shown, Piece]:
    """Return the screen after the event, and the text to add for it.

    A delta beyond a gap is held back: the step's ``message`` brings what is missing.
    """
    shown = _at_step(shown, event)
    if shown.whole or event.step < shown.step:
        return shown, NO_TEXT
    if isinstance(event, MessageEvent):
        return _finish(shown, event)
    if event.attempt < shown.attempt:
        return shown, NO_TEXT
    return _extend(shown, event)


def _at_step(shown: Shown, event: Content | MessageEvent) -> Shown:
    """Return the screen, or an empty one when the event begins another step or task."""
    if event.task_id == shown.task_id and event.step <= shown.step:
        return shown
    return Shown(event.task_id, event.step, event.attempt)


def _extend(shown: Shown, delta: Content) -> tuple[Shown, Piece]:
    restart = delta.attempt > shown.attempt and shown.text != ""
    if delta.attempt > shown.attempt:
        shown = replace(shown, attempt=delta.attempt, text="")
    have = len(shown.text)
    new = delta.content[have - delta.offset :] if delta.offset <= have else ""
    return replace(shown, text=shown.text + new), Piece(new, restart)


def _finish(shown: Shown, message: MessageEvent) -> tuple[Shown, Piece]:
    done = replace(shown, attempt=message.attempt, text=message.content, whole=True)
    if message.attempt == shown.attempt and message.content.startswith(shown.text):
        return done, Piece(message.content[len(shown.text) :])
    return done, Piece(message.content, restart=shown.text != "")


class TurnText:
    """The text that an agent has said in one turn so far, with everything corrected that was taken back."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str | None, int], Shown] = {}
        """The text of each step of each task, in the order in which they began."""

    def __str__(self) -> str:
        """The steps that have said something, with an empty line between them."""
        return "\n\n".join(shown.text for shown in self._steps.values() if shown.text)

    def add(self, event: SessionEvent, task_id: str | None) -> bool:
        """Take an event of the turn, whose task is ``task_id``; return whether the text has changed.

        A snapshot comes where events were lost: the turn's text is then the answer that it shows.
        """
        if isinstance(event, Content | MessageEvent):
            place = (event.task_id, event.step)
            self._steps[place], piece = show(self._steps.get(place, Shown()), event)
            return piece != NO_TEXT
        if text := said_in(event, task_id):
            if isinstance(event, Snapshot):
                self._steps.clear()
            self._steps[task_id, len(self._steps) - _MOST_STEPS] = Shown(text=text, whole=True)
            return True
        return False


def answer_in(snapshot: Snapshot, task_id: str | None) -> str:
    """The last thing the agent said in this task according to a snapshot; empty when it says nothing."""
    for message in reversed(snapshot.messages):
        if message.get("role") == "assistant" and message.get("task_id") == task_id and message.get("content"):
            return str(message["content"])
    return ""


def said_in(event: SessionEvent, task_id: str | None) -> str:
    """Return the text that an event says to the person in a turn of ``task_id``; empty for other events."""
    if isinstance(event, Snapshot):
        return answer_in(event, task_id)
    if isinstance(event, MessageEvent) and task_id is not None and event.task_id != task_id:
        return ""  # of a task that this one has started
    return event.content if isinstance(event, MessageEvent | ControlResult) else ""
