"""Progress of a tool call of MCP, told from the events of its turn while it is waited for."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from pydantic_core import from_json

from pentad.contracts.events import (
    MessageRouted,
    NodeStart,
    SessionEvent,
    TaskStart,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
)
from pentad.contracts.turns import TurnTracker
from pentad.services.gateway.domain.waited_turn import known_event
from pentad.services.gateway.tasks.turn_stream import Missed, TurnStream, TurnStreams
from pentad.shared.clipping import plain
from pentad.shared.event_loop import cancel_all
from pentad.shared.events.subscription import SlowReaderError
from pentad.shared.keys import SessionKeys

Tell = Callable[[float, str], Awaitable[None]]
"""Function that tells a client the number of the progress, which grows, and a text."""
log = logging.getLogger(__name__)
_MAX_TEXT = 500
"""Characters of one text."""


def progress_text(event: SessionEvent) -> str | None:
    """Return the text that tells of an event; None for one that is not told."""
    match event:
        case MessageRouted():
            text = f"{event.decision}: {event.reason}"
        case TaskStart() if event.parent_task_id:
            text = f"starts a task: {event.node or event.goal}"
        case NodeStart():
            text = f"comes to {event.node}"
        case ToolCallEvent():
            text = f"calls {event.tool}"
        case ToolProgress():
            text = f"{event.tool}: {event.content}"
        case ToolResultEvent():
            text = f"{event.tool} has answered" if event.error is None else f"{event.tool} has failed: {event.error}"
        case _:
            return None
    return plain(text, _MAX_TEXT)


@asynccontextmanager
async def told_progress(
    streams: TurnStreams, keys: SessionKeys, turn: TurnTracker, tell: Tell | None
) -> AsyncIterator[None]:
    """Tell the progress of a turn for the length of a block, from now on. ``tell`` None: nobody has asked for it."""
    if tell is None:
        yield
        return
    stream = await streams.open(keys, None)
    telling = asyncio.create_task(_told(stream, keys, turn, tell))
    try:
        yield
    finally:
        await cancel_all({telling})
        stream.close()


async def _told(stream: TurnStream, keys: SessionKeys, turn: TurnTracker, tell: Tell) -> None:
    about = f"message {turn.message_id}" if turn.message_id else f"task {turn.task_id}"
    try:
        await tell(0, f"{about} of session {keys.session}")
        number = 0
        while True:
            read = await stream.read()
            for event in () if isinstance(read, Missed) else read:
                known = known_event(from_json(event.data))
                if known is None or not turn.concerns(known):
                    continue
                turn = replace(turn.after(known), end=None)  # a decision may let it go on
                if (text := progress_text(known)) is not None:
                    number += 1
                    await tell(number, text)
    except SlowReaderError:
        return  # the end is told all the same
    except Exception:
        log.exception("the progress of a tool call is not told any more")
