"""Forks: new tasks in sessions of their own that share the past of another task up to one of its steps.

The past is read, of a live task or of a record, and written into the fork's shard in one commit. The other task is not
changed. Who writes reads the marks of erasures behind the write, and takes back what was erased meanwhile.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError
from pydantic_core import to_json

from pentad.contracts.dates import zone_of
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import PastEffect
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.ids import milliseconds, shard_of, task_id
from pentad.contracts.instructions import Instruction
from pentad.contracts.models import ModelKind
from pentad.contracts.records import ForkOrigin, Task, TaskRecord
from pentad.services.gateway.domain.fork import (
    MAX_FORK_BYTES,
    MAX_FORK_ENTRIES,
    Entry,
    ForkRequest,
    SharedPast,
    TaskPast,
    UnforkableError,
    call_ids,
    entries_of_fork,
    later_effects,
    shared_past,
    users_of,
)
from pentad.services.gateway.edge.problems import ProblemError, busy, doubtful, missing
from pentad.services.gateway.tasks.fork_writer import Beginning, ForkWriter
from pentad.services.gateway.tasks.patience import persist
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.commit import Commit
from pentad.shared.actors.erased_marks import erased_users, is_erased, mark_at
from pentad.shared.actors.headers import TaskHeader, mail_of, pairs, task_header
from pentad.shared.actors.mail import ResultMail
from pentad.shared.actors.sessions import load_task
from pentad.shared.actors.step_prompt import materials_of
from pentad.shared.errors import DamagedError, OutageError, RefusedWriteError
from pentad.shared.immutable import immutable
from pentad.shared.instructions.instruction_list import graph_kept_under, kept_under
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.kinds import RESULT
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.random_hex import random_hex
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store

_MAX_READS = 5
"""Reads of a task that makes steps meanwhile."""
_FIELDS_PER_READ = 500
_NO_END = 1 << 62
_TIME_ZONE = "time_zone"
T = TypeVar("T", Instruction, GraphSpec)


class ModelNames(Protocol):
    """The registry of models, as far as forks need it."""

    async def of_kind(self, kind: ModelKind, model_id: str) -> str | None:
        """Return the id of a model, None for the default one. Raises ``ProblemError`` (404)."""


Eraser = Callable[[str, str], Awaitable[Any]]
"""Function that erases a task of a tenant."""


@immutable
class Forked:
    """A fork that has begun."""

    task_id: str
    session_id: str
    message_id: str
    effects: Sequence[PastEffect]
    """Calls after the step whose effects may have happened, and that the fork does not repeat by itself."""


@immutable
class _Source:
    """A task that is forked."""

    keys: TaskKeys
    past: TaskPast
    record: TaskRecord | None
    """Record of a task that is not in Redis any more."""
    read_at: int
    """Time of the server at which its reading began, in ms."""


class Forks:
    """Forks tasks. Raises ``ProblemError``, ``DamagedError`` for unreadable data, and ``OutageError``."""

    def __init__(
        self,
        store: Store,
        queries: Queries,
        actors: Actors,
        book: InstructionBook,
        models: ModelNames,
        erase: Eraser,
        settings: Settings,
    ) -> None:
        self._store, self._queries, self._actors, self._settings = store, queries, actors, settings
        self._book, self._models, self._erase = book, models, erase

    async def fork(self, tenant: str, task: str, request: ForkRequest) -> Forked:
        """Begin a fork, once for its message id; return its ids, and what has happened after the step."""
        keys, session = self._names(tenant, task, request)
        begun = await self._is_begun(keys, task, request)
        source = await self._source(tenant, task, request.step)
        if source is None and not begun:
            raise missing(f"there is no task {task[:128]!r}", ErrorCode.UNKNOWN_TASK)
        effects: Sequence[PastEffect] = ()
        if source is not None:
            try:
                shared = shared_past(source.past, request)
                if not begun:
                    beginning = await self._beginning(source, shared, request, keys, session)
                    await self._write(beginning)
            except UnforkableError as error:
                if not begun:
                    raise ProblemError(409, str(error), ErrorCode.NOT_ALLOWED) from None
            else:
                effects = later_effects(shared, await self._queries.tool_specs())
                await self._take_back_erased(source, shared, keys)
        return Forked(keys.task, session.session, request.message_id, effects)

    def session_of(self, tenant: str, task: str, request: ForkRequest) -> SessionKeys:
        """Return the keys of the session that a fork will have, or has."""
        return self._names(tenant, task, request)[1]

    def _names(self, tenant: str, task: str, request: ForkRequest) -> tuple[TaskKeys, SessionKeys]:
        """Return the keys of a fork and of its session, which follow from the task and the message's id."""
        asked = to_json([tenant, task, request.message_id])
        unique = hashlib.sha256(asked).hexdigest()[:24]
        session = f"fork-{unique}"
        shard = shard_of(tenant, session, self._settings.pentad_shards)
        return TaskKeys(shard, tenant, task_id(shard, unique)), SessionKeys(shard, tenant, session)

    async def _is_begun(self, keys: TaskKeys, task: str, request: ForkRequest) -> bool:
        """Return whether this fork has begun before. Raises ``ProblemError`` (409) where another one has its id."""
        header = await load_task(self._store, keys)
        record = await self._queries.record(keys.tenant, keys.task) if header is None else None
        if header is None and record is None:
            if await is_erased(self._store, keys):
                raise ProblemError(409, "the fork of this message_id was erased: name another", ErrorCode.BAD_MESSAGE)
            return False
        if header is not None:
            same = header.fork_request == request.digest
        else:
            assert record is not None
            origin = record.task.forked_from
            same = origin is not None and (origin.task_id, origin.step) == (task, request.step)
        if not same:
            why = "message_id: another fork of this task was made with it: name another, or none"
            raise ProblemError(409, why, ErrorCode.BAD_MESSAGE)
        return True

    # Reading

    async def _source(self, tenant: str, task: str, step: int) -> _Source | None:
        """Read the task that is forked; None if the tenant has no such task."""
        keys = self._queries.task_keys(tenant, task)
        if keys is None:
            return None
        now = await self._store.clock()
        past = await self._live(keys, step)
        if past is not None:
            return _Source(keys, past, None, now)
        record = await self._queries.record(tenant, task)
        return None if record is None else _Source(keys, _past_of_record(record, step), record, now)

    async def _live(self, keys: TaskKeys, step: int) -> TaskPast | None:
        """Read a task of Redis as it is between two of its commits; None for one that is not there."""
        for _ in range(_MAX_READS):
            raw = pairs(await self._store.call("HGETALL", keys.header))
            header = task_header(keys.tenant, keys.task, raw)
            if header is None:
                return None
            if await self._store.call("LLEN", keys.log) > MAX_FORK_ENTRIES:
                raise ProblemError(409, _too_long(keys.task), ErrorCode.NOT_ALLOWED)
            steps = await self._queries.step_records(keys, 0, step + 1)
            entries = await self._queries.entries(keys, 0, _NO_END)
            results = _results(keys, header, await self._store.call("ZRANGE", keys.signals, 0, -1))
            if await self._store.call("HGET", keys.header, "v") == raw.get("v"):
                return TaskPast(header.describe(), steps, entries, header.open, results, header.time_zone)
        raise busy(f"task {keys.task} is making steps one after the other: ask again", 1.0)

    async def _beginning(
        self, source: _Source, shared: SharedPast, request: ForkRequest, keys: TaskKeys, session: SessionKeys
    ) -> Beginning:
        """Read what the fork is written from. Raises ``UnforkableError``."""
        task, manifest = source.past.task, shared.named_by.manifest
        entries = entries_of_fork(shared.entries)
        names = sorted(materials_of([*shared.steps, shared.named_by]))
        kept = await self._kept(source, names)
        if lost := [name for name in names if name not in kept]:
            raise DamagedError(f"task {task.task_id} has lost what its steps name as {lost[0]}")
        whole = [*call_ids(shared.entries), *(result.ref for result in shared.results.values() if result.ref)]
        kept = {**kept, **await self._kept(source, whole)}
        size = sum(map(len, entries)) + sum(map(len, kept.values())) + sum(len(each.to_json()) for each in shared.steps)
        if size > MAX_FORK_BYTES:
            raise UnforkableError(_too_long(task.task_id))
        graph = None
        if manifest.graph_version:
            if task.parent_task_id:
                raise UnforkableError(f"task {task.task_id} is a part of a graph: fork task {task.parent_task_id}")
            graph = _read(GraphSpec, kept[graph_kept_under(manifest.graph_version)], task.task_id)
        instruction = await self._instruction(
            request, task, kept[kept_under(manifest.instruction_version or "")], graph
        )
        return Beginning(
            keys,
            session,
            request,
            task,
            shared,
            instruction,
            graph,
            entries,
            kept,
            source.past.time_zone,
            _origin(task, shared, request.step),
        )

    async def _kept(self, source: _Source, names: Sequence[str]) -> dict[str, bytes]:
        """Read values that are kept beside the task."""
        if source.record is not None:
            record, found = source.record, dict[str, bytes]()
            for name in names:
                if name in record.materials:
                    found[name] = to_json(record.materials[name])
                elif (result := (record.results or {}).get(name)) is not None:
                    found[name] = result.encode()
            return found
        read: dict[str, bytes] = {}
        for begin in range(0, len(names), _FIELDS_PER_READ):
            piece = names[begin : begin + _FIELDS_PER_READ]
            values = await self._store.call("HMGET", source.keys.big, *piece)
            read |= {name: raw for name, raw in zip(piece, values, strict=True) if raw is not None}
        return read

    async def _instruction(
        self, request: ForkRequest, task: Task, kept: bytes, graph: GraphSpec | None
    ) -> Instruction | None:
        """Return the instruction that the fork runs; None for a graph. Raises ``UnforkableError``, ``ProblemError``."""
        if graph is not None:
            if request.instruction or request.model:
                why = "its nodes name their instructions and models: change these, and fork without naming one"
                raise UnforkableError(f"task {task.task_id} runs the graph {graph.name}: {why}")
            return None
        found = _read(Instruction, kept, task.task_id)
        if request.instruction:
            named = (await self._book.runnables(request.instruction)).get(request.instruction)
            if named is None:
                raise missing(f"there is no instruction {request.instruction!r}")
            if isinstance(named, GraphSpec):
                raise UnforkableError(f"{request.instruction} is a graph: a fork of this task runs an instruction")
            found = named
        if request.model:
            model = await self._models.of_kind("llm", request.model)
            found = found.model_copy(update={"model": model})
        return found

    # Writing

    async def _write(self, beginning: Beginning) -> None:
        """Write the fork in one commit. Raises ``ProblemError``."""
        now, settings = await self._store.clock(), self._settings
        step_id = f"step-{random_hex(32)}"
        commit = Commit(beginning.keys, step_id, settings.pentad_events_maxlen, settings.pentad_events_ttl_s)
        ForkWriter(commit, beginning, now, settings.session_ttl_s).write()
        try:
            outcome = await persist(lambda: self._actors.commit_untaken(commit, "0"))
        except RefusedWriteError:
            raise
        except OutageError:
            why = "Redis did not answer, so the fork may have begun or not: ask again with the same message_id"
            raise _named(doubtful(f"{why}, and it begins once"), beginning.request) from None
        if outcome != "committed" and not await self._is_begun(
            beginning.keys, beginning.task.task_id, beginning.request
        ):
            raise _named(busy("the fork was not made: ask again"), beginning.request)

    async def _take_back_erased(self, source: _Source, shared: SharedPast, keys: TaskKeys) -> None:
        """Erase the fork again if its source, or one who speaks in it, was erased while it was made."""
        shard, tenant = source.keys.shard, source.keys.tenant
        session = await mark_at(self._store, SessionKeys(shard, tenant, source.past.task.session_id).erased)
        users = await erased_users(self._store, shard, tenant, users_of(shared.entries))
        gone = session is not None and session.at >= milliseconds(source.past.task.created_at)
        gone = gone or any(at >= source.read_at for at in users.values())
        if gone or await is_erased(self._store, source.keys):
            await self._erase(tenant, keys.task)
            raise missing(f"task {source.keys.task} was erased", ErrorCode.UNKNOWN_TASK)


