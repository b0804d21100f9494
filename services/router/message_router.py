"""Reads what the decision about a message depends on, lets the pure rules decide, and writes the commit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pentad.contracts.commands import InboundMessage
from pentad.contracts.ids import shard_in, task_id
from pentad.services.router.domain.rules import Question, Route, View, decide, kept_in_view
from pentad.services.router.model_confirmation import ModelConfirmation
from pentad.services.router.route_writer import RouteWriter
from pentad.services.router.similarity_router import (
    NO_UPDATES,
    DigestUpdates,
    SimilarityRouter,
    WeighedMessage,
    updates_by_rule,
)
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
    """A message, its session, and the id of its entry in the inbound stream."""

    keys: SessionKeys
    message: InboundMessage
    entry_id: str


class MessageRouter:
    """Reads and writes around `decide`, for every way in which a message is routed."""

    def __init__(
        self,
        store: Store,
        records: Records,
        book: InstructionBook,
        similarity: SimilarityRouter,
        confirmation: ModelConfirmation,
        settings: Settings,
    ) -> None:
        self._store, self._records, self._book, self._settings = store, records, book, settings
        self._similarity, self._confirmation = similarity, confirmation
        self._grace_ms = round(settings.pentad_grace_s * 1000)

    def commit(self, keys: SessionKeys) -> Commit:
        """An empty commit for this session."""
        s = self._settings
        return Commit(keys, f"step-{random_hex(32)}", s.pentad_events_maxlen, s.pentad_events_ttl_s)

    def writer(self, commit: Commit, incoming: IncomingMessage, now: int) -> RouteWriter:
        """A writer that puts the decision about this message into the commit."""
        return RouteWriter(
            commit, incoming.keys, incoming.message, incoming.entry_id, now, self._settings.session_ttl_s
        )

    def arrive(self, commit: Commit, incoming: IncomingMessage, generation: str) -> None:
        """Let the message enter its session with this commit. ``generation``: the inbound stream's."""
        message_id = incoming.message.message_id or incoming.entry_id
        user, ttl_s = incoming.message.user_id, self._settings.session_ttl_s
        digest = message_digest(incoming.message)
        commit.arrive(incoming.keys, incoming.entry_id, message_id, digest, user, generation, ttl_s)

    async def look(self, incoming: IncomingMessage, session: SessionHeader, now: int) -> View:
        """Read everything that the decision depends on."""
        keys, message = incoming.keys, incoming.message
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
        """The decision's input. ``tasks``: the session's tasks in their order; None for one that could not be read."""
        known = {task.task_id: task for task in tasks if task is not None}
        return View(
            message=message,
            known=(*known.values(),),
            named=named,
            archived=archived,
            damaged=damaged,
            runnables=await self._book.runnables(message.instruction),
            wrong_output=_problem_of(message.output_schema),
            now=now,
            grace_ms=self._grace_ms,
            weighed=self._settings.pentad_route == "auto",
        )

    async def route(self, incoming: IncomingMessage, session: SessionHeader, view: View) -> tuple[Route, DigestUpdates]:
        """Decide where the message goes, and what the session remembers then. This may wait for models."""
        decided = decide(view)
        if isinstance(decided, Route):
            return decided, self._updates_by_rule(decided, session, view)
        weighed = await self._weighed(decided, incoming, session)
        content, entry = incoming.message.content, incoming.entry_id
        route = await self._confirmation.confirmed(incoming.keys, content, entry, decided, weighed.route)
        return route, weighed.updates(route)

    async def route_here(
        self, incoming: IncomingMessage, session: SessionHeader, view: View
    ) -> tuple[Route, DigestUpdates] | None:
        """Decide as `route` does, but return None when a model would have to be asked."""
        decided = decide(view)
        if isinstance(decided, Route):
            return decided, self._updates_by_rule(decided, session, view)
        if not self._similarity.is_local:
            return None
        weighed = await self._weighed(decided, incoming, session)
        if await self._confirmation.wanted(weighed.route) is not None:
            return None
        return weighed.route, weighed.updates(weighed.route)

    async def _weighed(self, question: Question, incoming: IncomingMessage, session: SessionHeader) -> WeighedMessage:
        content = incoming.message.content
        weighed = await self._similarity.weigh(question, incoming.keys, content, session)
        return replace(weighed, route=await self._confirmation.weighed_for(question, weighed.route, content))

    def _updates_by_rule(self, route: Route, session: SessionHeader, view: View) -> DigestUpdates:
        if route.task is None or route.action is not None or not view.weighed:
            return NO_UPDATES
        return updates_by_rule(session, route.task, view.message.content)

    async def write(
        self,
        commit: Commit,
        incoming: IncomingMessage,
        session: SessionHeader,
        view: View,
        route: Route,
        updates: DigestUpdates,
    ) -> str:
        """Write the decision into the commit; return the id of the task that takes the message, '' when none does."""
        writer, keys = self.writer(commit, incoming, view.now), incoming.keys
        if route.decision == "rejected":
            writer.reject(route)
            return ""
        context: list[SessionMessage] = []
        if route.task is None:
            context = await self._context(keys, incoming.message, route)
            task = TaskKeys(keys.shard, keys.tenant, task_id(keys.shard, random_hex(20)))
            writer.new(task, route, view.runnables[route.instruction])
        else:
            task = TaskKeys(keys.shard, keys.tenant, route.task.task_id)
            if route.action is not None:
                writer.control(task, route.task, route)
                return ""
            writer.existing(task, route.task, route)
        writer.send(task, context, route)
        writer.remember(session, kept_in_view(view, task.task), task, updates)
        return task.task

    async def _context(self, keys: SessionKeys, message: InboundMessage, route: Route) -> list[SessionMessage]:
        """Read the last turns that a new task begins with, or take those that the message brings along."""
        if message.history:
            return [
                SessionMessage(role=m.role, content=m.content, task_id="", at="", files=m.files)
                for m in message.history
            ]
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


def _problem_of(schema: Mapping[str, Any] | None) -> str:
    """Return why this cannot be the schema of an answer; '' if it can. A schema whose check may take long is passed."""
    if schema is None:
        return ""
    from pentad.shared.instructions.output import Output

    try:
        Output(schema)
    except ValueError as error:
        return str(error)
    return ""
