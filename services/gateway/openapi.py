"""`GET /openapi.json`: the REST interface, written down by hand. A test holds it against the routes."""

from functools import cache

from pydantic.json_schema import models_json_schema

from pentad.contracts.commands import InboundMessage
from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import EXTERNAL_ID_RULE, ID_PATTERN, MAX_EXTERNAL_ID
from pentad.contracts.instructions import Instruction
from pentad.contracts.memories import (
    KeptEpisode,
    KnownEdge,
    KnownNode,
    MemoryRebuild,
    MemoryStats,
    Neighbourhood,
    OpenedAnchor,
    RecalledMemories,
)
from pentad.contracts.models import ModelEntry
from pentad.contracts.records import StepPrompt, Task, UnreadableTask
from pentad.contracts.runs import InstructionRun
from pentad.contracts.tools import ToolSpec
from pentad.services.gateway.openapi_knowledge import knowledge_paths
from pentad.services.gateway.openapi_memory import memory_paths
from pentad.services.gateway.openapi_operator import operator_paths
from pentad.services.gateway.openapi_words import (
    ANY,
    LIST,
    MOVE,
    RECEIPT,
    REFS,
    SESSION,
    TEXT,
    TURN,
    TURN_LEFT,
    Json,
    gives,
    number_in_path,
    object_of,
    open_operation,
    operation,
    page,
    path,
    query,
    ref,
)

_TOOL = {"allOf": [ref("ToolSpec"), object_of(seen_at=TEXT, alive={"type": "boolean"})]}
"""A tool, when a worker last said that it has it, and whether a living one does."""


def _session_paths() -> dict[str, Json]:
    send = operation(
        "Say something to the agent. With `wait`, 200 and the turn when it ends in time.",
        query("wait", "number", "seconds to wait for the turn's end; 600 at most are waited", minimum=0),
        problems=(400, 409, 413, 415, 422, 429),
        _200=gives("the turn", TURN),
        _202=gives("accepted", RECEIPT),
    ) | {"requestBody": {"required": True, "content": {"application/json": {"schema": ref("InboundMessage")}}}}
    return {
        "/v1/messages": {"post": send},
        "/v1/sessions": {
            "get": operation("Sessions, newest first", *LIST, problems=(422,), _200=gives("", page(SESSION)))
        },
        "/v1/sessions/{session}": {
            "delete": operation(
                "Erase a session everywhere, with its tasks. A message that is sent from now on begins it afresh",
                path("session"),
                problems=(400, 404),
                _202=gives("marked, and being erased", object_of(session_id=ref("ExternalId"))),
            )
        },
        "/v1/sessions/{session}/messages": {
            "get": operation(
                "The last messages of a session, oldest first",
                path("session"),
                problems=(400, 404),
                _200=gives("at most 200", page(TURN_LEFT)),
            )
        },
        "/v1/sessions/{session}/events": {
            "get": operation(
                "A session's events as they come, after the header Last-Event-ID or `after`, else from the oldest kept",
                path("session"),
                query("after", "string", "`id` of the last event seen"),
                query("token", "string", "in place of an API key, which an EventSource cannot send"),
                problems=(400,),
                _200=gives("server-sent events", TEXT, "text/event-stream"),
            )
        },
        "/v1/sessions/{session}/event-token": {
            "post": operation(
                "A token to follow the session's events with, for five minutes",
                path("session"),
                problems=(400,),
                _200=gives("", object_of(token=TEXT, expires_at={"type": "integer", "description": "Unix seconds"})),
            )
        },
    }


def _control(summary: str) -> dict[str, Json]:
    asked = gives("asked", object_of(task_id=ref("Id")))
    return {"post": operation(summary, path("task"), problems=(404, 409), _202=asked)}


