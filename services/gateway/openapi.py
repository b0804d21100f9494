"""`GET /openapi.json`: the REST interface, written down by hand. A test holds it against the routes."""

from functools import cache
from typing import Any, get_args

from pydantic.json_schema import models_json_schema

from pentad.contracts.commands import InboundMessage
from pentad.contracts.dead_letters import LetterKind
from pentad.contracts.errors import ErrorCode
from pentad.contracts.instructions import Instruction
from pentad.contracts.models import ModelEntry
from pentad.contracts.records import Task, UnreadableTask
from pentad.contracts.runs import InstructionRun
from pentad.contracts.tools import ToolSpec

Json = dict[str, Any]

_REFS = "#/components/schemas/{model}"


def _ref(name: str) -> Json:
    return {"$ref": _REFS.format(model=name)}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _page(item: Json) -> Json:
    nothing_more = {"type": ["string", "null"], "description": "`cursor` of the next page; null at the end"}
    return _object(items={"type": "array", "items": item}, next=nothing_more)


def _query(name: str, kind: str, description: str) -> Json:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": {"type": kind}}


def _path(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": _ref("Id")}


def _gives(description: str, schema: Json | None = None, media: str = "application/json") -> Json:
    return {"description": description} | ({"content": {media: {"schema": schema}}} if schema else {})


_TEXT: Json = {"type": "string"}
_LIST = (
    _query("limit", "integer", "items of a page, 1 to 500; 50 when missing"),
    _query("cursor", "string", "`next` of the page before"),
)
_ANY: Json = {"type": "object"}
_PROBLEMS = {
    400: "cannot be read",
    401: "no valid API key",
    403: "a foreign Host or Origin at the open loopback gateway; a key that this is not for",
    404: "no such thing, or another tenant's",
    409: "the task has ended; the dead letter cannot be redriven so; the message cannot be moved so; the model is in "
    "use, or the id or name is taken",
    410: "what is kept of it cannot be read: it is damaged, or of a newer version",
    413: "a body over 1 MiB",
    422: "a wrong value",
    429: "too much work waits; see Retry-After",
    503: "a store is unavailable; see Retry-After. With `in_doubt` what was asked for may have happened all the same; "
    "asked again, it happens once. A message is named by its `message_id`, minted where none was given: send it again "
    "with that id",
}
_RECEIPT = _object(session_id=_ref("Id"), message_id=_ref("Id"))
_TURN = _object(
    session_id=_ref("Id"),
    message_id=_ref("Id"),
    task_id={"type": ["string", "null"]},
    status={"enum": ["completed", "failed", "cancelled", "waiting", "rejected", "error"]},
    answer={"type": ["string", "null"], "description": "the text of the turn's last message"},
    events={"type": "array", "items": _ANY},
)
_MOVE = _object(message_id=_ref("Id"), to={"type": "string", "description": "a task's id, or `new`"})
_TURN_LEFT = _object(role={"enum": ["user", "assistant"]}, content=_TEXT, task_id=_ref("Id"), at=_TEXT)
_SESSION = _object(session_id=_ref("Id"), updated_at=_TEXT, last=_TEXT)


def _operation(summary: str, *parameters: Json, problems: tuple[int, ...] = (), **responses: Json) -> Json:
    answers = {code.removeprefix("_"): response for code, response in responses.items()}
    refused = {
        str(code): _gives(_PROBLEMS[code], _ref("Problem"), "application/problem+json")
        for code in (401, 403, 503, *problems)
    }
    return {"summary": summary, "parameters": list(parameters), "responses": answers | refused}


def _open(summary: str, **responses: Json) -> Json:
    answers = {code.removeprefix("_"): response for code, response in responses.items()}
    return {"summary": summary, "security": [], "responses": answers}


def _session_paths() -> dict[str, Json]:
    send = _operation(
        "Say something to the agent. With `wait`, 200 and the turn when it ends in time.",
        _query("wait", "number", "seconds to wait for the turn's end, at most 600"),
        problems=(400, 413, 422, 429),
        _200=_gives("the turn", _TURN),
        _202=_gives("accepted", _RECEIPT),
    ) | {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref("InboundMessage")}}}}
    return {
        "/v1/messages": {"post": send},
        "/v1/sessions": {
            "get": _operation("Sessions, newest first", *_LIST, problems=(422,), _200=_gives("", _page(_SESSION)))
        },
        "/v1/sessions/{session}/messages": {
            "get": _operation(
                "The last messages of a session, oldest first",
                _path("session"),
                problems=(400, 404),
                _200=_gives("at most 200", _page(_TURN_LEFT)),
            )
        },
        "/v1/sessions/{session}/events": {
            "get": _operation(
                "A session's events as they come, after the header Last-Event-ID or `after`, else from the oldest kept",
                _path("session"),
                _query("after", "string", "`id` of the last event seen"),
                problems=(400,),
                _200=_gives("server-sent events", _TEXT, "text/event-stream"),
            )
        },
    }


