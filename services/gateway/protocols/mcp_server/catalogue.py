"""The tools that the MCP server offers: those that are always there, and one for each instruction and graph. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from pydantic_core import to_json

from pentad.contracts.graphs import GraphSpec, Runnable
from pentad.contracts.tokens import Right
from pentad.services.gateway.domain.additions import KINDS, MAX_TEXT
from pentad.services.gateway.domain.expansion import WINDOW_DEFAULT
from pentad.services.gateway.edge.access import Caller
from pentad.services.gateway.edge.http import WAIT_LIMIT_S
from pentad.shared.immutable import immutable
from pentad.shared.instructions.builtin import ASKED_INSIDE
from pentad.shared.memory.ranking import MOST_FOUND
from pentad.shared.recall.questions import MOST_CHARS
from pentad.shared.segments.expansion import MOST_AROUND

Json = dict[str, Any]
DEFAULT_WAIT_S = 50.0
"""Seconds that a call waits for the end of a turn: most clients give up after 60."""
RUN_PREFIX = "run__"
"""Prefix of the tools that run one instruction or graph each."""
PAGE_TOOLS = 100
"""Tools of one page of the list."""
_MAX_TOOL_NAME = 128
_MAX_SCHEMA = 16_384
"""Bytes of an instruction's or graph's own schema in the list; a larger one is left out."""
_DEFINITIONS = "#/$defs/"

_ID = {"type": "string", "minLength": 1, "maxLength": 128}
_SESSION = _ID | {"description": "conversation; a new one when missing"}
_USER = _ID | {"description": "who speaks; nobody in particular when missing"}
_MESSAGE = _ID | {
    "description": "id of your choice for this request: a call repeated with it is the same run and never a second one"
}
_WAIT = {
    "type": "number",
    "minimum": 0,
    "maximum": WAIT_LIMIT_S,
    "description": f"seconds to wait for the end, {DEFAULT_WAIT_S:g} when missing; after them it goes on, and "
    "`run_state` tells how far it is",
}
_FILES = {
    "type": "array",
    "items": {"type": "string"},
    "description": "paths of files of the session that this is about",
}
_INPUT = {"type": "string", "minLength": 1, "description": "what is asked for, in words"}
_STATE = {"type": "object", "description": "values with which a graph begins"}
_RUN: Json = {
    "input": _INPUT,
    "session_id": _SESSION,
    "user_id": _USER,
    "message_id": _MESSAGE,
    "files": _FILES,
    "wait": _WAIT,
}


@immutable
class OfferedTool:
    """A tool as clients are told of it."""

    name: str
    description: str
    properties: Json
    required: tuple[str, ...]
    rights: tuple[Right | None, ...]
    """Rights that the holder of a token needs; None: the tool is not for tokens."""
    output: Json | None = None
    reads_only: bool = False
    idempotent: bool = False
    definitions: Json | None = None
    """Members of ``$defs`` of the input's schema."""

    @property
    def input_schema(self) -> Json:
        """The JSON schema of the arguments."""
        defined = {"$defs": self.definitions} if self.definitions else {}
        return _object(self.properties, self.required) | {"additionalProperties": False} | defined

    def is_for(self, caller: Caller) -> bool:
        """Return whether a caller may use the tool."""
        return caller.grant is None or all(right is not None and right in caller.grant.may for right in self.rights)


def _object(properties: Json, required: Sequence[str] = ()) -> Json:
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


def _turn_schema(data: Json | None = None) -> Json:
    """Return the schema of a turn. ``data``: schema of the value that a json instruction answers with."""
    text = {"type": "string"}
    statuses = ["accepted", "running", "waiting", "completed", "failed", "cancelled", "rejected", "error"]
    told: Json = {
        "session_id": text,
        "message_id": text,
        "task_id": text,
        "status": {"enum": statuses},
        "reason": text,
        "answer": text | {"description": "the answer, or the question to the person"},
        "usage": _object({}),
        "waiting": {"type": "array", "items": _object({}), "description": "tool calls that a person must decide about"},
    }
    if data is not None:
        told["data"] = data
    return _object(told, ("session_id", "message_id", "status"))


