"""The routes of tasks: reading, cancelling, pausing and archiving them, and moving messages; and the list of tools."""

from typing import TYPE_CHECKING

from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import is_identifier
from pentad.contracts.records import SHOWN_STATUSES
from pentad.services.gateway.domain.move import read_move
from pentad.services.gateway.edge.http import (
    answer,
    answer_with_list,
    answer_with_page,
    asked_scope_of,
    caller_of,
    limit_of,
    page_of,
    read_asked,
    scope_of,
    session_keys,
    step_of,
    task_of,
    tenant_of,
    time_of,
)
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.pages import BadPageError
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.edge.schemas import (
    ANY_OBJECT,
    LIST,
    MOVE,
    OF_TENANT,
    TEXT,
    gives,
    json_body,
    number_in_path,
    object_of,
    page,
    path,
    query,
    ref,
)
from pentad.services.gateway.tasks.control import Control
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.queries import NoGraphError, Queries
from pentad.services.gateway.tasks.step_list import StepList, parse_steps_cursor
from pentad.services.gateway.tasks.task_list import Began, TaskList
from pentad.shared.agent_graphs.mermaid import mermaid
from pentad.shared.kinds import ControlKind

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_ASKED = gives("asked", object_of(task_id=ref("Id")))


class TaskRoutes:
    """Routes of the tasks of the caller's tenant."""

    def __init__(self, queries: Queries, tasks: TaskList, control: Control, moves: MessageMoves, shards: int) -> None:
        self._queries, self._tasks, self._control, self._moves = queries, tasks, control, moves
        self._steps, self._shards = StepList(queries), shards

    @operation(
        "GET",
        "/v1/tasks",
        "Tasks, newest first, archived ones too. A page may hold fewer than `limit`, even none: go on while "
        "`next` is there. What cannot be read is `unreadable` and says its `problem`; asked for by itself it "
        "is a 410",
        query("status", "string", "only those with this status"),
        query("session_id", "string", "only those of this session"),
        query("since", "string", "RFC 3339: only those that began then or later"),
        query("until", "string", "RFC 3339: only those that began before it"),
        OF_TENANT,
        *LIST,
        problems=(400, 422),
        _200=gives("", page({"anyOf": [ref("Task"), ref("UnreadableTask")]})),
        right="read",
    )
    async def list_tasks(self, request: "Request") -> "Response":
        """Return the tenant's tasks, the newest first."""
        limit, after = page_of(request)
        status, session = request.query_params.get("status"), request.query_params.get("session_id")
        if status not in (None, *SHOWN_STATUSES):
            raise invalid(f"status must be one of {', '.join(SHOWN_STATUSES)}")
        (tenant, own), grant = asked_scope_of(request), caller_of(request).grant
        if session is None:
            session = own
        elif grant is not None:
            grant.check_session(session)
        if session is not None:
            session_keys(tenant, session, self._shards)
        began = Began(time_of(request, "since") or 0, time_of(request, "until"))
        return answer_with_page(await self._tasks.page(tenant, limit, after, status, session, began))

    @operation(
        "GET",
        "/v1/tasks/{task}",
        "One task",
        path("task"),
        OF_TENANT,
        problems=(404, 410, 422),
        right="read",
        _200=gives("", ref("Task")),
    )
    async def get_task(self, request: "Request") -> "Response":
        """Return a task; an archived one from its record."""
        tenant, name = await self._visible(request, asked_scope_of(request))
        task = await self._queries.task(tenant, name)
        if task is None:
            raise missing("there is no such task", ErrorCode.UNKNOWN_TASK)
        return answer(task.model_dump(mode="json"))

    @operation(
        "GET",
        "/v1/tasks/{task}/transcript",
        "What the model would be sent, system prompt aside",
        path("task"),
        problems=(404, 410),
        _200=gives(
            "OpenAI chat form plus `step attempt at model` where they apply; an `exclusion` names the "
            "`positions` that are left out since a message was moved",
            object_of(task_id=ref("Id"), messages={"type": "array", "items": ANY_OBJECT}),
        ),
        right="read",
    )
    async def get_transcript(self, request: "Request") -> "Response":
        """Return the transcript that the model would get; an ``exclusion`` names the positions of moved messages."""
        tenant, task = await self._visible(request)
        messages = await self._queries.transcript(tenant, task)
        if messages is None:
            raise missing("there is no such task", ErrorCode.UNKNOWN_TASK)
        return await answer_with_list({"task_id": task}, "messages", messages)

    @operation(
        "GET",
        "/v1/tasks/{task}/path",
        "The path of a task through its graph: the nodes of its newest run, with times, conditions that were judged "
        "and tasks that were started; of a task that runs an instruction, the agents that it has called. With "
        "`format=mermaid` the graph as a drawing, its path marked",
        path("task"),
        query("format", "string", "`mermaid`: a flowchart in the language of Mermaid, as text"),
        problems=(404, 409, 410, 422),
        _200=gives("", ref("TaskPath")),
        right="read",
    )
    async def get_path(self, request: "Request") -> "Response":
        """Return the path of a task through its graph."""
        tenant, task = await self._visible(request)
        form = request.query_params.get("format")
        if form not in (None, "mermaid"):
            raise invalid("format: there is only mermaid; without it the path comes as JSON")
        try:
            found = await self._queries.path(tenant, task)
        except NoGraphError:
            raise ProblemError(
                409, "the task runs an instruction, not a graph, and has called no agents: it has no path"
            ) from None
        if found is None:
            raise missing("there is no such task", ErrorCode.UNKNOWN_TASK)
        taken, graph = found
        if form is None:
            return answer(taken.model_dump(mode="json", exclude_none=True))
        if graph is None:
            if taken.graph_version is None:
                raise ProblemError(409, "the task runs an instruction, not a graph: there is nothing to draw")
            raise ProblemError(410, "the graph of this task cannot be read any more")
        from starlette.responses import PlainTextResponse

        drawn = mermaid(graph, {visit.node: visit.outcome for visit in taken.path})
        return PlainTextResponse(drawn, headers={"cache-control": "no-store"})

    @operation(
        "GET",
        "/v1/tasks/{task}/steps",
        "The steps of a task, the first one first: what each added to the prompt, its answer, its tool calls with "
        "their results, times, cost, and the manifest of its prompt. A page ends early after long messages: go on "
        "while `next` is there",
        path("task"),
        *LIST,
        problems=(404, 410, 422),
        _200=gives("", page(ref("TaskStep"))),
    )
    async def list_steps(self, request: "Request") -> "Response":
        """Return a page of a task's steps."""
        task, limit = task_of(request), limit_of(request)
        try:
            after = parse_steps_cursor(request.query_params.get("cursor"))
        except BadPageError as error:
            raise invalid(str(error)) from None
        found = await self._steps.page(tenant_of(request), task, limit, after)
        if found is None:
            raise missing("there is no such task", ErrorCode.UNKNOWN_TASK)
        return await answer_with_list({"next": found.next}, "items", found.items)

    @operation(
        "GET",
        "/v1/tasks/{task}/steps/{step}/prompt",
        "What a step asked its model, rebuilt from what is kept of the task; `proved` says whether it has the "
        "digest that was taken when it was asked",
        path("task"),
        number_in_path("step"),
        problems=(404, 410),
        _200=gives("", ref("StepPrompt")),
    )
    async def get_prompt(self, request: "Request") -> "Response":
        """Return a step's request to its model, rebuilt and proved by its digest."""
        task, step = task_of(request), step_of(request)
        prompt = await self._queries.prompt(tenant_of(request), task, step)
        if prompt is None:
            raise missing("there is no such task, or it has no such step", ErrorCode.UNKNOWN_TASK)
        shown = prompt.model_dump(mode="json", exclude={"messages"})
        return await answer_with_list(shown, "messages", prompt.messages)

    @operation(
        "GET",
        "/v1/tasks/{task}/values/{ref}",
        "What the `ref` of a `tool_result` stands for, whole, as the model is told it",
        path("task"),
        path("ref"),
        problems=(404, 410),
        _200=gives("", object_of(task_id=ref("Id"), ref=ref("Id"), content=TEXT)),
        right="read",
    )
    async def get_value(self, request: "Request") -> "Response":
        """Return the whole value that an event's ``ref`` names."""
        (tenant, task), name = await self._visible(request), request.path_params["ref"]
        content = await self._queries.value(tenant, task, name) if is_identifier(name) else None
        if content is None:
            raise missing("this task has no such value")
        return answer({"task_id": task, "ref": name, "content": content})

    @operation(
        "POST",
        "/v1/tasks/{task}/cancel",
        "Ask a task to stop; it ends within a second",
        path("task"),
        OF_TENANT,
        problems=(404, 409, 422),
        _202=_ASKED,
        right="send",
    )
    async def cancel_task(self, request: "Request") -> "Response":
        """Ask a task to cancel itself."""
        return await self._ask("cancel", request, asked_scope_of(request))

    @operation(
        "POST",
        "/v1/tasks/{task}/pause",
        "Ask a task to pause; within a second it waits, and what its step has said so far is void. Tool calls "
        "under way finish, and messages wait, until it is resumed",
        path("task"),
        problems=(404, 409),
        _202=_ASKED,
        right="send",
    )
    async def pause_task(self, request: "Request") -> "Response":
        """Ask a task to pause."""
        return await self._ask("pause", request)

    @operation(
        "POST",
        "/v1/tasks/{task}/resume",
        "Ask a paused task to go on where it was; another goes on anyway",
        path("task"),
        problems=(404, 409),
        _202=_ASKED,
        right="send",
    )
    async def resume_task(self, request: "Request") -> "Response":
        """Ask a paused task to continue."""
        return await self._ask("resume", request)

    @operation(
        "POST",
        "/v1/tasks/{task}/complete",
        "Say that a task that waits for a person is done: it ends as completed, reason `closed`, without asking a "
        "model. A message that waits for it goes first",
        path("task"),
        problems=(404, 409),
        _202=_ASKED,
    )
    async def complete_task(self, request: "Request") -> "Response":
        """Ask a waiting task to complete."""
        return await self._ask("complete", request)

    @operation(
        "POST",
        "/v1/tasks/{task}/archive",
        "Archive a task that has ended now, not after its grace time",
        path("task"),
        problems=(404, 409),
        _202=_ASKED,
    )
    async def archive_task(self, request: "Request") -> "Response":
        """Archive a task that has ended."""
        task = task_of(request)
        await self._control.archive(tenant_of(request), task)
        return answer({"task_id": task}, 202)

    @operation(
        "POST",
        "/v1/tasks/{task}/move",
        "Give one of the task's messages to another task of its session, or to a new one; `message_moved` says "
        "that it is done, an `error` why it could not be",
        path("task"),
        body=json_body(MOVE),
        problems=(400, 404, 409, 410, 413, 415, 422, 429),
        _202=gives("asked", MOVE),
        right="send",
    )
    async def move_message(self, request: "Request") -> "Response":
        """Ask a task to move one of its messages to another task."""
        task, (tenant, session) = task_of(request), scope_of(request)
        asked = await read_asked(request, read_move)
        await self._moves.move(tenant, task, asked, session)
        return answer({"message_id": asked.message_id, "to": asked.to}, 202)

    async def _ask(
        self, what: ControlKind, request: "Request", scope: tuple[str, str | None] | None = None
    ) -> "Response":
        task, (tenant, session) = task_of(request), scope or scope_of(request)
        await self._control.ask(what, tenant, task, session)
        return answer({"task_id": task}, 202)

    async def _visible(self, request: "Request", scope: tuple[str, str | None] | None = None) -> tuple[str, str]:
        """Return the caller's tenant and the task in the path. Raises ``ProblemError`` (404) for a task that a token
        does not open, as for one that is not there."""
        (tenant, session), task = scope or scope_of(request), task_of(request)
        if not await self._queries.is_visible(tenant, task, session):
            raise missing("there is no such task", ErrorCode.UNKNOWN_TASK)
        return tenant, task