def _control(summary: str) -> dict[str, Json]:
    asked = _gives("asked", _object(task_id=_ref("Id")))
    return {"post": _operation(summary, _path("task"), problems=(404, 409), _202=asked)}


def _task_paths() -> dict[str, Json]:
    return {
        "/v1/tasks": {
            "get": _operation(
                "Tasks, newest first. A page may hold fewer than `limit`, even none: go on while `next` is there. "
                "What cannot be read is `unreadable` and says its `problem`; asked for by itself it is a 410",
                _query("status", "string", "only those with this status"),
                _query("session_id", "string", "only those of this session"),
                *_LIST,
                problems=(400, 422),
                _200=_gives("", _page({"anyOf": [_ref("Task"), _ref("UnreadableTask")]})),
            )
        },
        "/v1/tasks/{task}": {
            "get": _operation("One task", _path("task"), problems=(404, 410), _200=_gives("", _ref("Task")))
        },
        "/v1/tasks/{task}/transcript": {
            "get": _operation(
                "What the model would be sent, system prompt aside",
                _path("task"),
                problems=(404, 410),
                _200=_gives(
                    "OpenAI chat form plus `step attempt at model` where they apply; an `exclusion` names the "
                    "`positions` that are left out since a message was moved",
                    _object(task_id=_ref("Id"), messages={"type": "array", "items": _ANY}),
                ),
            )
        },
        "/v1/tasks/{task}/values/{ref}": {
            "get": _operation(
                "What the `ref` of a `tool_result` stands for, whole, as the model is told it",
                _path("task"),
                _path("ref"),
                problems=(404, 410),
                _200=_gives("", _object(task_id=_ref("Id"), ref=_ref("Id"), content=_TEXT)),
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
            "post": _operation(
                "Give one of the task's messages to another task of its session, or to a new one; `message_moved` says "
                "that it is done, an `error` why it could not be",
                _path("task"),
                problems=(400, 404, 409, 410, 413, 422, 429),
                _202=_gives("asked", _MOVE),
            )
            | {"requestBody": {"required": True, "content": {"application/json": {"schema": _MOVE}}}}
        },
        "/v1/tools": {"get": _operation("Tools that workers have published", _200=_gives("", _page(_ref("ToolSpec"))))},
    }


_LETTER = _object(id=_TEXT, kind={"enum": list(get_args(LetterKind))}, reason=_TEXT, at=_TEXT)
"""What the list says of one at least; one that cannot be read has an ``id`` and a ``problem`` alone."""


_MODEL = {
    "allOf": [_ref("ModelEntry"), _object(source=_TEXT, health=_object(state=_TEXT, processes={"type": "integer"}))]
}
"""An entry, where it comes from (``file``, ``registered`` or ``environment``), and how the model does."""


def _model_paths(key: str) -> dict[str, Json]:
    register = _operation(
        f"Register a model, or replace the registered one with its id. All services know it within two seconds; {key}",
        problems=(400, 409, 413, 422),
        _200=_gives("replaced", _MODEL),
        _201=_gives("registered", _MODEL),
    ) | {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref("ModelEntry")}}}}
    summary = "Every model: of the file, registered, and of the environment, with how it does"
    return {
        "/v1/models": {"get": _operation(summary, _200=_gives("", _page(_MODEL))), "post": register},
        "/v1/models/{model}": {
            "delete": _operation(
                f"Remove a registered model that nobody uses; {key}",
                _path("model"),
                problems=(404, 409),
                _204=_gives("removed"),
            )
        },
    }


_INSTRUCTION = {"allOf": [_ref("Instruction"), _object(source=_TEXT, version=_TEXT)]}
"""An instruction, where it comes from (``file registered plugin built_in``), and its content's digest."""
_WARNED = {"allOf": [_INSTRUCTION, _object(warning={"type": ["string", "null"]})]}
"""``warning``: which of its tools no worker has now."""


_RUN_BODY = {
    "type": "object",
    "properties": {
        "input": _TEXT,
        **{name: _ref("Id") for name in ("session_id", "user_id", "message_id")},
        **dict.fromkeys(("metadata", "budget"), _ANY),
        "deadline": _TEXT,
    },
    "required": ["input"],
    "additionalProperties": False,
}


