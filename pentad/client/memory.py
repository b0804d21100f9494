"""``agent.memory``: three kinds of memory, each of which is added to, retrieved from, counted and cleared."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from pentad.client.gateway import Rest
from pentad.client.inspection import Inspection
from pentad.client.management import Management
from pentad.contracts.memories import FoundMemory, KeptEpisode, KnownNode, MemoryKind
from pentad.contracts.records import Task
from pentad.errors import Busy, Conflict, NotFound, Refused

_LIVE = frozenset({"pending", "active", "waiting", "stale"})
_LOOK_S, _PATIENCE_S = 0.1, 60.0
_EVER = "1970-01-01T00:00:00Z"


class WorkingMemory:
    """Working memory: the messages of a conversation's tasks that have not been archived, the newest of them.

    ``session_id``: the conversation, where no other is named; all raise ``Refused`` where none is, and ``ClientError``.
    """

    def __init__(
        self,
        rest: Rest,
        inspection: Inspection,
        management: Management,
        session_id: str | None,
        user_id: str | None = None,
    ) -> None:
        self._rest, self._inspection, self._management = rest, inspection, management
        self._session, self._user = session_id, user_id

    async def add(self, text: str, *, session_id: str | None = None, user_id: str | None = None) -> str:
        """Send a message of this text without waiting for its answer. Returns the id of the message."""
        user = user_id or self._user
        body = {"content": text, "session_id": self._named(session_id)} | ({"user_id": user} if user else {})
        return str((await self._rest.call("POST", "/v1/messages", body=body))["message_id"])

    async def retrieve(
        self, question: str, *, limit: int | None = None, session_id: str | None = None, user_id: str | None = None
    ) -> list[FoundMemory]:
        """Find messages that share words with the question, the best first: without a user, or of the named user."""
        session = self._named(session_id)
        kind = MemoryKind.WORKING
        return await self._inspection.search_memory(
            question, limit=limit, user_id=user_id, kind=kind, session_id=session
        )

    async def stats(self, *, session_id: str | None = None) -> dict[str, int]:
        """How many ``tasks`` it is, and ``segments`` in them."""
        return await _stats(self._rest, MemoryKind.WORKING, self._named(session_id))

    async def clear(self, *, session_id: str | None = None) -> int:
        """Let the conversation's tasks leave it: what runs is cancelled, then all of them are archived; how many.

        What was said in them is episodic memory, as after each task's end. Raises ``Busy`` when that takes long.
        """
        session = self._named(session_id)
        tasks = await self._tasks(session)
        for task in tasks:
            if task.status in _LIVE:
                with suppress(Conflict):  # it has ended meanwhile
                    await self._management.cancel_task(task.task_id)
        await self._until(session, lambda task: task.status not in _LIVE)
        for task in tasks:
            with suppress(Conflict, NotFound):  # somebody has spoken to it again, or had it erased
                await self._management.archive_task(task.task_id)
        names = {task.task_id for task in tasks}
        await self._until(session, lambda task: task.task_id not in names)
        return len(tasks)

    async def _until(self, session: str, is_done: Callable[[Task], bool]) -> None:
        """Wait until that is so of every task that is there."""
        until = monotonic() + _PATIENCE_S
        while not all(map(is_done, await self._tasks(session))):
            if monotonic() > until:
                raise Busy(f"the tasks of {session} do not end, or are not archived: see that an archiver runs")
            await asyncio.sleep(_LOOK_S)

    async def _tasks(self, session: str) -> list[Task]:
        return [task for task in await self._inspection.tasks(session_id=session) if task.archived_at is None]

    def _named(self, session_id: str | None) -> str:
        named = session_id or self._session
        if named is None:
            raise Refused('name the conversation: agent.session("...").memory, or session_id=')
        return named


class EpisodicMemory:
    """Episodic memory: messages of ended tasks, word for word. All methods raise ``ClientError``."""

    def __init__(self, rest: Rest, inspection: Inspection, management: Management) -> None:
        self._rest, self._inspection, self._management = rest, inspection, management

    async def add(self, text: str, *, user_id: str | None = None, at: str | None = None) -> KeptEpisode:
        """Keep what was said elsewhere. ``at``: when (RFC 3339), now if not given; with the same it is kept once.

        It is found a moment later. Raises ``Refused`` for a wrong value.
        """
        given = {"text": text, "user_id": user_id, "at": at}
        body = {name: value for name, value in given.items() if value is not None}
        return KeptEpisode.model_validate(await self._rest.call("POST", "/v1/memory/episodes", body=body))

    async def retrieve(
        self, question: str, *, limit: int | None = None, user_id: str | None = None
    ) -> list[FoundMemory]:
        """Search this kind of memory, as ``inspection.search_memory`` does."""
        return await self._inspection.search_memory(question, limit=limit, user_id=user_id, kind=MemoryKind.EPISODIC)

    async def stats(self) -> dict[str, int]:
        """How many ``segments`` of how many ``tasks`` are remembered, whoever's they are."""
        return await _stats(self._rest, MemoryKind.EPISODIC)

    async def clear(self, **which: Any) -> int:
        """Forget all of it, or what meets all of ``which``, as of ``management.forget``. Returns how many segments.

        It cannot be undone; records stay.
        """
        return await _clear(self._management, MemoryKind.EPISODIC, which)