_HITS = _object({"hits": {"type": "array", "items": _object({})}}, ("hits",))
_WHOSE: Json = {
    "user_id": _ID | {"description": "with this user's memories too; shared ones alone when missing"},
    "session_id": _ID | {"description": "with what was said in this session without a user, too"},
}
FIXED_TOOLS: tuple[OfferedTool, ...] = (
    OfferedTool(
        "run",
        "Run an instruction or a graph of Pentad by name, and wait for its answer. What takes longer goes on, and "
        "`run_state` tells how far it is.",
        {"name": _ID | {"description": "instruction or graph"}, **_RUN, "state": _STATE},
        ("name", "input"),
        ("send", "read"),
        _turn_schema({}),
    ),
    OfferedTool(
        "send",
        "Say something to the agent in a session, and wait for its answer. With `task_id` it goes to that task, as an "
        "answer to its question does; else it is routed.",
        {
            "content": {"type": "string", "minLength": 1},
            **{name: _RUN[name] for name in ("session_id", "user_id", "message_id", "files", "wait")},
            "task_id": _ID,
        },
        ("content",),
        ("send", "read"),
        _turn_schema({}),
    ),
    OfferedTool(
        "run_state",
        "Tell how far a run or a message is: its answer, or what it waits for. Waits for the end.",
        {"session_id": _ID, "message_id": _ID, "wait": _WAIT},
        ("session_id", "message_id"),
        ("read",),
        _turn_schema({}),
        reads_only=True,
    ),
    OfferedTool(
        "decide",
        "Allow or refuse a tool call that waits for a person, or give the values that it asks for, as the person has "
        "said. `run_state` tells what comes of it. Never decide for the person.",
        {
            "task_id": _ID,
            "tool_call_id": _ID,
            "approved": {"type": "boolean"},
            "args": _object({}) | {"description": "other arguments for the call, or the values of its form"},
            "reason": {"type": "string", "description": "told to the model with a refusal"},
            "args_digest": {"type": "string", "description": "`args_digest` of the call as the person has seen it"},
        },
        ("task_id", "tool_call_id", "approved"),
        ("approve",),
        idempotent=True,
    ),
    OfferedTool(
        "cancel",
        "Ask a task to stop. What it has done already stays done; `run_state` tells when it has ended.",
        {"task_id": _ID},
        ("task_id",),
        ("send",),
        idempotent=True,
    ),
    OfferedTool(
        "memory_search",
        "Find what was said in finished tasks and what is known, the best first. `anchor` of a hit opens with "
        "`memory_expand`.",
        {
            "query": {"type": "string", "minLength": 1, "maxLength": MOST_CHARS},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "default": 10},
            **_WHOSE,
            "kind": {"enum": ["episodic", "semantic"], "description": "what was said, or what is known; both"},
            "as_of": {"type": "string", "description": "RFC 3339: what was true then; else what still is"},
        },
        ("query",),
        (None,),
        _HITS,
        reads_only=True,
    ),
    OfferedTool(
        "memory_expand",
        "Read the very words that an anchor points at, and what stands before and after them.",
        {
            "anchor": {"type": "string", "minLength": 1},
            "window": {"type": "integer", "minimum": 0, "maximum": MOST_AROUND, "default": WINDOW_DEFAULT},
            **_WHOSE,
        },
        ("anchor",),
        (None,),
        reads_only=True,
    ),
    OfferedTool(
        "memory_note",
        "Keep something worth knowing, as a sentence that can be understood alone. The same words are kept once.",
        {
            "text": {"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
            "user_id": _ID | {"description": "whose it is; shared by all of the tenant when missing"},
            "kind": {"enum": [str(kind) for kind in KINDS], "default": "fact"},
            "importance": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5},
        },
        ("text",),
        (None,),
        idempotent=True,
    ),
)


def tools_page(
    caller: Caller, runnables: Mapping[str, Runnable], after: str | None
) -> tuple[list[OfferedTool], str | None]:
    """Return a page of the tools that a caller may use, and the cursor of the next. ``after``: cursor of this page."""
    offered = [tool_of(each) for each in _runnables_after(runnables, after)]
    own = [tool for tool in FIXED_TOOLS if after is None]
    usable = [tool for tool in (*own, *offered) if tool.is_for(caller)]
    page = usable[:PAGE_TOOLS]
    return page, page[-1].name.removeprefix(RUN_PREFIX) if len(usable) > PAGE_TOOLS else None


def _runnables_after(runnables: Mapping[str, Runnable], after: str | None) -> Iterable[Runnable]:
    """Return the runnables behind a name, at most one more than a page has."""
    names = sorted(name for name in runnables if after is None or name > after)
    shown = (runnables[name] for name in names if len(RUN_PREFIX + name) <= _MAX_TOOL_NAME)
    offered = (each for each in shown if not any(each is inside for inside in ASKED_INSIDE))
    return list(islice(offered, PAGE_TOOLS + 1))


def tool_of(runnable: Runnable) -> OfferedTool:
    """Return the tool that runs an instruction or a graph, with the schemas that it has."""
    is_graph = isinstance(runnable, GraphSpec)
    described = runnable.description or f"Run the {'graph' if is_graph else 'instruction'} {runnable.name} of Pentad."
    given, answered = _schemas_of(runnable)
    properties, definitions = dict(_RUN), None
    if given is not None:
        properties["state"], definitions = given
    output = _turn_schema({})
    if answered is not None:
        data, defined = answered
        output = _turn_schema(data) | ({"$defs": defined} if defined else {})
    return OfferedTool(
        RUN_PREFIX + runnable.name, described, properties, ("input",), ("send", "read"), output, definitions=definitions
    )


def _schemas_of(runnable: Runnable) -> tuple[tuple[Json, Json] | None, tuple[Json, Json] | None]:
    """Return the schemas of a graph's state and of an instruction's answer, each with its definitions."""
    if isinstance(runnable, GraphSpec):
        return (_STATE, {}) if runnable.state_schema is None else _nested(runnable.state_schema, _STATE), None
    return None, None if runnable.output_schema is None else _nested(runnable.output_schema, {})


def _nested(schema: Json, otherwise: Json) -> tuple[Json, Json]:
    """Return a schema as a part of another one, and its definitions, which move to the top; ``otherwise`` for one that
    is too large, or refers to other places in itself."""
    text = to_json(schema)
    refs = list(_refs_in(schema))
    if len(text) > _MAX_SCHEMA or b'"$dynamicRef"' in text or not all(ref.startswith(_DEFINITIONS) for ref in refs):
        return otherwise, {}
    inner = {name: value for name, value in schema.items() if name not in ("$defs", "$schema", "$id")}
    return inner, schema.get("$defs", {})


def _refs_in(part: Any) -> Iterable[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from _refs_in(value)
    elif isinstance(part, list):
        for value in part:
            yield from _refs_in(value)
