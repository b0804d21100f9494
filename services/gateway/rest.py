"""The REST routes: inspection and control, all in the tenant of the request."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import is_identifier
from pentad.contracts.records import SHOWN_STATUSES
from pentad.services.gateway.admin import discard_letter, get_letter, list_letters, redrive_letter
from pentad.services.gateway.browsers import make_token
from pentad.services.gateway.domain.move import read_move
from pentad.services.gateway.edge.http import (
    answer,
    answer_with_list,
    page_of,
    read_asked,
    step_of,
    task_of,
    tenant_of,
    time_of,
)
from pentad.services.gateway.edge.pages import Page
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.instruction_routes import delete_instruction, list_instructions, register_instruction
from pentad.services.gateway.knowledge_routes import add_edge, add_node, delete_node, get_neighbours, get_node
from pentad.services.gateway.memory_routes import (
    expand_anchor,
    forget_memories,
    keep_episode,
    memory_stats,
    rebuild_memory,
    rebuild_progress,
    reindex_memory,
    search_memory,
    unforget_memories,
)
from pentad.services.gateway.messages import post_message
from pentad.services.gateway.model_routes import delete_model, list_models, register_model
from pentad.services.gateway.openapi import document
from pentad.services.gateway.parts import Parts
from pentad.services.gateway.running import run_instruction
from pentad.services.gateway.sse import get_events
from pentad.services.gateway.tasks.task_list import Began
from pentad.services.gateway.welcome import as_data, as_page
from pentad.shared.kinds import ControlKind

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

Endpoint = Callable[[Parts, "Request"], Awaitable[Any]]


async def list_sessions(parts: Parts, request: "Request") -> "Response":
    """The tenant's sessions, the newest message first."""
    limit, after = page_of(request)
    return _page(await parts.queries.sessions(tenant_of(request), limit, after))


async def list_messages(parts: Parts, request: "Request") -> "Response":
    """The last messages of a session, oldest first."""
    keys = parts.session(tenant_of(request), request.path_params["session"])
    if not await parts.queries.knows_session(keys):
        raise missing("there is no such session")
    return answer({"items": await parts.queries.messages(keys), "next": None})


async def list_tasks(parts: Parts, request: "Request") -> "Response":
    """The tenant's tasks, the newest first."""
    limit, after = page_of(request)
    status, session = request.query_params.get("status"), request.query_params.get("session_id")
    if status not in (None, *SHOWN_STATUSES):
        raise invalid(f"status must be one of {', '.join(SHOWN_STATUSES)}")
    if session is not None:
        parts.session(tenant_of(request), session)
    began = Began(time_of(request, "since") or 0, time_of(request, "until"))
    return _page(await parts.tasks.page(tenant_of(request), limit, after, status, session, began))


async def get_task(parts: Parts, request: "Request") -> "Response":
    """One task; an archived one from its record."""
    task = await parts.queries.task(tenant_of(request), task_of(request))
    if task is None:
        raise missing("there is no such task", ErrorCode.UNKNOWN_TASK)
    return answer(task.model_dump(mode="json"))


async def get_transcript(parts: Parts, request: "Request") -> "Response":
    """What the model would be sent, system prompt aside; what was moved away is named by an ``exclusion``."""
    task = task_of(request)
    messages = await parts.queries.transcript(tenant_of(request), task)
    if messages is None:
        raise missing("there is no such task", ErrorCode.UNKNOWN_TASK)
    return await answer_with_list({"task_id": task}, "messages", messages)


async def get_prompt(parts: Parts, request: "Request") -> "Response":
    """What a step asked its model, rebuilt and proved by its digest."""
    task, step = task_of(request), step_of(request)
    prompt = await parts.queries.prompt(tenant_of(request), task, step)
    if prompt is None:
        raise missing("there is no such task, or it has no such step", ErrorCode.UNKNOWN_TASK)
    shown = prompt.model_dump(mode="json", exclude={"messages"})
    return await answer_with_list(shown, "messages", prompt.messages)


async def get_value(parts: Parts, request: "Request") -> "Response":
    """What an event's ``ref`` stands for, whole."""
    task, ref = task_of(request), request.path_params["ref"]
    content = await parts.queries.value(tenant_of(request), task, ref) if is_identifier(ref) else None
    if content is None:
        raise missing("this task has no such value")
    return answer({"task_id": task, "ref": ref, "content": content})


def _asks(what: ControlKind) -> Endpoint:
    async def ask(parts: Parts, request: "Request") -> "Response":
        task = task_of(request)
        await parts.control.ask(what, tenant_of(request), task)
        return answer({"task_id": task}, 202)

    return ask


async def archive_task(parts: Parts, request: "Request") -> "Response":
    """Archive a task that has ended."""
    task = task_of(request)
    await parts.control.archive(tenant_of(request), task)
    return answer({"task_id": task}, 202)


async def move_message(parts: Parts, request: "Request") -> "Response":
    """Ask a task to give a message to another."""
    task, tenant = task_of(request), tenant_of(request)
    asked = await read_asked(request, read_move)
    await parts.moving.move(tenant, task, asked)
    return answer({"message_id": asked.message_id, "to": asked.to}, 202)


