"""Routes a message to a session with nothing to do in the commit with which the message enters the session.

This saves the session's mailbox, wake-up and lease: four of a router's seven commands, and one process to wake. The
decision is the same pure one. The commit succeeds only if nobody else has committed in the session since it was read,
and its tasks have the status that was seen. Otherwise, and in every rarer case, the message is posted as usual.
"""

import logging
from collections import OrderedDict

from pentad.contracts.commands import InboundMessage
from pentad.services.router.message_router import IncomingMessage, MessageRouter
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.headers import TaskHeader, pairs, task_header
from pentad.shared.actors.session_header import SessionHeader, session_header
from pentad.shared.actors.sessions import load_tasks
from pentad.shared.errors import DamagedError, OutageError
from pentad.shared.inbound.fast_path import Source
from pentad.shared.keys import SessionKeys, TaskKeys, load
from pentad.shared.store.store import Command

log = logging.getLogger(__name__)

_MAX_SESSIONS = 10_000
"""Sessions whose last task is remembered."""


class FastRouting:
    """Routes messages past their sessions' mailboxes: the `FastPath` of the ingress.

    What it remembers only saves a question to Redis.
    """

    def __init__(self, actors: Actors, message_router: MessageRouter, limit: int) -> None:
        self._actors, self._router, self._limit = actors, message_router, limit
        self._last: OrderedDict[str, str] = OrderedDict()
        """The task of each session that a message went to last: most likely the one that the next is about."""

    async def route(self, keys: SessionKeys, message: InboundMessage, entry_id: str, source: Source) -> int | None:
        """Route one message; return how many wait in the shard then.

        Return None, with nothing changed, when the message must be posted to its session instead.
        """
        try:
            return await self._route(IncomingMessage(keys, message, entry_id), source)
        except OutageError:
            raise
        except DamagedError:
            return None
        except Exception:
            log.exception("a message of %s is posted to its session", keys.actor)
            return None

    async def _route(self, incoming: IncomingMessage, source: Source) -> int | None:
        keys, message = incoming.keys, incoming.message
        if message.task_id is not None:
            return None
        raw, waiting, known = await self._look(keys, source)
        if raw.get("wake") or waiting >= self._limit:
            return None
        session = session_header(raw)
        view = await self._router.view(message, await self._tasks(keys, session, known), source.at)
        decided = await self._router.route_here(incoming, session, view)
        if decided is None:
            return None
        route, updates = decided
        if route.decision in ("rejected", "control"):
            return None
        commit = self._router.commit(keys)
        task = await self._router.write(commit, incoming, session, view, route, updates)
        self._router.arrive(commit, incoming, source.generation)
        if await self._actors.commit_untaken(commit, raw.get("v", b"0").decode(), source.connection) != "committed":
            return None
        self._remember(keys, task)
        return waiting + 1

    def _guess(self, keys: SessionKeys) -> TaskKeys | None:
        task = self._last.get(keys.header)
        return TaskKeys(keys.shard, keys.tenant, task) if task else None

    def questions(self, keys: SessionKeys) -> list[Command]:
        """The commands that read the session's header, the shard's load, and the task that is likely meant."""
        asked: list[Command] = [("HGETALL", keys.header), ("HGET", load(keys.shard), "mail")]
        if guess := self._guess(keys):
            asked.append(("HGETALL", guess.header))
        return asked

    async def _look(
        self, keys: SessionKeys, source: Source
    ) -> tuple[dict[str, bytes], int, dict[str, TaskHeader | None]]:
        """Read the session's header, how many messages wait in the shard, and the task that is likely meant."""
        answers = source.answers
        if answers is None:
            answers = await self._actors.store.calls(self.questions(keys))
        raw, waiting, *more = answers
        known: dict[str, TaskHeader | None] = {}
        if (guess := self._guess(keys)) and more:
            known[guess.task] = task_header(guess.tenant, guess.task, pairs(more[0]))
        return pairs(raw), int(waiting or 0), known

    async def _tasks(
        self, keys: SessionKeys, session: SessionHeader, known: dict[str, TaskHeader | None]
    ) -> list[TaskHeader | None]:
        """Read the session's tasks, the one that was spoken to last first."""
        wanted = session.tasks
        if not known.keys() >= set(wanted):
            found = await load_tasks(self._actors.store, keys.shard, keys.tenant, wanted)
            known = dict(zip(wanted, found, strict=True))
        return [known.get(task) for task in wanted]

    def _remember(self, keys: SessionKeys, task: str) -> None:
        self._last[keys.header] = task
        self._last.move_to_end(keys.header)
        if len(self._last) > _MAX_SESSIONS:
            self._last.popitem(last=False)
