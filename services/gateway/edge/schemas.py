"""JSON schemas and parameters in OpenAPI's form, with which operations of the REST interface are described."""

from typing import Any

from pentad.contracts.commands import MAX_CONTENT

Json = dict[str, Any]

_EXTERNAL = ("session", "user", "call", "message_id", "run")
"""Parameters of paths that are ids of other systems, percent-encoded like every part of a path."""

REFS = "#/components/schemas/{model}"


def ref(name: str) -> Json:
    """Return a reference to a schema of the document's components."""
    return {"$ref": REFS.format(model=name)}


def object_of(**properties: Json) -> Json:
    """Return the schema of an object with these properties, all required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def page(item: Json) -> Json:
    """Return the schema of a page of a list."""
    nothing_more = {"type": ["string", "null"], "description": "`cursor` of the next page; null at the end"}
    return object_of(items={"type": "array", "items": item}, next=nothing_more)


def query(name: str, kind: str, description: str, **bounds: int) -> Json:
    """Return an optional parameter of the query; ``bounds`` as in a JSON schema."""
    schema = {"type": kind, **bounds}
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def path(name: str) -> Json:
    """Return a parameter of the path that is an id."""
    return {"name": name, "in": "path", "required": True, "schema": ref("ExternalId" if name in _EXTERNAL else "Id")}


def path_of_file() -> Json:
    """Return the parameter of the path that is the path of a file: names separated by ``/``, as they are."""
    about = "names separated by /, each percent-encoded"
    return {"name": "path", "in": "path", "required": True, "description": about, "schema": {"type": "string"}}


def number_in_path(name: str) -> Json:
    """Return a parameter of the path that is a number from 1 on."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}


def gives(description: str, schema: Json | None = None, media: str = "application/json") -> Json:
    """Return the description of a response, with the schema of its body."""
    return {"description": description} | ({"content": {media: {"schema": schema}}} if schema else {})


def json_body(schema: Json) -> Json:
    """Return the description of a body that a request must have."""
    return {"required": True, "content": {"application/json": {"schema": schema}}}


TEXT: Json = {"type": "string"}
NULLABLE_TEXT: Json = {"type": ["string", "null"]}
LIST = (
    query("limit", "integer", "items of a page; 50 when missing", minimum=1, maximum=500),
    query("cursor", "string", "`next` of the page before"),
)
OF_TENANT = query("tenant", "string", "of this tenant instead of the caller's own; for operators, with the admin key")
USER = query("user_id", "string", "sees what is this user's too, beside what the tenant shares")
ANY_OBJECT: Json = {"type": "object"}
ADMIN = "needs the admin key, PENTAD_ADMIN_KEY, as a bearer token"
PROBLEMS = {
    400: "cannot be read",
    401: "no valid API key",
    403: "a foreign Host or Origin at the open loopback gateway; a key that this is not for",
    404: "no such thing, or another tenant's",
    409: "the task has ended; the dead letter cannot be redriven so; the message cannot be moved so; its id was "
    "accepted with another text; the model is in use, or the id or name is taken; the session's files are full",
    410: "what is kept of it cannot be read: it is damaged, or of a newer version",
    412: "the file is not the version that `If-Match` names, or is there already",
    413: "a body over 1 MiB, a file over PENTAD_FILE_BYTES",
    415: "a body with a Content-Encoding: send it as it is",
    416: "the file has no such range",
    422: "a wrong value",
    429: "too much work waits; see Retry-After",
    501: "the gateway lacks what this needs: the problem says what to install",
    502: "the model's server has failed, or refuses every request until a person mends it",
    503: "a store is unavailable; see Retry-After. With `in_doubt` what was asked for may have happened all the same; "
    "asked again, it happens once. A message is named by its `message_id`, minted where none was given: send it again "
    "with that id",
    504: "no answer within the caller's time limit",
}
RECEIPT = object_of(session_id=ref("ExternalId"), message_id=ref("ExternalId"))
TURN = object_of(
    session_id=ref("ExternalId"),
    message_id=ref("ExternalId"),
    task_id={"type": ["string", "null"]},
    status={"enum": ["completed", "failed", "cancelled", "waiting", "rejected", "error"]},
    answer={"type": ["string", "null"], "description": "the text of the turn's last message"},
    events={"type": "array", "items": ANY_OBJECT},
)
MOVE = object_of(message_id=ref("ExternalId"), to={"type": "string", "description": "a task's id, or `new`"})
FORK: Json = {
    "type": "object",
    "required": ["step"],
    "additionalProperties": False,
    "properties": {
        "step": {"type": "integer", "minimum": 0, "description": "the last step that the fork shares; 0 for none"},
        "content": {"type": "string", "minLength": 1, "maxLength": MAX_CONTENT, "description": "a new message"},
        "replace": {"type": "boolean", "description": "whether it replaces all that was said after the step's answer"},
        "instruction": {**ref("Id"), "description": "another one from here on"},
        "model": {**ref("Id"), "description": "another one from here on"},
        "message_id": ref("ExternalId"),
    },
}
TURN_LEFT = object_of(role={"enum": ["user", "assistant"]}, content=TEXT, task_id=ref("Id"), at=TEXT)
SESSION = object_of(session_id=ref("ExternalId"), updated_at=TEXT, last=TEXT)
FILE = object_of(
    path=TEXT,
    size={"type": "integer"},
    media_type={"type": "string", "description": "by the ending of its name"},
    modified_at=TEXT,
    etag={"type": "string", "description": "tag of this version, with its quotes"},
)