async def erase_task(parts: Parts, request: "Request") -> "Response":
    """Have a task erased everywhere."""
    return answer(await parts.erasures.task(tenant_of(request), task_of(request)), 202)


async def erase_session(parts: Parts, request: "Request") -> "Response":
    """Have a session erased everywhere, with its tasks."""
    keys = parts.session(tenant_of(request), request.path_params["session"])
    return answer(await parts.erasures.session(keys), 202)


async def erase_user(parts: Parts, request: "Request") -> "Response":
    """Have an end user erased everywhere."""
    return answer(await parts.erasures.user(tenant_of(request), request.path_params["user"]), 202)


async def list_tools(parts: Parts, request: "Request") -> "Response":
    """The tools that workers have published."""
    return answer({"items": await parts.queries.tools(), "next": None})


async def get_welcome(parts: Parts, request: "Request") -> "Response":
    """What this is: a page for browsers, JSON for everybody else."""
    from starlette.responses import HTMLResponse

    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(as_page(), headers={"content-security-policy": "default-src 'none'"})
    return answer(as_data())


async def get_openapi(parts: Parts, request: "Request") -> "Response":
    """This interface."""
    return answer(document())


async def get_asyncapi(parts: Parts, request: "Request") -> "Response":
    """The streams."""
    from pentad.contracts.asyncapi import document as streams

    return answer(streams())


def _page(page: Page) -> "Response":
    return answer({"items": page.items, "next": page.next})


ROUTES: tuple[tuple[str, str, Endpoint], ...] = (
    ("POST", "/v1/messages", post_message),
    ("GET", "/v1/sessions", list_sessions),
    ("DELETE", "/v1/sessions/{session}", erase_session),
    ("GET", "/v1/sessions/{session}/messages", list_messages),
    ("GET", "/v1/sessions/{session}/events", get_events),
    ("POST", "/v1/sessions/{session}/event-token", make_token),
    ("GET", "/v1/tasks", list_tasks),
    ("GET", "/v1/tasks/{task}", get_task),
    ("DELETE", "/v1/tasks/{task}", erase_task),
    ("GET", "/v1/tasks/{task}/transcript", get_transcript),
    ("GET", "/v1/tasks/{task}/steps/{step}/prompt", get_prompt),
    ("GET", "/v1/tasks/{task}/values/{ref}", get_value),
    ("POST", "/v1/tasks/{task}/cancel", _asks("cancel")),
    ("POST", "/v1/tasks/{task}/pause", _asks("pause")),
    ("POST", "/v1/tasks/{task}/resume", _asks("resume")),
    ("POST", "/v1/tasks/{task}/archive", archive_task),
    ("POST", "/v1/tasks/{task}/move", move_message),
    ("DELETE", "/v1/users/{user}", erase_user),
    ("GET", "/v1/memory/search", search_memory),
    ("POST", "/v1/memory/expand", expand_anchor),
    ("POST", "/v1/memory/forget", forget_memories),
    ("POST", "/v1/memory/unforget", unforget_memories),
    ("POST", "/v1/memory/reindex", reindex_memory),
    ("POST", "/v1/memory/rebuild", rebuild_memory),
    ("GET", "/v1/memory/rebuild", rebuild_progress),
    ("GET", "/v1/memory/stats", memory_stats),
    ("POST", "/v1/memory/episodes", keep_episode),
    ("POST", "/v1/memory/nodes", add_node),
    ("POST", "/v1/memory/edges", add_edge),
    ("GET", "/v1/memory/nodes/{node}", get_node),
    ("DELETE", "/v1/memory/nodes/{node}", delete_node),
    ("GET", "/v1/memory/nodes/{node}/neighbours", get_neighbours),
    ("GET", "/v1/tools", list_tools),
    ("GET", "/v1/models", list_models),
    ("POST", "/v1/models", register_model),
    ("DELETE", "/v1/models/{model}", delete_model),
    ("GET", "/v1/instructions", list_instructions),
    ("POST", "/v1/instructions", register_instruction),
    ("DELETE", "/v1/instructions/{instruction}", delete_instruction),
    ("POST", "/v1/instructions/{instruction}/run", run_instruction),
    ("GET", "/v1/dead-letters", list_letters),
    ("GET", "/v1/dead-letters/{letter}", get_letter),
    ("POST", "/v1/dead-letters/{letter}/redrive", redrive_letter),
    ("DELETE", "/v1/dead-letters/{letter}", discard_letter),
    ("GET", "/", get_welcome),
    ("GET", "/openapi.json", get_openapi),
    ("GET", "/asyncapi.json", get_asyncapi),
)
"""Every route but health, metrics and the WebSocket. The OpenAPI document must say the same: a test compares."""


def routes(parts: Parts) -> "list[Route]":
    """As Starlette routes."""
    from starlette.routing import Route

    return [Route(path, _bound(endpoint, parts), methods=[method]) for method, path, endpoint in ROUTES]


def _bound(endpoint: Endpoint, parts: Parts) -> Callable[["Request"], Awaitable[Any]]:
    async def call(request: "Request") -> Any:
        return await endpoint(parts, request)

    return call


async def on_problem(request: "Request", error: Exception) -> "Response":
    """A refusal that a handler has raised."""
    assert isinstance(error, ProblemError)
    return error.response()
