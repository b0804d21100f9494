"""The server-sent events of a run of AG-UI, from its beginning or from where a client was cut off."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from pydantic_core import from_json, to_json

from pentad.contracts.turns import NEEDS_APPROVAL
from pentad.services.gateway.protocols.agui.translation import AguiRun, Out, messages_of
from pentad.services.gateway.tasks.approvals import Approvals
from pentad.services.gateway.tasks.event_stream import ALIVE, HEARTBEAT_S
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.turn_stream import Missed, TurnStream
from pentad.shared.events.deltas import StreamEvent
from pentad.shared.events.subscription import SlowReaderError
from pentad.shared.keys import SessionKeys

_CATCH_UP_S = 2.0
"""Seconds of silence after which no event up to the client's cursor is to come: a new primary may lack it."""


class RunEvents:
    """The events of a run. ``after``: the cursor of a client that takes the run up again; None: the run begins."""

    def __init__(
        self,
        run: AguiRun,
        keys: SessionKeys,
        stream: TurnStream,
        queries: Queries,
        approvals: Approvals,
        after: bytes | None = None,
    ) -> None:
        self._run, self._keys, self._stream, self._after = run, keys, stream, after
        self._queries, self._approvals = queries, approvals

    def close(self) -> None:
        """Close the subscription. Safe to call twice."""
        self._stream.close()

    async def blocks(self) -> AsyncIterator[bytes]:
        """Return the events until the run ends, waits for a person, or the client reads too slowly."""
        try:
            if self._after is None:
                await self._note_asked()
                yield _block(self._run.begin())
            else:
                late = await self._catch_up(_place(self._after))
                run, turns = self._run, await self._queries.messages(self._keys)
                yield _block(run.resumed(messages_of(turns, run.run, run.turn.task_id, run.since_ms)))
                yield await self._told(late)
            while not self._run.over:
                try:
                    async with asyncio.timeout(self._patience):
                        read = await self._stream.read()
                except TimeoutError:
                    yield await self._looked()
                else:
                    yield await self._told(read)
        except SlowReaderError:
            return

    @property
    def _patience(self) -> float:
        """Seconds of silence after which the run's task is looked at. A run that a decision has begun may have ended
        before: the same decision sent again changes nothing."""
        return HEARTBEAT_S if self._run.turn.message_id else _CATCH_UP_S

    async def _note_asked(self) -> None:
        """Note the calls of a run's task that wait for a decision already, beside those that are decided about now."""
        if (task := self._run.turn.task_id) is not None:
            for request in await self._approvals.of_task(self._keys.tenant, task):
                self._run.asks(request)

    async def _catch_up(self, after: tuple[int, int]) -> Sequence[StreamEvent] | Missed:
        """Follow the run up to the client's cursor, and return what has been read beyond it."""
        here = (0, 0)
        while here < after:
            try:
                async with asyncio.timeout(_CATCH_UP_S):
                    read = await self._stream.read()
            except TimeoutError:
                return ()
            if isinstance(read, Missed):
                return read
            for number, event in enumerate(read):
                if (here := _place(event.id)) > after:
                    return read[number:]
                self._run.after(from_json(event.data))
        return ()

    async def _told(self, read: Sequence[StreamEvent] | Missed) -> bytes:
        if isinstance(read, Missed):
            return _block(self._run.after(from_json(read.snapshot)), read.position)
        blocks = list[bytes]()
        for each in read:
            event = from_json(each.data)
            if event.get("reason") == NEEDS_APPROVAL:  # for calls of earlier turns, too
                await self._note_asked()
            blocks.append(_block(self._run.after(event), each.id))
        return b"".join(blocks)

    async def _looked(self) -> bytes:
        """Return a sign of life; where the run's task has ended or waits without our being told, the end of the run."""
        task = self._run.turn.task_id
        found = None if task is None else await self._queries.settled_task(self._keys.tenant, task)
        if found is None:
            return ALIVE
        end = self._run.turn.settled(found.model_dump(mode="json")).end
        if end is None:
            return ALIVE
        await self._note_asked()
        if end.reason == NEEDS_APPROVAL and not self._run.waits:  # what was decided has not been taken up yet
            return ALIVE
        return _block(self._run.settled(end))


def _place(cursor: bytes) -> tuple[int, int]:
    at, _, number = cursor.partition(b"-")
    return int(at), int(number or 0)


def _block(events: Sequence[Out], cursor: bytes | None = None) -> bytes:
    """Return events as they are sent. The last has the cursor: who is cut off before it gets them all again."""
    if not events:
        return b""
    told = [b"data: %b\n\n" % to_json(event) for event in events]
    if cursor is not None:
        told[-1] = b"id: %b\n%b" % (cursor, told[-1])
    return b"".join(told)