def _task_paths() -> dict[str, Json]:
    return {
        "/v1/tasks": {
            "get": operation(
                "Tasks, newest first, archived ones too. A page may hold fewer than `limit`, even none: go on while "
                "`next` is there. What cannot be read is `unreadable` and says its `problem`; asked for by itself it "
                "is a 410",
                query("status", "string", "only those with this status"),
                query("session_id", "string", "only those of this session"),
                query("since", "string", "RFC 3339: only those that began then or later"),
                query("until", "string", "RFC 3339: only those that began before it"),
                *LIST,
                problems=(400, 422),
                _200=gives("", page({"anyOf": [ref("Task"), ref("UnreadableTask")]})),
            )
        },
        "/v1/tasks/{task}": {
            "get": operation("One task", path("task"), problems=(404, 410), _200=gives("", ref("Task"))),
            "delete": operation(
                "Erase a task everywhere: its state, its events, its record, what is remembered of it. It is cancelled "
                "first if it goes on",
                path("task"),
                problems=(404,),
                _202=gives("marked, and being erased", object_of(task_id=ref("Id"), session_id=ref("ExternalId"))),
            ),
        },
        "/v1/tasks/{task}/transcript": {
            "get": operation(
                "What the model would be sent, system prompt aside",
                path("task"),
                problems=(404, 410),
                _200=gives(
                    "OpenAI chat form plus `step attempt at model` where they apply; an `exclusion` names the "
                    "`positions` that are left out since a message was moved",
                    object_of(task_id=ref("Id"), messages={"type": "array", "items": ANY}),
                ),
            )
        },
        "/v1/tasks/{task}/steps/{step}/prompt": {
            "get": operation(
                "What a step asked its model, rebuilt from what is kept of the task; `proved` says whether it has the "
                "digest that was taken when it was asked",
                path("task"),
                number_in_path("step"),
                problems=(404, 410),
                _200=gives("", ref("StepPrompt")),
            )
        },
        "/v1/tasks/{task}/values/{ref}": {
            "get": operation(
                "What the `ref` of a `tool_result` stands for, whole, as the model is told it",
                path("task"),
                path("ref"),
                problems=(404, 410),
                _200=gives("", object_of(task_id=ref("Id"), ref=ref("Id"), content=TEXT)),
            )
        },
        "/v1/tasks/{task}/cancel": _control("Ask a task to stop; it ends within a second"),
        "/v1/tasks/{task}/pause": _control(
            "Ask a task to pause; within a second it waits, and what its step has said so far is void. Tool calls "
            "under way finish, and messages wait, until it is resumed"
        ),
        "/v1/tasks/{task}/resume": _control("Ask a paused task to go on where it was; another goes on anyway"),
        "/v1/tasks/{task}/archive": _control("Archive a task that has ended now, not after its grace time"),
        "/v1/tasks/{task}/move": {
            "post": operation(
                "Give one of the task's messages to another task of its session, or to a new one; `message_moved` says "
                "that it is done, an `error` why it could not be",
                path("task"),
                problems=(400, 404, 409, 410, 413, 415, 422, 429),
                _202=gives("asked", MOVE),
            )
            | {"requestBody": {"required": True, "content": {"application/json": {"schema": MOVE}}}}
        },
        "/v1/tools": {"get": operation("Tools that workers have published", _200=gives("", page(_TOOL)))},
        "/v1/users/{user}": {
            "delete": operation(
                "Erase an end user everywhere: the tasks in which nobody else has spoken, and the memories that are "
                "theirs. 202 also when there is nothing of them",
                path("user"),
                problems=(422,),
                _202=gives(
                    "marked, and being erased; also when there is nothing of them", object_of(user_id=ref("ExternalId"))
                ),
            )
        },
    }


def _open_paths() -> dict[str, Json]:
    return {
        "/healthz": {
            "get": open_operation("Whether the process is well", _200=gives("it is"), _503=gives("it is not"))
        },
        "/readyz": {
            "get": open_operation("Whether it can serve", _200=gives("yes", ANY), _503=gives("what is missing", ANY))
        },
        "/metrics": {
            "get": open_operation(
                "Prometheus metrics; beyond loopback with PENTAD_ADMIN_KEY as a bearer token",
                _200=gives("", TEXT, "text/plain"),
                _401=gives("no valid key"),
            )
        },
        "/": {"get": open_operation("What this is, and where to go on; a page for browsers", _200=gives("", ANY))},
        "/openapi.json": {"get": open_operation("This document", _200=gives("", ANY))},
        "/asyncapi.json": {"get": open_operation("The streams behind", _200=gives("", ANY))},
    }


def _memory_paths() -> dict[str, Json]:
    return memory_paths() | knowledge_paths()


def _schemas() -> Json:
    tasks = Task, UnreadableTask, StepPrompt, InstructionRun
    memory = RecalledMemories, OpenedAnchor, MemoryStats, MemoryRebuild, KeptEpisode
    known = KnownNode, KnownEdge, Neighbourhood
    models = (*tasks, *memory, *known, ToolSpec, InboundMessage, ModelEntry, Instruction)
    wanted = [(model, "serialization") for model in models]
    _, definitions = models_json_schema(wanted, ref_template=REFS)  # type: ignore[arg-type]
    problem = object_of(type=TEXT, title=TEXT, status={"type": "integer"}, detail=TEXT)
    problem["properties"]["code"] = {"enum": [code.value for code in ErrorCode]}
    problem["properties"] |= {"message_id": ref("ExternalId"), "in_doubt": {"const": True}}
    named = {
        "Id": {"type": "string", "pattern": ID_PATTERN},
        "ExternalId": {"type": "string", "minLength": 1, "maxLength": MAX_EXTERNAL_ID, "description": EXTERNAL_ID_RULE},
        "Problem": problem,
    }
    return dict(definitions["$defs"]) | named


@cache
def document() -> Json:
    """The OpenAPI 3.1 document."""
    about = (
        "An agent's sessions, tasks and tools. Events also come over the WebSocket /v1/ws: docs/clients.md, and "
        "/asyncapi.json for their fields."
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pentad", "version": "0.2.0", "description": about},
        "security": [{"key": []}],
        "paths": _session_paths() | _task_paths() | _memory_paths() | operator_paths() | _open_paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "one of PENTAD_API_KEYS"}},
        },
    }
