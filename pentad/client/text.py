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
    return event.content if isinstance(event, MessageEvent | ControlResult) else ""
