"""Functions that a program is told by while an instruction runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from pentad.client.text import Shown, show
from pentad.contracts.events import Content, MessageEvent, SessionEvent, ToolCallEvent, ToolResultEvent

Told = Awaitable[None] | None
"""Result of a callback: nothing of a plain function, an awaitable of an async one; the next event waits for it."""


@dataclass(frozen=True, slots=True)
class RunCallbacks:
    """The callbacks of one run; those that are None are not called."""

    on_text: Callable[[str], Told] | None = None
    on_tool_start: Callable[[ToolCallEvent], Told] | None = None
    on_tool_end: Callable[[ToolResultEvent], Told] | None = None
    on_complete: Callable[[Any], Told] | None = None

    @property
    def follow(self) -> bool:
        """Whether any callback is about what happens before the end."""
        return any((self.on_text, self.on_tool_start, self.on_tool_end))


class RunTelling:
    """Calls the callbacks of one run for its events.

    The texts of tasks that the run has started are told whole: several of them may speak at once.
    """

    def __init__(self, callbacks: RunCallbacks) -> None:
        self._callbacks = callbacks
        self._shown = Shown()

    async def tell(self, event: SessionEvent) -> None:
        """Call what is to be called for an event. Raises what a callback raises."""
        callbacks = self._callbacks
        if isinstance(event, MessageEvent) and event.parent_task_id is not None:
            await called(callbacks.on_text, event.content)
        elif isinstance(event, Content | MessageEvent) and event.parent_task_id is None:
            self._shown, piece = show(self._shown, event)
            if piece.text:
                await called(callbacks.on_text, piece.text)
        elif isinstance(event, ToolCallEvent):
            await called(callbacks.on_tool_start, event)
        elif isinstance(event, ToolResultEvent):
            await called(callbacks.on_tool_end, event)


async def called(callback: Callable[[Any], Told] | None, argument: Any) -> None:
    """Call a callback, if there is one, and await what it returns."""
    told = None if callback is None else callback(argument)
    if isawaitable(told):
        await told