def _named(problem: ProblemError, request: ForkRequest) -> ProblemError:
    """Return a refusal that names the id under which the fork may be asked for again."""
    problem.message_id = request.message_id
    return problem


def _too_long(task: str) -> str:
    most = f"{MAX_FORK_ENTRIES:,} entries and {MAX_FORK_BYTES >> 20} MiB at most"
    return f"task {task} is too long to be forked there: a fork shares {most}; name an earlier step"


def _past_of_record(record: TaskRecord, step: int) -> TaskPast:
    if len(record.messages) > MAX_FORK_ENTRIES:
        raise ProblemError(409, _too_long(record.task.task_id), ErrorCode.NOT_ALLOWED)
    return TaskPast(record.task, record.steps[: step + 1], record.messages, time_zone=_zone(record.messages))


def _zone(entries: Sequence[Entry]) -> str:
    """Return the person's time zone, as the newest message with a known one names it; '' for none."""
    for each in reversed(entries):
        name = (each.get("metadata") or {}).get(_TIME_ZONE)
        if each.get("role") != "user" or not isinstance(name, str):
            continue
        try:
            zone_of(name)
        except ValueError:
            continue
        return name
    return ""


def _results(keys: TaskKeys, header: TaskHeader, signals: Sequence[bytes]) -> dict[str, ResultMail]:
    """Return the results that have come for open calls and that no step has read. Raises ``DamagedError``."""
    try:
        found = [ResultMail.model_validate_json(mail.body) for mail in mail_of(signals) if mail.kind == RESULT]
    except ValueError:
        raise DamagedError(f"the mail of task {keys.task} cannot be read") from None
    named = {call.id for call in header.open}
    return {result.tool_call_id: result for result in found if result.tool_call_id in named}


def _origin(task: Task, shared: SharedPast, step: int) -> ForkOrigin:
    before = task.forked_from
    return ForkOrigin(
        task_id=task.task_id,
        step=step,
        session_id=task.session_id,
        as_of=shared.steps[-1].at if shared.steps else task.created_at,
        named_session_id=task.session_id if before is None else before.named_session_id,
        named_started_at=task.created_at if before is None else before.named_started_at,
    )


def _read(kind: type[T], raw: bytes, task: str) -> T:
    try:
        return kind.model_validate_json(raw)
    except ValidationError:
        raise DamagedError(f"what task {task} runs cannot be read") from None