def _instruction_paths(key: str) -> dict[str, Json]:
    register = _operation(
        "Register an instruction, or replace the registered one with its name; it goes before a plugin's and what is "
        f"built in. All services know it within two seconds; running tasks keep the one that they began with; {key}",
        problems=(400, 409, 413, 422),
        _200=_gives("replaced", _WARNED),
        _201=_gives("registered", _WARNED),
    ) | {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref("Instruction")}}}}
    run = _operation(
        "Run an instruction. With `Accept: text/event-stream` the turn's events as they come, as server-sent events",
        _path("instruction"),
        _query("wait", "number", "seconds to wait for the end, 60 when missing, at most 600"),
        problems=(400, 404, 413, 422, 429),
        _200=_gives(
            "the run at its end, `failed` ones too: `data` of a json instruction, else `content`",
            _ref("InstructionRun"),
        ),
        _202=_gives("it goes on: ask again with the same `message_id`", _RECEIPT),
    ) | {"requestBody": {"required": True, "content": {"application/json": {"schema": _RUN_BODY}}}}
    summary = "Every instruction: of the file, registered, of plugins, built in; of two with a name, the first of these"
    return {
        "/v1/instructions": {"get": _operation(summary, _200=_gives("", _page(_INSTRUCTION))), "post": register},
        "/v1/instructions/{instruction}/run": {"post": run},
        "/v1/instructions/{instruction}": {
            "delete": _operation(
                f"Remove a registered instruction; what it stood before comes back; {key}",
                _path("instruction"),
                problems=(404, 409),
                _204=_gives("removed"),
            )
        },
    }


def _operator_paths() -> dict[str, Json]:
    key = "needs the admin key, PENTAD_ADMIN_KEY, as a bearer token"
    sent = {"description": "the JSON object to send instead: as `redrive.body` of the dead letter shows it"}
    redrive = _operation(
        f"Send what was set aside again. It happens once, however often it is asked; {key}",
        _path("letter"),
        problems=(400, 404, 409, 413),
        _202=_gives("what was sent, and where", _ANY),
    ) | {"requestBody": sent | {"required": False, "content": {"application/json": {"schema": _ANY}}}}
    one = {
        "get": _operation(
            f"One dead letter: what it was, what led to it, what a redrive would send; {key}",
            _path("letter"),
            problems=(404, 410),
            _200=_gives("", _LETTER),
        ),
        "delete": _operation(f"Remove it for good; {key}", _path("letter"), problems=(404,), _204=_gives("removed")),
    }
    listed = _operation(
        f"What was set aside, of all tenants, newest first, without the bodies; {key}",
        *_LIST,
        problems=(422,),
        _200=_gives("", _page(_ANY)),
    )
    return {
        **_model_paths(key),
        **_instruction_paths(key),
        "/v1/dead-letters": {"get": listed},
        "/v1/dead-letters/{letter}": one,
        "/v1/dead-letters/{letter}/redrive": {"post": redrive},
    }


def _open_paths() -> dict[str, Json]:
    return {
        "/healthz": {"get": _open("Whether the process is well", _200=_gives("it is"), _503=_gives("it is not"))},
        "/readyz": {
            "get": _open("Whether it can serve", _200=_gives("yes", _ANY), _503=_gives("what is missing", _ANY))
        },
        "/metrics": {
            "get": _open(
                "Prometheus metrics; beyond loopback with PENTAD_ADMIN_KEY as a bearer token",
                _200=_gives("", _TEXT, "text/plain"),
                _401=_gives("no valid key"),
            )
        },
        "/": {"get": _open("What this is, and where to go on; a page for browsers", _200=_gives("", _ANY))},
        "/openapi.json": {"get": _open("This document", _200=_gives("", _ANY))},
        "/asyncapi.json": {"get": _open("The streams behind", _200=_gives("", _ANY))},
    }


def _schemas() -> Json:
    wanted = [
        (model, "serialization")
        for model in (Task, UnreadableTask, ToolSpec, InboundMessage, ModelEntry, Instruction, InstructionRun)
    ]
    _, definitions = models_json_schema(wanted, ref_template=_REFS)  # type: ignore[arg-type]
    problem = _object(type=_TEXT, title=_TEXT, status={"type": "integer"}, detail=_TEXT)
    problem["properties"]["code"] = {"enum": [code.value for code in ErrorCode]}
    problem["properties"] |= {"message_id": _ref("Id"), "in_doubt": {"const": True}}
    named = {"Id": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._~@-]{0,127}$"}, "Problem": problem}
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
        "paths": _session_paths() | _task_paths() | _operator_paths() | _open_paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "one of PENTAD_API_KEYS"}},
        },
    }
