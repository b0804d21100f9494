"""What an operator's part of the REST interface is: models, instructions, dead letters."""

from typing import get_args

from pentad.contracts.dead_letters import LetterKind
from pentad.contracts.models import ModelState
from pentad.services.gateway.openapi_words import (
    ANY,
    LIST,
    RECEIPT,
    TEXT,
    Json,
    gives,
    object_of,
    operation,
    page,
    path,
    query,
    ref,
)

_LETTER = object_of(id=TEXT, kind={"enum": list(get_args(LetterKind))}, reason=TEXT, at=TEXT)
"""What the list says of one at least; one that cannot be read has an ``id`` and a ``problem`` alone."""


_MAYBE = {"type": ["string", "null"]}
_HEALTH = object_of(
    state={"enum": [*get_args(ModelState), "unknown"]},
    since=_MAYBE | {"description": "When it came into this state; null where no process tells"},
    error=_MAYBE | {"description": "Why the last failed call failed"},
    refused={"type": "boolean", "description": "Refused for a reason that only a person can mend: key, id, credit"},
    learned={
        "type": "array",
        "items": TEXT,
        "description": "How it is asked otherwise than others, because its server has refused a request, and the words",
    },
    processes={"type": "integer", "description": "How many processes tell"},
)
_MODEL = {"allOf": [ref("ModelEntry"), object_of(source=TEXT, health=_HEALTH)]}
"""An entry, where it comes from (``file``, ``registered`` or ``environment``), and how the model does."""


def _model_paths(key: str) -> dict[str, Json]:
    register = operation(
        f"Register a model, or replace the registered one with its id. All services know it within two seconds; {key}",
        problems=(400, 409, 413, 415, 422),
        _200=gives("replaced", _MODEL),
        _201=gives("registered", _MODEL),
    ) | {"requestBody": {"required": True, "content": {"application/json": {"schema": ref("ModelEntry")}}}}
    summary = "Every model: of the file, registered, and of the environment, with how it does"
    return {
        "/v1/models": {"get": operation(summary, _200=gives("", page(_MODEL))), "post": register},
        "/v1/models/{model}": {
            "delete": operation(
                f"Remove a registered model that nobody uses; {key}",
                path("model"),
                problems=(404, 409),
                _204=gives("removed"),
            )
        },
    }


_INSTRUCTION = {"allOf": [ref("Instruction"), object_of(source=TEXT, version=TEXT)]}
"""An instruction, where it comes from (``file registered plugin built_in``), and its content's digest."""
_WARNED = {"allOf": [_INSTRUCTION, object_of(warning={"type": ["string", "null"]})]}
"""``warning``: which of its tools no worker has now."""


_RUN_BODY = {
    "type": "object",
    "properties": {
        "input": TEXT,
        **{name: ref("ExternalId") for name in ("session_id", "user_id", "message_id")},
        **dict.fromkeys(("metadata", "budget"), ANY),
        "deadline": TEXT,
    },
    "required": ["input"],
    "additionalProperties": False,
}


def _instruction_paths(key: str) -> dict[str, Json]:
    register = operation(
        "Register an instruction, or replace the registered one with its name; it goes before a plugin's and what is "
        f"built in. All services know it within two seconds; tasks keep the one that they were opened with; {key}",
        problems=(400, 409, 413, 415, 422),
        _200=gives("replaced", _WARNED),
        _201=gives("registered", _WARNED),
    ) | {"requestBody": {"required": True, "content": {"application/json": {"schema": ref("Instruction")}}}}
    run = operation(
        "Run an instruction. With `Accept: text/event-stream` the turn's events as they come, as server-sent events",
        path("instruction"),
        query("wait", "number", "seconds to wait for the end, 60 when missing; 600 at most are waited", minimum=0),
        problems=(400, 404, 413, 415, 422, 429),
        _200=gives(
            "the run at its end, `failed` ones too: `data` of a json instruction, else `content`",
            ref("InstructionRun"),
        ),
        _202=gives("it goes on: ask again with the same `message_id`", RECEIPT),
    ) | {"requestBody": {"required": True, "content": {"application/json": {"schema": _RUN_BODY}}}}
    summary = "Every instruction: of the file, registered, of plugins, built in; of two with a name, the first of these"
    return {
        "/v1/instructions": {"get": operation(summary, _200=gives("", page(_INSTRUCTION))), "post": register},
        "/v1/instructions/{instruction}/run": {"post": run},
        "/v1/instructions/{instruction}": {
            "delete": operation(
                f"Remove a registered instruction; what it stood before comes back; {key}",
                path("instruction"),
                problems=(404, 409),
                _204=gives("removed"),
            )
        },
    }


def operator_paths() -> dict[str, Json]:
    """Models, instructions and dead letters."""
    key = "needs the admin key, PENTAD_ADMIN_KEY, as a bearer token"
    sent = {"description": "the JSON object to send instead: as `redrive.body` of the dead letter shows it"}
    redrive = operation(
        f"Send what was set aside again. It happens once, however often it is asked; {key}",
        path("letter"),
        problems=(400, 404, 409, 413, 415),
        _202=gives("what was sent, and where", ANY),
    ) | {"requestBody": sent | {"required": False, "content": {"application/json": {"schema": ANY}}}}
    one = {
        "get": operation(
            f"One dead letter: what it was, what led to it, what a redrive would send; {key}",
            path("letter"),
            problems=(404, 410),
            _200=gives("", _LETTER),
        ),
        "delete": operation(f"Remove it for good; {key}", path("letter"), problems=(404,), _204=gives("removed")),
    }
    listed = operation(
        f"What was set aside, of all tenants, newest first, without the bodies; {key}",
        *LIST,
        problems=(422,),
        _200=gives("", page(ANY)),
    )
    return {
        **_model_paths(key),
        **_instruction_paths(key),
        "/v1/dead-letters": {"get": listed},
        "/v1/dead-letters/{letter}": one,
        "/v1/dead-letters/{letter}/redrive": {"post": redrive},
    }
