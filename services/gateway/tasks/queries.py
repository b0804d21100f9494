"""The read side of a tenant's sessions and tasks for clients. No function here writes."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from pydantic_core import from_json, to_json

from pentad.contracts.events import EPHEMERAL, call_of_args, message_ref
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.ids import LAST_MS, decoded_id, rfc3339, shard_in, shard_of
from pentad.contracts.paths import TaskPath
from pentad.contracts.records import StepPrompt, StepRecord, Task, TaskRecord
from pentad.contracts.tools import ToolSpec
from pentad.contracts.turns import ASKED, NEEDS_CLIENT
from pentad.services.gateway.domain.task_path import path_of, path_of_agents
from pentad.services.gateway.domain.tool_call import is_call_session
from pentad.services.gateway.domain.waited_turn import WaitedTurn
from pentad.services.gateway.edge.pages import IndexEntry, Page, newest_first
from pentad.shared.actors.client_tools import CLIENT_CALL
from pentad.shared.actors.headers import TaskHeader, pairs, read_session
from pentad.shared.actors.session_header import session_header
from pentad.shared.actors.sessions import last_turns, load_task, load_tasks
from pentad.shared.actors.step_prompt import materials_of, rebuild
from pentad.shared.actors.targets import awaits_client
from pentad.shared.actors.transcript import shown
from pentad.shared.errors import DamagedError
from pentad.shared.event_loop import turn_after
from pentad.shared.instructions.instruction_list import graph_kept_under, version_kept_under
from pentad.shared.keys import SessionKeys, TaskKeys, session_index
from pentad.shared.presence.published import TOOLS
from pentad.shared.presence.tool_states import ToolState, tool_states
from pentad.shared.registries.registrations import REGISTERED_HTTP_TOOLS
from pentad.shared.store.store import Store

_LOG_CHUNK = 50
_STEPS_CHUNK = 500
_NO_END = 1 << 62
_MESSAGE = re.compile(message_ref(0).replace("0", "([0-9]{1,9})"))
_LAST_CHARS = 200
"""Characters of a session's last message that the list of sessions shows."""
_MOST_PIECES = 20
"""Pieces of the index of sessions that are read for one page."""
_EVENTS_PAGE = 500
"""Events of a session that are read at a time in search of a turn."""
_VALUE_CHUNK = 50
"""Entries of a transcript that are read at a time in search of one."""


class RecordReader(Protocol):
    """A reader of archived tasks' records."""

    async def read(self, tenant: str, task: str) -> TaskRecord | None:
        """Return a task's record, or None. Raises ``DamagedError`` and ``OutageError``."""


class NoGraphError(Exception):
    """The task runs an instruction and has called no agents, so it has no path."""


def _path_of_agents(task: Task, messages: Sequence[Mapping[str, Any]]) -> TaskPath:
    found = path_of_agents(task, messages)
    if found is None:
        raise NoGraphError
    return found


def _graph_of(raw: bytes | None) -> GraphSpec | None:
    """Return the graph that is kept with a task; None for one that cannot be read any more."""
    try:
        return GraphSpec.model_validate_json(raw or b"")
    except ValueError:
        return None


