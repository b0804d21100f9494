"""A message that comes alone to a session with nothing to do is routed where it enters, in one commit.

It saves the session's mailbox, wake-up and lease: four of a router's seven commands, and one process to wake. The
decision is the same pure one. The commit holds only if nobody else has decided anything in the session since it was
read, and its tasks have the status that was seen; else, and for every rarer case, the message is posted as always.
"""

import asyncio
import logging
from collections import OrderedDict

from contracts.commands import InboundMessage
from services.router.deciding import Deciding, Said
from services.router.domain import decide
from shared.bus.inbound import Source
from shared.errors import DamagedError, OutageError
from shared.state.actors import Actors
from shared.state.headers import SessionHeader, TaskHeader, pairs, session_header, task_header
from shared.state.keys import SessionKeys, TaskKeys, load
from shared.state.sessions import load_tasks

log = logging.getLogger(__name__)

_REMEMBERED = 10_000


class AtOnce:
    """Routes messages past their sessions' mailboxes. What it remembers only saves a question to Redis."""

    def __init__(self, actors: Actors, deciding: Deciding, limit: int) -> None:
        self._actors, self._deciding, self._limit = actors, deciding, limit
        self._last: OrderedDict[str, str] = OrderedDict()
        """Each session's task that a message went to last: most likely the one that the next is about."""

    async def route(self, keys: SessionKeys, message: InboundMessage, entry_id: str, source: Source) -> int | None:
        """How many messages wait in the shard now; None, and nothing done, when this one is to be posted."""
        try:
            return await self._route(Said(keys, message, entry_id), source)
        except OutageError:
            raise
        except DamagedError:
            return None
        except Exception:
            log.exception("a message of %s is posted to its session", keys.actor)
            return None

    async def _route(self, said: Said, source: Source) -> int | None:
        keys, message = said.keys, said.message
        if message.task_id is not None:
            return None
        guess = self._last.get(keys.header, "")
        now, raw, waiting, guessed = await self._read(keys, guess)
        if raw.get("wake") or waiting >= self._limit:
            return None
        live, done = await self._tasks(keys, session_header(raw), {guess: guessed} if guess else {})
        route = decide(self._deciding.view(message, (live, done, None), now))
        if route.decision == "rejected":
            return None
        commit = self._deciding.commit(keys)
        task = await self._deciding.write(commit, said, route, now)
        self._deciding.arrive(commit, said, source.generation)
        if await self._actors.commit_untaken(commit, raw.get("v", b"0").decode(), source.connection) != "ok":
            return None
        self._remember(keys, task)
        return waiting + 1

    async def _read(self, keys: SessionKeys, guess: str) -> tuple[int, dict[str, bytes], int, TaskHeader | None]:
        store = self._actors.store
        asked = [store.clock(), store.call("HGETALL", keys.header), store.call("HGET", load(keys.shard), "mail")]
        if guess:
            asked.append(store.call("HGETALL", TaskKeys(keys.shard, keys.tenant, guess).header))
        now, raw, waiting, *more = await asyncio.gather(*asked)
        task = task_header(keys.tenant, guess, pairs(more[0])) if more else None
        return now, pairs(raw), int(waiting or 0), task

    async def _tasks(
        self, keys: SessionKeys, session: SessionHeader, known: dict[str, TaskHeader | None]
    ) -> tuple[TaskHeader | None, TaskHeader | None]:
        """The session's live task and the one that ended last."""
        wanted = {task for task in (session.live, session.done) if task}
        if not wanted <= known.keys():
            ids = sorted(wanted)
            known = dict(zip(ids, await load_tasks(self._actors.store, keys.shard, keys.tenant, ids), strict=True))
        return known.get(session.live), known.get(session.done)

    def _remember(self, keys: SessionKeys, task: str) -> None:
        self._last[keys.header] = task
        self._last.move_to_end(keys.header)
        if len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
