"""The methods of A2A 1.0, each over what every other way into the gateway uses. Nothing is kept here."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    InvalidParamsError,
    TaskNotCancelableError,
    UnsupportedOperationError,
)

from pentad.contracts.approvals import MAX_REASON
from pentad.contracts.ids import is_external_id, is_identifier
from pentad.contracts.records import Task as PentadTask
from pentad.contracts.turns import NEEDS_APPROVAL, TurnEnd, TurnTracker
from pentad.services.gateway.domain.frames import UnreadableError, read_message
from pentad.services.gateway.edge.http import WAIT_LIMIT_S, session_keys
from pentad.services.gateway.edge.pages import BadPageError, parse_page
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.protocols.a2a.a2a_call import CALL_FIELD, A2aCall, no_task
from pentad.services.gateway.protocols.a2a.a2a_parts import A2aParts
from pentad.services.gateway.protocols.a2a.message_input import A2aMessage, read_message_of, session_of_message
from pentad.services.gateway.protocols.a2a.pushed_updates import read_push, shown_push
from pentad.services.gateway.protocols.a2a.task_reader import TaskReader
from pentad.services.gateway.protocols.a2a.task_view import (
    ENDED_STATES,
    agent_message,
    state_of,
    statuses_of,
    timestamp_of,
)
from pentad.services.gateway.protocols.a2a.translation import A2aRun
from pentad.services.gateway.protocols.a2a.turn_updates import OnTask, TurnUpdates, UpdateSources
from pentad.services.gateway.tasks.approvals import decider
from pentad.shared.event_loop import cancel_all
from pentad.shared.events.feed import START
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.workspace.file_errors import FileRefusedError
from pentad.shared.workspace.workspace import NOT_SET

_CANCEL_S = 10.0
"""Seconds that a cancel waits for the end of its task."""
_PAGE_DEFAULT, _PAGE_LIMIT = 50, 100
"""Tasks of a page: A2A's own numbers."""