class Queries:
    """Reads sessions and tasks. Methods raise ``OutageError`` if a store is unavailable.

    Unreadable data is shown as such in lists; a request for it alone raises ``DamagedError``.
    """

    def __init__(self, store: Store, records: RecordReader, shards: int) -> None:
        self._store, self._records, self._shards = store, records, shards

    def session_keys(self, tenant: str, session: str) -> SessionKeys:
        """Return the keys of a session."""
        return SessionKeys(shard_of(tenant, session, self._shards), tenant, session)

    def task_keys(self, tenant: str, task: str) -> TaskKeys | None:
        """Return the keys of a task; None for an id that Pentad has not made."""
        shard = shard_in(task, self._shards)
        return None if shard is None else TaskKeys(shard, tenant, task)

    async def sessions(self, tenant: str, limit: int, after: IndexEntry | None) -> Page:
        """Return a page of a tenant's conversations, the one with the newest message first.

        Sessions of tool calls outside a conversation are left out; of very many, a page may be short and go on.
        """
        items: list[IndexEntry] = []
        goes_on, pieces = None, 0
        async for piece in newest_first(self._store, lambda s: session_index(s, tenant), self._shards, after):
            items += [entry for entry in piece if not is_call_session(decoded_id(entry.member))]
            pieces += 1
            if len(items) > limit:
                break
            if pieces == _MOST_PIECES:
                goes_on = piece[-1].cursor()
                break
        shown_now = await asyncio.gather(*(self._session(tenant, entry) for entry in items[:limit]))
        return Page(list(shown_now), items[limit - 1].cursor() if len(items) > limit else goes_on)

    async def _session(self, tenant: str, entry: IndexEntry) -> dict[str, Any]:
        keys = self.session_keys(tenant, decoded_id(entry.member))
        newest = await last_turns(self._store, keys, 1)
        last = newest[-1].content[:_LAST_CHARS] if newest else ""
        return {"session_id": keys.session, "updated_at": rfc3339(min(entry.score, LAST_MS)), "last": last}

    async def knows_session(self, keys: SessionKeys) -> bool:
        """Return whether a session has ever had a message."""
        return bool(await self._store.call("EXISTS", keys.header))

    async def messages(self, keys: SessionKeys) -> list[dict[str, Any]]:
        """Return the last messages of a session, oldest first."""
        return [_message(raw) for raw in await self._store.call("LRANGE", keys.turns, 0, -1)]

    async def turn(self, keys: SessionKeys, message_id: str) -> WaitedTurn:
        """Return the turn of a message as far as its events are written, also beyond decisions that it waited for."""
        turn, goes_on = await self._replayed(keys, message_id)
        name = turn.task_id or await self._task_of_message(keys, message_id)
        if name is not None and turn.end is None and (goes_on or turn.task_id is None):
            task = await self.task(keys.tenant, name)
            if task is not None:
                turn.settle(task)
                if turn.status is not None:  # perhaps by events that were written since
                    again, _ = await self._replayed(keys, message_id)
                    turn = turn if again.end is None else again
        if turn.ref is not None and turn.task_id is not None:
            turn.answer = await self.value(keys.tenant, turn.task_id, turn.ref) or turn.answer
        return turn

    async def _replayed(self, keys: SessionKeys, message_id: str) -> tuple[WaitedTurn, bool]:
        """Return a turn as its events tell it, and whether it went on beyond a decision."""
        turn, goes_on = WaitedTurn(message_id), False
        async for event in self._durable_events(keys):
            if turn.end is not None:
                if not turn.may_go_on:
                    break
                goes_on = True
                turn.go_on()
            turn.feed(event)
        return turn, goes_on

    async def events_after(self, keys: SessionKeys, cursor: str) -> list[dict[str, Any]]:
        """Return the events of a session after a cursor, without those that are not kept for long."""
        return [event async for event in self._durable_events(keys, f"({cursor}")]

    async def steps_of_turn(self, tenant: str, task: str) -> tuple[int, int]:
        """Return how many steps a task had made before its turn, and how many it has made; zeros of no live task."""
        keys = self.task_keys(tenant, task)
        header = None if keys is None else await load_task(self._store, keys)
        return (0, 0) if header is None else (header.step - header.turn_steps, header.step)

    async def _durable_events(self, keys: SessionKeys, after: str = "-") -> AsyncIterator[dict[str, Any]]:
        while True:
            page = await self._store.call("XRANGE", keys.events, after, "+", "COUNT", _EVENTS_PAGE)
            for entry, fields in page:
                event = from_json(fields[1])
                if event.get("type") not in EPHEMERAL:
                    yield {"id": entry.decode()} | event
            if len(page) < _EVENTS_PAGE:
                return
            after = f"({page[-1][0].decode()}"

    async def _task_of_message(self, keys: SessionKeys, message_id: str) -> str | None:
        """Return the task that has a message; None where the session does not remember that."""
        said = next((m for m in await self.messages(keys) if m.get("message_id") == message_id), {})
        name = said.get("task_id")
        return name if isinstance(name, str) else None

    async def candidates(self, keys: SessionKeys) -> tuple[str, ...]:
        """Return the tasks to which a session's next message may belong, the last active one first."""
        return session_header(pairs(await self._store.call("HGETALL", keys.header))).tasks

    async def session_tasks(self, keys: SessionKeys) -> list[dict[str, Any]]:
        """Return the tasks of a session's last messages that are not archived, oldest first."""
        return [header.describe().model_dump(mode="json") for header in await self._session_headers(keys)]

    async def client_calls(self, keys: SessionKeys) -> dict[str, str]:
        """Return the calls of a session that wait for their client's results, each with its task."""
        headers = await self._session_headers(keys)
        return {call.id: header.task_id for header in headers for call in header.open if awaits_client(call)}

    async def _session_headers(self, keys: SessionKeys) -> list[TaskHeader]:
        named = [turn.get("task_id") for turn in await self.messages(keys)]
        session = session_header(pairs(await self._store.call("HGETALL", keys.header)))
        ids = [name for name in named if isinstance(name, str)] + [session.done, *session.recent]
        found = await load_tasks(self._store, keys.shard, keys.tenant, list(dict.fromkeys(ids)))
        return [header for header in found if header is not None]

    async def session_of(self, tenant: str, task: str) -> str | None:
        """Return the session of a task, or None if the tenant has no such task."""
        keys = self.task_keys(tenant, task)
        if keys is None:
            return None
        session: bytes | None = await self._store.call("HGET", keys.header, "session")
        if session is not None:
            return read_session(session)
        record = await self.record(tenant, task)
        return None if record is None else record.task.session_id

    async def is_visible(self, tenant: str, task: str, session: str | None) -> bool:
        """Return whether a caller of this session may see a task; ``session`` None: a caller of the whole tenant."""
        return session is None or await self.session_of(tenant, task) == session

    async def task(self, tenant: str, task: str) -> Task | None:
        """Return a task, or None if the tenant has no such task."""
        keys = self.task_keys(tenant, task)
        header = None if keys is None else await load_task(self._store, keys)
        if header is not None:
            return header.describe()
        record = await self.record(tenant, task)
        return None if record is None else record.task

    async def settled_task(self, tenant: str, task: str) -> Task | None:
        """Return a task by which a turn may be taken for ended, or None if the tenant has no such task.

        None, too, where the task goes on as soon as a runner takes up what has come: the results of its client's tools,
        or a message.
        """
        keys = self.task_keys(tenant, task)
        header = None if keys is None else await load_task(self._store, keys)
        waits = header is not None and header.waits and header.reason in (ASKED, NEEDS_CLIENT)
        if keys is not None and waits and await self._store.call("ZCARD", keys.messages):
            return None
        return None if await self.has_results(tenant, task) else await self.task(tenant, task)

    async def has_results(self, tenant: str, task: str) -> bool:
        """Return whether a task that waits for its client has all results, which a runner takes up next."""
        keys = self.task_keys(tenant, task)
        header = None if keys is None else await load_task(self._store, keys)
        if keys is None or header is None or not header.waits or header.reason != NEEDS_CLIENT:
            return False
        return CLIENT_CALL.encode() not in await self._store.call("HVALS", keys.calls)

    async def record(self, tenant: str, task: str) -> TaskRecord | None:
        """Return an archived task's record, or None."""
        return None if self.task_keys(tenant, task) is None else await self._records.read(tenant, task)

    async def transcript(self, tenant: str, task: str) -> list[dict[str, Any]] | None:
        """Return a task's messages, or None if the tenant has no such task."""
        keys = self.task_keys(tenant, task)
        if keys is None:
            return None
        if await self.in_redis(keys):
            messages = await self.entries(keys, 0, _NO_END)
            # Archived while it was read: then the record has all of it.
            if await self.in_redis(keys):
                return messages
        record = await self.record(tenant, task)
        return None if record is None else record.messages

    async def last_entries(self, tenant: str, task: str, most: int) -> tuple[int, list[dict[str, Any]]]:
        """Return the last entries of a task's transcript, and the position of the first of them; none of no task."""
        keys = self.task_keys(tenant, task)
        if keys is None:
            return 0, []
        start = max(0, int(await self._store.call("LLEN", keys.log)) - most)
        entries = await self.entries(keys, start, _NO_END)
        if await self.in_redis(keys):  # else archived while it was read: then the record has all of it
            return start, entries
        record = await self.record(tenant, task)
        said = [] if record is None else record.messages
        return max(0, len(said) - most), said[-most:]

    async def path(self, tenant: str, task: str) -> tuple[TaskPath, GraphSpec | None] | None:
        """Return the path of a task through its graph, and the graph, or None if the tenant has no such task.

        A task that runs an instruction has a path, and no graph, where it has called agents; else ``NoGraphError`` is
        raised.
        """
        keys = self.task_keys(tenant, task)
        header = None if keys is None else await load_task(self._store, keys)
        if header is not None and keys is not None:
            raw = await self._store.call("HGET", keys.big, graph_kept_under(header.graph)) if header.graph else None
            messages = await self.entries(keys, 0, _NO_END)
            if await self.in_redis(keys):
                if not header.graph:
                    return _path_of_agents(header.describe(), messages), None
                graph = _graph_of(raw)
                return path_of(header.describe(), messages, graph, header.graph), graph
        record = await self.record(tenant, task)
        if record is None:
            return None
        version = next((name for name in map(version_kept_under, record.materials) if name), "")
        if not version:
            return _path_of_agents(record.task, record.messages), None
        graph = _graph_of(to_json(record.materials[graph_kept_under(version)]))
        return path_of(record.task, record.messages, graph, version), graph

    async def entries(self, keys: TaskKeys, start: int, end: int) -> list[dict[str, Any]]:
        """Return the entries of a transcript in Redis from a position on, the end exclusive.

        It pauses after large ones for others in the event loop.
        """
        messages: list[dict[str, Any]] = []
        while (begin := start + len(messages)) < end:
            chunk = await self._store.call("LRANGE", keys.log, begin, min(begin + _LOG_CHUNK, end) - 1)
            if not chunk:
                break
            for raw in chunk:
                messages.append(_entry(raw))
                await turn_after(len(raw))
        return messages

    async def step_records(self, keys: TaskKeys, start: int, end: int) -> list[StepRecord]:
        """Return the records of a live task's steps from an index on, the end exclusive. Raises ``DamagedError``."""
        steps: list[StepRecord] = []
        while (begin := start + len(steps)) < end:
            chunk = await self._store.call("LRANGE", keys.steps, begin, min(begin + _STEPS_CHUNK, end) - 1)
            if not chunk:
                break
            steps += map(_step, chunk)
        return steps

    async def prompt(self, tenant: str, task: str, step: int) -> StepPrompt | None:
        """Return a step's request to its model, or None if the tenant has no such task or the task no such step.

        Raises ``DamagedError`` if a part of it is lost.
        """
        keys = self.task_keys(tenant, task)
        if keys is None:
            return None
        record = await self._record_up_to(keys, step)
        if record is None or not await self.in_redis(keys):  # archived while it was read
            record = await self.record(tenant, task)
        return None if record is None else await asyncio.to_thread(rebuild, record, step)

    async def _record_up_to(self, keys: TaskKeys, step: int) -> TaskRecord | None:
        """Return a record of a task's first steps, made of its data in Redis; None for a task that is not there."""
        header = await load_task(self._store, keys)
        if header is None:
            return None
        steps = await self.step_records(keys, 0, step)
        names = sorted(materials_of(steps))
        values = await self._store.call("HMGET", keys.big, *names) if names else ()
        return TaskRecord(
            tenant_id=keys.tenant,
            task=header.describe(),
            messages=await self.entries(keys, 0, max((each.manifest.messages[1] for each in steps), default=0)),
            steps=steps,
            materials={name: from_json(raw) for name, raw in zip(names, values, strict=True) if raw is not None},
        )

    async def value(self, tenant: str, task: str, ref: str) -> str | None:
        """Return the whole value that an event's ``ref`` names, or None if there is no such task or value.

        A tool's large result is kept beside its task until the step that reads it, then in the transcript if that has
        it whole, then in the record. The places are searched in this order, so that a value that moves is not missed.
        """
        keys = self.task_keys(tenant, task)
        if keys is None:
            return None
        beside: bytes | None = await self._store.call("HGET", keys.big, ref)
        if beside is not None:
            return beside.decode(errors="replace")
        placed = await self._placed(keys, ref)
        if placed is not None:
            return placed
        record = await self.record(tenant, task)
        return None if record is None else (record.results or {}).get(ref, _content(record.messages, ref))

    async def _placed(self, keys: TaskKeys, ref: str) -> str | None:
        """Return the value of this name from a transcript in Redis."""
        async for line in self.naming(keys, _written(ref)):
            found = _content([line], ref)
            if found is not None:
                return found
        return None

    async def naming(self, keys: TaskKeys, name: str) -> AsyncIterator[dict[str, Any]]:
        """Return the entries of a transcript in Redis that contain this name, the newest first."""
        end = int(await self._store.call("LLEN", keys.log))
        while end > 0:
            start = max(0, end - _VALUE_CHUNK)
            chunk = await self._store.call("LRANGE", keys.log, start, end - 1)
            for raw in reversed(chunk):
                if name.encode() in raw:
                    yield _entry(raw)
            end = start

    async def in_redis(self, keys: TaskKeys) -> bool:
        """Return whether a task is in Redis; else only a record may have it."""
        return bool(await self._store.call("HEXISTS", keys.header, "status"))

    async def tool_names(self) -> set[str]:
        """Return the names of the tools that living workers have published."""
        return {*await TOOLS.read(self._store)}

    async def tool_specs(self) -> Mapping[str, ToolSpec]:
        """Return the tools that workers have published, by name."""
        return await TOOLS.read(self._store)

    async def tools(self, tenant: str) -> list[dict[str, Any]]:
        """Return the tools that workers have published, by name, each with the time of the last report and with how it
        does for a tenant; and registered endpoints, whether a worker has them or not."""
        raw, now = await TOOLS.fetch(self._store), await self._store.clock()
        beats = TOOLS.beats(raw, now)
        found: dict[str, dict[str, Any]] = {
            name: each.item.model_dump(mode="json") | {"seen_at": rfc3339(each.beat), "alive": each.alive(now)}
            for name, each in beats.items()
        }
        for tool in (await REGISTERED_HTTP_TOOLS.read(self._store)).entries:
            shown = found.setdefault(tool.name, tool.spec().model_dump(mode="json") | {"seen_at": None, "alive": False})
            problem = None if shown["registered"] else "a tool of a worker has this name, and is offered in its place"
            shown["endpoint"] = {"method": tool.method, "place": tool.place, "problem": problem}
        states = await tool_states(self._store, tenant, (each.item for each in beats.values()), now)
        return [found[name] | _shown_state(states.get(name, ToolState())) for name in sorted(found)]


