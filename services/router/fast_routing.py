"""A message that comes to a session with nothing to do is routed where it enters, in one commit.

It saves the session's mailbox, wake-up and lease: four of a router's seven commands, and one process to wake. The
decision is the same pure one. The commit holds only if nobody else has decided anything in the session since it was
read, and its tasks have the status that was seen; else, and for every rarer case, the message is posted as always.
"""

import logging
from collections import OrderedDict

from pentad.contracts.commands import InboundMessage
from pentad.services.router.deciding import Deciding, IncomingMessage
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.headers import TaskHeader, pairs, task_header
from pentad.shared.actors.session_header import SessionHeader, session_header
from pentad.shared.actors.sessions import load_tasks
from pentad.shared.errors import DamagedError, OutageError
from pentad.shared.inbound.fast_path import Source
from pentad.shared.keys import SessionKeys, TaskKeys, load
from pentad.shared.store.store import Command

log = logging.getLogger(__name__)

_REMEMBERED = 10_000


class FastRouting:
    """Routes messages past their sessions' mailboxes. What it remembers only saves a question to Redis."""

    def __init__(self, actors: Actors, deciding: Deciding, limit: int) -> None:
        self._actors, self._deciding, self._limit = actors, deciding, limit
        self._last: OrderedDict[str, str] = OrderedDict()
        """Each session's task that a message went to last: most likely the one that the next is about."""

    async def route(self, keys: SessionKeys, message: InboundMessage, entry_id: str, source: Source) -> int | None:
        """How many messages wait in the shard now; None, and nothing done, when this one is to be posted."""
        try:
            return await self._route(IncomingMessage(keys, message, entry_id), source)
        except OutageError:
            raise
        except DamagedError:
            return None
        except Exception:
            log.exception("a message of %s is posted to its session", keys.actor)
            return None

    async def _route(self, said: IncomingMessage, source: Source) -> int | None:
        keys, message = said.keys, said.message
        if message.task_id is not None:
            return None
        raw, waiting, known = await self._look(keys, source)
        if raw.get("wake") or waiting >= self._limit:
            return None
        session = session_header(raw)
        view = await self._deciding.view(message, await self._tasks(keys, session, known), source.at)
        decided = await self._deciding.route_here(said, session, view)
        if decided is None:
            return None
        route, learnt = decided
        if route.decision in ("rejected", "control"):
            return None
        commit = self._deciding.commit(keys)
        task = await self._deciding.write(commit, said, session, view, route, learnt)
        self._deciding.arrive(commit, said, source.generation)
        if await self._actors.commit_untaken(commit, raw.get("v", b"0").decode(), source.connection) != "committed":
            return None
        self._remember(keys, task)
        return waiting + 1

    def _guess(self, keys: SessionKeys) -> TaskKeys | None:
        task = self._last.get(keys.header)
        return TaskKeys(keys.shard, keys.tenant, task) if task else None

    def questions(self, keys: SessionKeys) -> list[Command]:
        """What a decision in this session depends on, as far as it is known what to ask for."""
        asked: list[Command] = [("HGETALL", keys.header), ("HGET", load(keys.shard), "mail")]
        if guess := self._guess(keys):
            asked.append(("HGETALL", guess.header))
        return asked

    async def _look(
        self, keys: SessionKeys, source: Source
    ) -> tuple[dict[str, bytes], int, dict[str, TaskHeader | None]]:
        """The answers: the session's header, how many messages wait in the shard, the task that is likely meant."""
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
        """The session's tasks, the one that was spoken to last first."""
        wanted = session.tasks
        if not known.keys() >= set(wanted):
            found = await load_tasks(self._actors.store, keys.shard, keys.tenant, wanted)
            known = dict(zip(wanted, found, strict=True))
        return [known.get(task) for task in wanted]

    def _remember(self, keys: SessionKeys, task: str) -> None:
        self._last[keys.header] = task
        self._last.move_to_end(keys.header)
        if len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