class A2aRequestHandler(RequestHandler):
    """Serves the methods of A2A for the SDK's bindings."""

    def __init__(self, parts: A2aParts) -> None:
        self._parts = parts
        self._reader = TaskReader(parts.queries, parts.approvals)
        self._sources = UpdateSources(parts.queries, parts.approvals, self._reader)

    # Messages

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """Take a message, and return its task when the turn ends, or at once where the client asks for that."""
        call = _call_of(context)
        with call.told():
            updates = await self._begin(params, call)
            try:
                at_once = params.configuration.return_immediately
                await self._until(updates, call, lambda run: at_once and run.task is not None)
            finally:
                updates.stream.close()
            return await self._outcome(updates.run, call, _history(params.configuration))

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Take a message, and return its task and then what changes in it, until the turn ends."""
        call = _call_of(context)
        with call.told():
            updates = await self._begin(params, call)
            try:
                async for update in updates.follow():
                    yield update
            finally:
                updates.stream.close()
            if updates.run.task is None:
                outcome = await self._outcome(updates.run, call, None)
                assert isinstance(outcome, Message)
                yield outcome

    async def _begin(self, params: SendMessageRequest, call: A2aCall) -> TurnUpdates:
        """Take the message of a request, or its decisions, and return the updates that follow."""
        tenant, own = call.scope("send", "read")
        message = read_message_of(params, call.address)
        found = None if message.task is None else await self._visible(tenant, own, message.task)
        if found is not None and message.context not in (None, found.session_id):
            raise InvalidParamsError("message: the task belongs to another context than contextId")
        session = message.context if found is None else found.session_id
        session = session or own or session_of_message(message.id)
        history = _history(params.configuration)
        on_task = await self._pushing(params.configuration, call, session)
        if message.decisions:
            if found is None:
                raise InvalidParamsError("message: a decision needs the taskId of the task that waits")
            updates = await self._decide(call, message, found, history)
        else:
            updates = await self._say(call, message, session, found, history)
        updates.on_task = on_task
        return updates

    async def _pushing(self, configuration: Any, call: A2aCall, session: str) -> OnTask | None:
        """Return what keeps the push notification config of a message as soon as the task of that is known."""
        if not configuration.HasField("task_push_notification_config"):
            return None
        tenant, pushes = call.scope()[0], self._parts.pushes
        asked = read_push(configuration.task_push_notification_config, call.address)
        pushes.check(asked)
        keys = session_keys(tenant, session, self._parts.shards)
        since_ms = await pushes.now(keys.shard)

        async def keep(task: str) -> None:
            await pushes.add(keys, task, asked, since_ms)

        return keep

    async def _say(
        self, call: A2aCall, message: A2aMessage, session: str, found: PentadTask | None, history: int | None
    ) -> TurnUpdates:
        tenant, _ = call.scope()
        body, grant = message.body(session), call.caller.grant
        keys = session_keys(tenant, session, self._parts.shards)
        read = read_message(body if grant is None else grant.message(body), tenant, session, message.id)
        if not await self._parts.turns.knows(keys, message.id):
            if found is not None and state_of(found.status) in ENDED_STATES:
                raise UnsupportedOperationError("the task has ended: send the message with its contextId alone")
            await self._keep_files(tenant, session, message)
        stream = call.stream = await self._parts.turns.begin(read, keys)
        run = A2aRun(session, TurnTracker(message.id), call.address)
        return TurnUpdates(run, keys, stream, self._sources, history=history)

    async def _keep_files(self, tenant: str, session: str, message: A2aMessage) -> None:
        """Write the files that a message brings, before it is appended: it names them."""
        if not message.files:
            return
        if self._parts.workspaces is None:
            raise InvalidParamsError(NOT_SET)
        try:
            workspace = self._parts.workspaces.open(tenant, session)
            for file in message.files:
                await workspace.write(file.path, file.data)
        except FileRefusedError as error:
            raise invalid(str(error)) from None

    async def _decide(self, call: A2aCall, message: A2aMessage, found: PentadTask, history: int | None) -> TurnUpdates:
        """Take decisions about calls that wait, and follow what their task does then."""
        tenant, own = call.scope("approve")
        waiting = [each.tool_call_id for each in await self._parts.approvals.of_task(tenant, found.task_id)]
        keys = session_keys(tenant, found.session_id, self._parts.shards)
        stream = call.stream = await self._parts.streams.open(keys, None)
        try:
            for each in message.decisions:
                if each.call is None and len(waiting) != 1:
                    raise InvalidParamsError(
                        f"message: {len(waiting)} calls of the task wait for a decision: name one as tool_call_id"
                    )
                asked = replace(each.asked, reason=each.asked.reason or message.content[:MAX_REASON])
                who = decider(call.caller)
                await self._parts.approvals.decide(tenant, found.task_id, each.call or waiting[0], asked, who, own)
            run = A2aRun(found.session_id, TurnTracker("", task_id=found.task_id), call.address, task=found.task_id)
            if await self._parts.approvals.of_task(tenant, found.task_id):
                run.end = TurnEnd("waiting", NEEDS_APPROVAL)
        except BaseException:
            stream.close()
            raise
        return TurnUpdates(run, keys, stream, self._sources, history=history)

    async def _outcome(self, run: A2aRun, call: A2aCall, history: int | None) -> Task | Message:
        """Return what has come of a message: its task, or the answer to one that has none."""
        tenant, _ = call.scope()
        if run.task is not None and (found := await self._parts.queries.task(tenant, run.task)) is not None:
            return await self._reader.read(tenant, found, call.address, history)
        if run.answer is not None:
            name = f"{run.turn.message_id}:answer"
            return agent_message(name, [Part(text=run.answer)], task="", context=run.session)
        if run.end is not None and run.end.outcome == "rejected":
            raise InvalidParamsError(run.end.why)
        raise InternalError(
            run.end.why
            if run.end is not None
            else "the message was accepted, and is not worked on yet: send it again with the same messageId"
        )

    # Tasks

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """Return a task as it is."""
        call = _call_of(context)
        with call.told():
            tenant, own = call.scope("read")
            found = await self._visible(tenant, own, params.id)
            return await self._reader.read(tenant, found, call.address, _history(params))

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of tasks, the newest first."""
        call = _call_of(context)
        with call.told():
            tenant, own = call.scope("read")
            history = _history(params)
            size = params.page_size if params.HasField("page_size") else _PAGE_DEFAULT
            if not 1 <= size <= _PAGE_LIMIT:
                raise InvalidParamsError(f"pageSize: 1 to {_PAGE_LIMIT} are expected")
            if params.context_id and not is_external_id(params.context_id):
                raise InvalidParamsError("contextId: there is no such context")
            if own is not None and params.context_id not in ("", own):
                raise ProblemError(403, "this token is for another context than contextId")
            try:
                after = parse_page(params.page_token or None)
            except BadPageError:
                raise InvalidParamsError("pageToken must be the nextPageToken of an earlier page") from None
            page = await self._parts.tasks.page(
                tenant, size, after, _status(params.status), params.context_id or own or None
            )
            found = [PentadTask.model_validate(item) for item in page.items if item["status"] != "unreadable"]
            found = [each for each in found if _is_wanted(each, params)]
            shown = [await self._shown(tenant, each, call, params.include_artifacts, history) for each in found]
            known = len(shown) + (page.next is not None)
            return ListTasksResponse(
                tasks=shown, next_page_token=page.next or "", page_size=len(shown), total_size=known
            )

    async def _shown(self, tenant: str, task: PentadTask, call: A2aCall, artifacts: bool, history: int | None) -> Task:
        """Return a task of a list. Without a number, a list has no history."""
        if not artifacts and not history:
            return await self._reader.outline(tenant, task, call.address)
        return await self._reader.read(tenant, task, call.address, history or 0)

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Cancel a task, and return it when it has ended."""
        call = _call_of(context)
        with call.told():
            tenant, own = call.scope("send", "read")
            found = await self._visible(tenant, own, params.id)
            keys = session_keys(tenant, found.session_id, self._parts.shards)
            stream = call.stream = await self._parts.streams.open(keys, None)
            try:
                await self._parts.control.ask("cancel", tenant, found.task_id, own)
                run = A2aRun(found.session_id, TurnTracker("", task_id=params.id), call.address, task=params.id)
                updates = TurnUpdates(run, keys, stream, self._sources, watches=True)
                await self._until(updates, call, lambda _: False, _CANCEL_S)
            except ProblemError as problem:
                if problem.status == 409:
                    raise TaskNotCancelableError(problem.detail) from None
                raise
            finally:
                stream.close()
            found = await self._visible(tenant, own, params.id)
            return await self._reader.read(tenant, found, call.address, None)

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Return a task, and then what changes in it, until it ends or waits for a person anew."""
        call = _call_of(context)
        with call.told():
            tenant, own = call.scope("read")
            found = await self._visible(tenant, own, params.id)
            if state_of(found.status) in ENDED_STATES:
                raise UnsupportedOperationError("the task has ended: GetTask returns it")
            keys = session_keys(tenant, found.session_id, self._parts.shards)
            now = await self._parts.streams.open(keys, None)
            tail = now.position
            now.close()
            stream = call.stream = await self._parts.streams.open(keys, START)
            try:
                run = A2aRun(found.session_id, TurnTracker("", task_id=params.id), call.address, task=params.id)
                updates = TurnUpdates(run, keys, stream, self._sources, watches=True)
                task = await updates.catch_up(tail)
                if task is None:
                    raise no_task(params.id)
                yield task
                if task.status.state not in ENDED_STATES:
                    async for update in updates.follow():
                        yield update
            finally:
                stream.close()

    async def _visible(self, tenant: str, own: str | None, task: str) -> PentadTask:
        """Return a task that the caller may see. Raises ``ProblemError`` (404)."""
        found = await self._parts.queries.task(tenant, task) if is_identifier(task) else None
        if found is None or own not in (None, found.session_id):
            raise no_task(task)
        return found

    async def _until(
        self, updates: TurnUpdates, call: A2aCall, enough: Callable[[A2aRun], bool], limit_s: float = WAIT_LIMIT_S
    ) -> None:
        """Follow a run until it ends, or is enough, or the time is up, or the gateway stops."""
        left_s = call.caller.left_s
        tasks = {
            asyncio.create_task(_followed(updates, enough)),
            asyncio.create_task(self._parts.streams.closing.wait()),
        }
        try:
            timeout = limit_s if left_s is None else min(limit_s, left_s)
            done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(tasks)
        for task in done:
            task.result()

    # Push notifications

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Keep where the updates of a task are sent from now on."""
        call = _call_of(context)
        with call.told():
            asked = read_push(params, call.address)
            keys, task = await self._pushed_task(call, params.task_id)
            since_ms = await self._parts.pushes.now(keys.shard)
            return shown_push(await self._parts.pushes.add(keys, task.task, asked, since_ms))

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Return one of the addresses to which the updates of a task are sent."""
        call = _call_of(context)
        with call.told():
            _, task = await self._pushed_task(call, params.task_id)
            for each in map(shown_push, await self._parts.pushes.of_task(task)):
                if each.id == (params.id or params.task_id):
                    return each
            raise missing("the task has no push notification config of this id")

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return all addresses to which the updates of a task are sent: they are few, and make one page."""
        call = _call_of(context)
        with call.told():
            _, task = await self._pushed_task(call, params.task_id)
            found = await self._parts.pushes.of_task(task)
            return ListTaskPushNotificationConfigsResponse(configs=map(shown_push, found))

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Send the updates of a task to an address no more. Safe to repeat."""
        call = _call_of(context)
        with call.told():
            keys, task = await self._pushed_task(call, params.task_id)
            await self._parts.pushes.delete(keys, task.task, params.id or params.task_id)

    async def _pushed_task(self, call: A2aCall, name: str) -> tuple[SessionKeys, TaskKeys]:
        """Return the keys of a task whose updates the caller may see, and of its session."""
        tenant, own = call.scope("read")
        found = await self._visible(tenant, own, name)
        keys = session_keys(tenant, found.session_id, self._parts.shards)
        return keys, TaskKeys(keys.shard, tenant, found.task_id)

    # What there is none of

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Refuse: the card is the same for everybody."""
        raise ExtendedAgentCardNotConfiguredError


async def _followed(updates: TurnUpdates, enough: Callable[[A2aRun], bool]) -> None:
    async with contextlib.aclosing(_generator(updates)) as following:
        async for _ in following:
            if enough(updates.run):
                return


async def _generator(updates: TurnUpdates) -> AsyncGenerator[None]:
    async for _ in updates.follow():
        yield


def _call_of(context: ServerCallContext) -> A2aCall:
    call = context.state[CALL_FIELD]
    assert isinstance(call, A2aCall)
    return call


def _history(params: Any) -> int | None:
    """Return how many messages a client wants with a task; None where it names no number."""
    if not params.HasField("history_length"):
        return None
    if params.history_length < 0:
        raise UnreadableError("historyLength: a number from 0 on is expected")
    return int(params.history_length)


def _status(state: TaskState) -> str | None:
    """Return the status of ours to look for; None where a state stands for several, or none is named."""
    found = statuses_of(state) if state else []
    return found[0] if len(found) == 1 else None


def _is_wanted(task: PentadTask, params: ListTasksRequest) -> bool:
    if params.status and state_of(task.status) != params.status:
        return False
    if not params.HasField("status_timestamp_after"):
        return True
    return bool(timestamp_of(task.updated_at).ToMilliseconds() >= params.status_timestamp_after.ToMilliseconds())
