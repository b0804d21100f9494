"""Following of a message's turn, from before the message is appended until the turn ends."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import from_json

from pentad.contracts.commands import InboundMessage
from pentad.services.gateway.domain.waited_turn import TurnFilter, WaitedTurn
from pentad.services.gateway.tasks.message_intake import MessageIntake
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.turn_stream import Missed, TurnStream, TurnStreams
from pentad.shared.events.deltas import StreamEvent
from pentad.shared.events.feed import START
from pentad.shared.events.subscription import SlowReaderError
from pentad.shared.keys import SessionKeys


class TurnFollower:
    """Appends messages and follows their turns."""

    def __init__(self, streams: TurnStreams, intake: MessageIntake, queries: Queries) -> None:
        self._streams, self._intake, self._queries = streams, intake, queries

    async def begin(self, message: InboundMessage, keys: SessionKeys, turn: TurnFilter | None = None) -> TurnStream:
        """Open the stream, then append the message, so that no event is missed. A repeated id follows the first turn.

        ``turn``: filter for the events of the turn. The caller closes the stream. Raises ``ProblemError``.
        """
        stream = await self._streams.open(keys, None, turn)
        try:
            if await self._intake.is_repeat(message, keys):
                stream.close()
                return await self._streams.open(keys, START, turn)
            await self._intake.accept(message, keys)
        except BaseException:
            stream.close()
            raise
        return stream

    @property
    def stopping(self) -> bool:
        """Whether the gateway stops: nothing is waited for any more."""
        return self._streams.closing.is_set()

    async def knows(self, keys: SessionKeys, message_id: str) -> bool:
        """Return whether a message of this id was accepted. Raises ``ProblemError`` (503)."""
        return await self._intake.was_accepted(keys, message_id)

    async def wait(self, message: InboundMessage, keys: SessionKeys, wait_s: float) -> WaitedTurn:
        """Append a message, and return its turn when it ends or the time is up. Raises ``ProblemError``."""
        limit = asyncio.get_running_loop().time() + wait_s
        turn = WaitedTurn(message.message_id or "")
        return await self._followed(await self.begin(message, keys), keys, turn, limit)

    async def follow(self, keys: SessionKeys, message_id: str, wait_s: float) -> WaitedTurn:
        """Return the turn of an accepted message when it ends or the time is up. Raises ``ProblemError``."""
        limit = asyncio.get_running_loop().time() + wait_s
        return await self._followed(await self._streams.open(keys, START), keys, WaitedTurn(message_id), limit)

    async def _followed(self, stream: TurnStream, keys: SessionKeys, turn: WaitedTurn, limit: float) -> WaitedTurn:
        """Read the stream until the turn ends or the time is up, and close it."""
        try:
            async with asyncio.timeout_at(limit):
                await _until_ended(self._streams.closing, stream, turn)
        except TimeoutError:
            pass
        finally:
            stream.close()
        if turn.ref is not None and turn.task_id is not None:
            turn.answer = await self._queries.value(keys.tenant, turn.task_id, turn.ref) or turn.answer
        return turn


async def _until_ended(closing: asyncio.Event, stream: TurnStream, turn: WaitedTurn) -> None:
    """Feed the turn with the session's events until it ends or the gateway stops; a snapshot replaces lost events.

    If more events wait than are kept for a reader, they are read from the stream again.
    """
    closed = asyncio.create_task(closing.wait())
    try:
        while True:
            reading = asyncio.create_task(stream.read())
            try:
                await asyncio.wait({reading, closed}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    return
                read = reading.result()
            except SlowReaderError:
                await stream.catch_up()
                continue
            finally:
                reading.cancel()
            if any(turn.feed(event) for event in _events(read)):
                return
    finally:
        closed.cancel()


def _events(read: Sequence[StreamEvent] | Missed) -> Iterator[dict[str, Any]]:
    if isinstance(read, Missed):
        yield from_json(read.snapshot)
    else:
        for event in read:
            yield {"id": event.id.decode()} | from_json(event.data)