class SemanticMemory:
    """Semantic memory: the nodes of the graph. All methods raise ``ClientError``."""

    def __init__(self, rest: Rest, inspection: Inspection, management: Management) -> None:
        self._rest, self._inspection, self._management = rest, inspection, management

    async def add(self, text: str, *, kind: str = "fact", **fields: Any) -> KnownNode:
        """Keep something that a person knows: see ``management.add_node``."""
        return await self._management.add_node(kind, text, **fields)

    async def retrieve(
        self, question: str, *, limit: int | None = None, user_id: str | None = None
    ) -> list[FoundMemory]:
        """Search this kind of memory, as ``inspection.search_memory`` does."""
        return await self._inspection.search_memory(question, limit=limit, user_id=user_id, kind=MemoryKind.SEMANTIC)

    async def stats(self) -> dict[str, int]:
        """How many ``nodes`` and ``edges`` are known, whoever's they are; and ``names``, of which tasks are some.

        Names last as long as what mentions them, and edges that join them: ``clear`` takes the ``nodes``.
        """
        return await _stats(self._rest, MemoryKind.SEMANTIC)

    async def clear(self, **which: Any) -> int:
        """Forget all of it, or what meets all of ``which``, as of ``management.forget``. Returns how many nodes.

        What was said stays, and names go with what mentions them.
        """
        return await _clear(self._management, MemoryKind.SEMANTIC, which)


class MemoryManager:
    """The three kinds together."""

    def __init__(
        self,
        rest: Rest,
        inspection: Inspection,
        management: Management,
        session_id: str | None,
        user_id: str | None = None,
    ) -> None:
        self._inspection, self._session = inspection, session_id
        self.working = WorkingMemory(rest, inspection, management, session_id, user_id)
        self.episodic = EpisodicMemory(rest, inspection, management)
        self.semantic = SemanticMemory(rest, inspection, management)

    async def add(
        self, text: str, kind: MemoryKind | str = MemoryKind.EPISODIC, **about: Any
    ) -> str | KeptEpisode | KnownNode:
        """Add to one kind; ``about``: as its own ``add`` takes it."""
        added: str | KeptEpisode | KnownNode = await self._of(kind).add(text, **about)
        return added

    async def retrieve(
        self, question: str, *, limit: int | None = None, user_id: str | None = None
    ) -> list[FoundMemory]:
        """Search working memory where the agent has a session, then the rest: ``limit`` hits of each, best first."""
        now = [] if self._session is None else await self.working.retrieve(question, limit=limit, user_id=user_id)
        return [*now, *await self._inspection.search_memory(question, limit=limit, user_id=user_id)]

    async def stats(self) -> dict[str, dict[str, int]]:
        """The figures of each kind, by its name; the working memory's where the agent has a conversation."""
        now = {} if self._session is None else {MemoryKind.WORKING.value: await self.working.stats()}
        lasting = {MemoryKind.EPISODIC.value: await self.episodic.stats()}
        return now | lasting | {MemoryKind.SEMANTIC.value: await self.semantic.stats()}

    async def clear(self, kind: MemoryKind | str, **which: Any) -> int:
        """Clear one kind; ``which``: as its own ``clear`` takes it."""
        cleared: int = await self._of(kind).clear(**which)
        return cleared

    def _of(self, kind: MemoryKind | str) -> Any:
        if kind not in tuple(MemoryKind):
            raise Refused(f"kind must be one of {', '.join(MemoryKind)}")
        return getattr(self, MemoryKind(kind).value)


async def _stats(rest: Rest, kind: MemoryKind, session_id: str | None = None) -> dict[str, int]:
    found: dict[str, int] = await rest.call("GET", "/v1/memory/stats", kind=kind.value, session_id=session_id)
    return found


async def _clear(management: Management, kind: MemoryKind, which: dict[str, Any]) -> int:
    ids: Sequence[str] | None = which.pop("ids", None)
    conditions = which if ids is not None or which.keys() - {"user_id"} else {"since": _EVER, **which}
    return await management.forget(ids, kind=kind, **conditions)
