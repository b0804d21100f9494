"""Which of a server's tools are offered, under which names, and why others are left out. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from pentad.contracts.tool_servers import MAX_LEFT_OUT, LeftOutTool, ToolServer
from pentad.contracts.tools import RESERVED_NAMES, TIMEOUT_S, Effect, ToolSpec
from pentad.shared.clipping import plain
from pentad.shared.immutable import immutable
from pentad.shared.plugins.explicit_schema import MAX_SCHEMA_BYTES
from pentad.shared.plugins.results import clean
from pentad.shared.tool_servers.server_names import tool_name

MAX_TOOLS = 256
"""Tools of one server that are offered: each costs every prompt, and every worker's reading of the registry."""
MAX_LIST_BYTES = 1 << 20
"""Bytes that the schemas and descriptions of one server's tools may have together."""
MAX_DESCRIPTION = 4_096
"""Characters of a tool's description that are kept."""
_MAX_NAME = 256
"""Characters that a server's own name of a tool may have."""
_MAX_EXPANDED = 5_000
"""Parts that a schema may have when each reference is replaced by what it names; one to itself counts as one part."""
_MAX_DEPTH = 48
_MAX_SHOWN = 100
"""Characters of a tool's name that a report repeats."""


@immutable
class ListedTool:
    """A tool as its server lists it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool = False
    idempotent: bool = False


@immutable
class OfferedTools:
    """The tools of one server that are offered."""

    specs: Mapping[str, ToolSpec]
    """Tools by the names under which they are offered."""
    own_names: Mapping[str, str]
    """Names that the server has for them."""
    left_out: tuple[LeftOutTool, ...] = ()
    left_out_count: int = 0


NO_TOOLS = OfferedTools({}, {})


def offered_tools(server: ToolServer, listed: Sequence[ListedTool], *, cut: bool = False) -> OfferedTools:
    """Return the tools of a list that are offered. ``cut``: the server has more than were read."""
    specs, own_names, left_out = dict[str, ToolSpec](), dict[str, str](), list[LeftOutTool]()
    if cut:
        left_out.append(LeftOutTool(tool="...", why="the server lists more tools than are read"))
    room = MAX_LIST_BYTES
    for tool in sorted(listed, key=lambda each: each.name):
        if (server.only is not None and tool.name not in server.only) or tool.name in server.without:
            continue
        name = tool_name(server.name, tool.name)
        why = _why_not(tool, name, own_names)
        size = 0
        if why is None:
            size = len(to_json(tool.schema)) + len(tool.description[:MAX_DESCRIPTION])
            if len(specs) >= MAX_TOOLS:
                why = f"the server has more than {MAX_TOOLS} tools: name those that are wanted in includeTools"
            elif size > room:
                why = f"the tools before it have {MAX_LIST_BYTES} bytes of schemas and descriptions already"
        if why is not None:
            left_out.append(LeftOutTool(tool=plain(tool.name, _MAX_SHOWN), why=why))
            continue
        room -= size
        own_names[name] = tool.name
        specs[name] = _spec(server, name, tool)
    return OfferedTools(specs, own_names, tuple(left_out[:MAX_LEFT_OUT]), len(left_out))


def sign_in_name(server: ToolServer) -> str:
    """Return the name of the tool that asks a person to sign in to a server."""
    return tool_name(server.name, "sign_in")


def with_sign_in(server: ToolServer, offered: OfferedTools) -> OfferedTools:
    """Return the tools with one more, which asks a person to sign in; one of the server's own with its name is kept."""
    name = sign_in_name(server)
    if name in offered.specs:
        return offered
    description = f"Ask the person to sign in to {plain(server.name, _MAX_SHOWN)}; its tools are known and usable then."
    spec = ToolSpec(name=name, description=description, effect=Effect.IDEMPOTENT, timeout=server.timeout or TIMEOUT_S)
    return replace(offered, specs={**offered.specs, name: spec})


def _why_not(tool: ListedTool, name: str, taken: Mapping[str, str]) -> str | None:
    """Return why a tool cannot be offered under a name; None when it can."""
    if not 0 < len(tool.name) <= _MAX_NAME:
        return f"its name has {len(tool.name)} characters: 1 to {_MAX_NAME}"
    if name in RESERVED_NAMES:
        return f"the name {name} is Pentad's own"
    if name in taken:
        return f"another tool of this server has the name {name}: {plain(taken[name], _MAX_SHOWN)}"
    if tool.schema.get("type") != "object":
        return 'its schema is not of "type": "object"'
    if not isinstance(tool.schema.get("properties", {}), Mapping):
        return '"properties" of its schema is no object'
    if (size := len(to_json(tool.schema))) > MAX_SCHEMA_BYTES:
        return f"its schema has {size} bytes: at most {MAX_SCHEMA_BYTES}"
    return _ReferenceCount(tool.schema).problem()


def _spec(server: ToolServer, name: str, tool: ListedTool) -> ToolSpec:
    effect = Effect.PURE if tool.read_only else Effect.IDEMPOTENT if tool.idempotent else Effect.UNSAFE
    return ToolSpec(
        name=name,
        description=clean(tool.description[:MAX_DESCRIPTION]),
        parameters={"properties": {}, **tool.schema},
        effect=effect,
        timeout=server.timeout or TIMEOUT_S,
        secrets=server.secrets,
        concurrency=server.concurrency,
        rate=server.rate,
        limited_as=f"@{server.name}",
    )


class _TooLargeError(Exception):
    """A schema cannot be offered. The text says why."""


class _ReferenceCount:
    """Counts the parts of a schema with its references followed: small schemas can stand for endless ones."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._known: dict[str, int] = {}

    def problem(self) -> str | None:
        """Return what is wrong with the references; None for a schema that may be offered."""
        try:
            self._of(self._schema, 0)
        except _TooLargeError as error:
            return str(error)
        return None

    def _of(self, part: Any, depth: int) -> int:
        if depth > _MAX_DEPTH:
            raise _TooLargeError(f"its schema has more than {_MAX_DEPTH} levels")
        total = 1
        if isinstance(part, Mapping):
            if isinstance(pointer := part.get("$ref"), str):
                total += self._of_reference(pointer, depth)
            inner = [value for name, value in part.items() if name not in ("$defs", "definitions")]
        elif isinstance(part, list):
            inner = part
        else:
            return total
        for each in inner:
            total += self._of(each, depth + 1)
            if total > _MAX_EXPANDED:
                raise _TooLargeError(f"its schema has more than {_MAX_EXPANDED} parts when its references are followed")
        return total

    def _of_reference(self, pointer: str, depth: int) -> int:
        if pointer not in self._known:
            self._known[pointer] = 1  # what a part that refers to itself finds
            self._known[pointer] = self._of(self._found(pointer), depth + 1)
        return self._known[pointer]

    def _found(self, pointer: str) -> Any:
        if pointer == "#":
            return self._schema
        found: Any = self._schema
        for name in pointer[2:].split("/") if pointer.startswith("#/") else [""]:
            key = name.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and len(key) < 5 and int(key) < len(found):
                found = found[int(key)]
            else:
                raise _TooLargeError(f"its schema refers to {plain(pointer, _MAX_SHOWN)}, which is not in it")
        return found