def _shown_state(state: ToolState) -> dict[str, Any]:
    until = state.refused_until_ms
    told = None if until is None else rfc3339(until)
    return {"waiting": state.waiting, "refused": state.refused, "refused_until": told}


def _written(ref: str) -> str:
    """Return a text that the transcript entry with the value of this name contains."""
    step = _MESSAGE.fullmatch(ref)
    return f'"step":{step[1]}' if step else call_of_args(ref) or ref


def _message(raw: bytes) -> dict[str, Any]:
    """Return a session's message; an unreadable one keeps its place."""
    try:
        message = from_json(raw)
    except ValueError:
        message = None
    return message if isinstance(message, dict) else {"problem": "this message cannot be read"}


def _entry(raw: bytes) -> dict[str, Any]:
    """Return a transcript's entry; an unreadable one keeps its place, because anchors count entries."""
    try:
        return shown(raw)
    except (ValueError, TypeError):
        return {"problem": "this message cannot be read"}


def _step(raw: bytes) -> StepRecord:
    """Return the record of a step. Raises ``DamagedError``."""
    try:
        return StepRecord.model_validate_json(raw)
    except ValueError:
        raise DamagedError("a step of this task cannot be read") from None


def _content(messages: list[dict[str, Any]], ref: str) -> str | None:
    """Return the value of this name from a transcript."""
    found = (_named(message, ref) for message in reversed(messages))
    return next((text for text in found if isinstance(text, str)), None)


def _named(message: dict[str, Any], ref: str) -> Any:
    """Return a message's value of this name: a tool's result, a call's arguments, or the text of a step."""
    if message.get("role") == "tool":
        return message.get("content") if message.get("tool_call_id") == ref else None
    if message.get("role") != "assistant":
        return None
    if (call := call_of_args(ref)) is not None:
        calls = [each for each in message.get("tool_calls") or () if each.get("id") == call]
        return calls[0]["function"]["arguments"] if calls else None
    return (
        message.get("content") if isinstance(message.get("step"), int) and ref == message_ref(message["step"]) else None
    )
