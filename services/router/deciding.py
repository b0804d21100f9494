"""One message's decision: what it depends on is read, decided by the pure rules, and written down as a commit."""

from collections.abc import Sequence

from pentad.contracts.commands import InboundMessage
from pentad.contracts.ids import shard_in, task_id
from pentad.services.router.confirming_model import ConfirmingModel
from pentad.services.router.domain.rules import Route, View, decide, kept_in_view
from pentad.services.router.routing import RouteWriter
from pentad.services.router.weighing import NOTHING, Learnt, Weighing, learnt_by_rule
from pentad.shared.actors.commit import Commit
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.mail import SessionMessage
from pentad.shared.actors.session_header import SessionHeader
from pentad.shared.actors.sessions import CONTEXT_TURNS, as_context, as_session_context, last_turns, load_tasks
from pentad.shared.actors.transcript import remaining
from pentad.shared.errors import DamagedError
from pentad.shared.immutable import immutable
from pentad.shared.inbound.arrival import message_digest
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.random_hex import random_hex
from pentad.shared.records.record_store import Records
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store


@immutable
class IncomingMessage:
    """A message, the session that it is said in, and its entry in the inbound stream."""

    keys: SessionKeys
    message: InboundMessage
    entry_id: str


class Deciding:
    """Reads and writes around `decide`, for whoever routes a message."""

    def __init__(
        self,
        store: Store,
        records: Records,
        book: InstructionBook,
        weighing: Weighing,
        confirming: ConfirmingModel,
        settings: Settings,
    ) -> None:
        self._store, self._records, self._book, self._settings = store, records, book, settings
        self._weighing, self._confirming = weighing, confirming
        self._grace_ms = round(settings.pentad_grace_s * 1000)

    def commit(self, keys: SessionKeys) -> Commit:
        """A commit that says nothing yet."""
        s = self._settings
        return Commit(keys, f"step-{random_hex(32)}", s.pentad_events_maxlen, s.pentad_events_ttl_s)

    def writer(self, commit: Commit, said: IncomingMessage, now: int) -> RouteWriter:
        """Writes what becomes of this message into the commit."""
        return RouteWriter(commit, said.keys, said.message, said.entry_id, now, self._settings.session_ttl_s)

    def arrive(self, commit: Commit, said: IncomingMessage, generation: str) -> None:
        """The message enters its session with this commit. ``generation``: of the inbound stream."""
        message_id = said.message.message_id or said.entry_id
        user, ttl_s = said.message.user_id, self._settings.session_ttl_s
        digest = message_digest(said.message)
        commit.arrive(said.keys, said.entry_id, message_id, digest, user, generation, ttl_s)

    async def look(self, said: IncomingMessage, session: SessionHeader, now: int) -> View:
        """Everything that the decision depends on, read at once."""
        keys, message = said.keys, said.message
        named_id = message.task_id or ""
        ids = session.tasks if named_id in ("", *session.tasks) else (*session.tasks, named_id)
        found = dict(zip(ids, await load_tasks(self._store, keys.shard, keys.tenant, ids), strict=True))
        tasks, named = [found[name] for name in session.tasks], found.get(named_id)
        if named is not None and named.session != keys.session:
            named = None
        archived, damaged = "", ""
        if message.task_id and named is None and shard_in(named_id, self._settings.pentad_shards) == keys.shard:
            try:
                record = await self._records.read(keys.tenant, named_id)
                if record is not None and record.task.session_id == keys.session:
                    archived = record.task.instruction
            except DamagedError as error:
                damaged = str(error)
        return await self.view(message, tasks, now, named=named, archived=archived, damaged=damaged)

    async def view(
        self,
        message: InboundMessage,
        tasks: Sequence[TaskHeader | None],
        now: int,
        *,
        named: TaskHeader | None = None,
        archived: str = "",
        damaged: str = "",
    ) -> View:
        """What the decision sees. ``tasks``: those of the session, as far as they could be read, in their order."""
        known = {task.task_id: task for task in tasks if task is not None}
        return View(
            message=message,
            known=(*known.values(),),
            named=named,
            archived=archived,
            damaged=damaged,
            instructions=await self._book.known(message.instruction),
            now=now,
            grace_ms=self._grace_ms,
            weighed=self._settings.pentad_route == "auto",
        )

    async def route(self, said: IncomingMessage, session: SessionHeader, view: View) -> tuple[Route, Learnt]:
        """The decision, and what the session is to remember then. It may wait for models."""
        decided = decide(view)
        if isinstance(decided, Route):
            return decided, self._learnt_by_rule(decided, session, view)
        weighed = await self._weighing.weigh(decided, said.keys, said.message.content, session)
        content, entry = said.message.content, said.entry_id
        route = await self._confirming.confirmed(said.keys, content, entry, decided, weighed.route)
        return route, weighed.learnt(route)

    async def route_here(
        self, said: IncomingMessage, session: SessionHeader, view: View
    ) -> tuple[Route, Learnt] | None:
        """The same, when it waits for nobody; else None."""
        decided = decide(view)
        if isinstance(decided, Route):
            return decided, self._learnt_by_rule(decided, session, view)
        if not self._weighing.asks_nobody:
            return None
        weighed = await self._weighing.weigh(decided, said.keys, said.message.content, session)
        if await self._confirming.wanted(weighed.route) is not None:
            return None
        return weighed.route, weighed.learnt(weighed.route)

    def _learnt_by_rule(self, route: Route, session: SessionHeader, view: View) -> Learnt:
        if route.task is None or route.action is not None or not view.weighed:
            return NOTHING
        return learnt_by_rule(session, route.task, view.message.content)

    async def write(
        self, commit: Commit, said: IncomingMessage, session: SessionHeader, view: View, route: Route, learnt: Learnt
    ) -> str:
        """The decision, written into the commit; returns the task that takes the message, '' when none does."""
        writer, keys = self.writer(commit, said, view.now), said.keys
        if route.decision == "rejected":
            writer.reject(route)
            return ""
        context: list[SessionMessage] = []
        if route.task is None:
            context = await self._context(keys, said.message, route)
            task = TaskKeys(keys.shard, keys.tenant, task_id(keys.shard, random_hex(20)))
            writer.new(task, route, view.instructions[route.instruction])
        else:
            task = TaskKeys(keys.shard, keys.tenant, route.task.task_id)
            if route.action is not None:
                writer.control(task, route.task, route)
                return ""
            writer.existing(task, route.task, route)
        writer.send(task, context, route)
        writer.remember(session, kept_in_view(view, task.task), task, learnt)
        return task.task

    async def _context(self, keys: SessionKeys, message: InboundMessage, route: Route) -> list[SessionMessage]:
        """The last turns that a new task begins with."""
        if route.continues == "session":
            return as_session_context(await last_turns(self._store, keys, CONTEXT_TURNS))
        record = await self._records.read(keys.tenant, message.task_id or "")
        return as_context(
            [
                SessionMessage(role=m["role"], content=m["content"], task_id=message.task_id or "", at=m.get("at", ""))
                for m in remaining(record.messages if record else [])
                if m.get("role") in ("user", "assistant") and m.get("content") and m.get("origin") != "recalled"
            ]
        )
