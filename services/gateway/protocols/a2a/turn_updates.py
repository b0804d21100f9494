"""Follows a turn, or a task, and returns its updates as clients of A2A get them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from a2a.types.a2a_pb2 import Task, TaskStatusUpdateEvent
from pydantic_core import from_json

from pentad.contracts.events import MessageEvent
from pentad.contracts.turns import NEEDS_APPROVAL, TurnEnd
from pentad.services.gateway.protocols.a2a.task_reader import TaskReader
from pentad.services.gateway.protocols.a2a.translation import A2aRun, Update
from pentad.services.gateway.tasks.approvals import Approvals
from pentad.services.gateway.tasks.event_stream import HEARTBEAT_S
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.turn_stream import Missed, TurnStream
from pentad.shared.events.subscription import SlowReaderError
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys

_CATCH_UP_S = 2.0
"""Seconds of silence after which the task of a decision is looked at, and no earlier event is to come."""

OnTask = Callable[[str], Awaitable[None]]
"""An act that needs the id of a task. Raises ``ProblemError``."""


@immutable
class UpdateSources:
    """The parts that updates are read from."""

    queries: Queries
    approvals: Approvals
    reader: TaskReader


class TurnUpdates:
    """The updates of a run, from its first event on.

    ``history``: messages that the client wants with its task. ``watches``: the task may wait for a person already.
    """

    def __init__(
        self,
        run: A2aRun,
        keys: SessionKeys,
        stream: TurnStream,
        sources: UpdateSources,
        *,
        history: int | None = None,
        watches: bool = False,
    ) -> None:
        self.on_task: OnTask | None = None
        """An act that comes before the client is told of its task."""
        self.run, self._keys, self.stream, self._sources, self._history = run, keys, stream, sources, history
        self._begun, self._watches = False, watches

    async def catch_up(self, tail: bytes) -> Task | None:
        """Read the task's earlier events, up to a cursor, and return the task as it is then; None: it is gone.

        The updates go on from there, whatever the task has waited for before.
        """
        self._begun = True
        end, here = _place(tail), (0, 0)
        while here < end:
            try:
                async with asyncio.timeout(_CATCH_UP_S):
                    read = await self._read()
            except TimeoutError:  # a new primary may lack them
                break
            here = _place(self.stream.position)
            for event in _events(read):
                if (known := self.run.concerns(event)) is not None:
                    self.run.after(known)
                    if self.run.over:
                        self.run.go_on()
        return await self._sources.reader.as_followed(
            self._keys.tenant, self.run.task or "", self.run.address, self.run.texts()
        )

    async def follow(self) -> AsyncIterator[Update]:
        """Return the task, then its updates until the run ends. Nothing for a run that ends without a task."""
        while not self.run.over:
            try:
                async with asyncio.timeout(self._patience):
                    read = await self._read()
            except TimeoutError:
                await self._look()
                if self.run.task is not None and not self._begun:
                    yield await self._begin()
                continue
            if isinstance(read, Missed):
                self.run.after_gap()
                await self._after(from_json(read.snapshot))
                if self.run.task is not None and not self.run.over:
                    await self._prepare(self.run.task)
                    yield await self._task()
                continue
            for event in _events(read):
                for update in await self._after(event):
                    yield update
        if self.run.task is not None:
            if not self._begun:
                yield await self._begin()
            yield await self._end()

    @property
    def _patience(self) -> float:
        return HEARTBEAT_S if self.run.turn.message_id or self._watches else _CATCH_UP_S

    async def _read(self) -> Any:
        while True:
            try:
                return await self.stream.read()
            except SlowReaderError:  # nothing more is kept for the client meanwhile
                await self.stream.catch_up()

    async def _after(self, event: Mapping[str, Any]) -> list[Update]:
        known = self.run.concerns(event)
        if known is None:
            return []
        if isinstance(known, MessageEvent) and known.ref is not None and known.task_id is not None:
            whole = await self._sources.queries.value(self._keys.tenant, known.task_id, known.ref)
            known = known if whole is None else known.model_copy(update={"content": whole})
        updates = self.run.after(known)
        if self.run.task is not None and not self._begun:
            return [await self._begin(), *updates]
        return updates

    async def _prepare(self, task: str) -> None:
        """Act on the task before the client is told of it."""
        on_task, self.on_task, self._begun = self.on_task, None, True
        if on_task is not None:
            await on_task(task)

    async def _begin(self) -> Task:
        task, tenant = self.run.task or "", self._keys.tenant
        await self._prepare(task)
        message = self.run.turn.message_id or None
        found = await self._sources.reader.as_begun(tenant, task, self.run.address, self._history, message)
        return found or Task(id=task, context_id=self._keys.session)

    async def _task(self) -> Task:
        task, tenant = self.run.task or "", self._keys.tenant
        found = await self._sources.reader.as_followed(tenant, task, self.run.address, self.run.texts())
        return found or Task(id=task, context_id=self._keys.session)

    async def _end(self) -> TaskStatusUpdateEvent:
        found = await self._sources.queries.task(self._keys.tenant, self.run.task or "")
        asked = [] if found is None else await self._sources.reader.asked(self._keys.tenant, found)
        return self.run.ended(asked, "1970-01-01T00:00:00.000Z" if found is None else found.updated_at)

    async def _look(self) -> None:
        """End the run where its task has ended, or waits, without our being told."""
        if self.run.controls:
            return
        if self.run.task is None:
            turn = await self._sources.queries.turn(self._keys, self.run.turn.message_id)
            self.run.task = turn.task_id
            self.run.turn = replace(self.run.turn, task_id=turn.task_id)
            if turn.task_id is None and turn.end is not None:
                self.run.end, self.run.answer = turn.end, turn.end.reason if turn.end.ok else None
        task = self.run.task
        found = None if task is None else await self._sources.queries.settled_task(self._keys.tenant, task)
        if found is None:
            return
        end = self.run.turn.settled(found.model_dump(mode="json")).end
        if end is None or (end.outcome == "waiting" and self._watches):
            return
        if end.reason == NEEDS_APPROVAL and not await self._sources.reader.asked(self._keys.tenant, found):
            return  # what was decided has not been taken up yet
        self.run.end = TurnEnd(end.outcome, end.reason, end.detail)


def _events(read: Any) -> list[dict[str, Any]]:
    if isinstance(read, Missed):
        return [from_json(read.snapshot)]
    return [from_json(each.data) for each in read]


def _place(cursor: bytes) -> tuple[int, int]:
    at, _, number = cursor.partition(b"-")
    return int(at), int(number or 0)
