"""Tools that a model is offered by name alone, because their schemas cost too much, and how it finds them. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from pentad.contracts.tools import MEMORY_EXPAND, RESULT_READ, SERVER_SEPARATOR, TOOL_SEARCH, Effect, ToolSpec
from pentad.services.task_runner.domain.own_tools import OWN
from pentad.shared.recall.terms import terms_of

QUERY, SERVER = "query", "server"
_MOST_FOUND, _MOST_QUERY, _MOST_LISTED = 8, 1_000, 6_000
"""Tools that one search finds, characters of a query, and characters of the names that the tool itself lists."""
_NAME_WEIGHT = 3
"""Weight of a word in a tool's name; one in its description has 1."""
_SHOWN_TOOLS = frozenset({*OWN, RESULT_READ, MEMORY_EXPAND})
"""Tools that are always shown with their schemas."""


def servers_of(specs: Iterable[str]) -> list[str]:
    """Return the servers that tools of these names have, by name: what is before ``__`` in a name."""
    return sorted({server for server in map(_server_of, specs) if server})


def _server_of(name: str) -> str:
    """Return the server of a tool; '' for a tool of none."""
    server, separator, own = name.partition(SERVER_SEPARATOR)
    return server if separator and own else ""


def search_tool(specs: Mapping[str, ToolSpec]) -> ToolSpec:
    """Return the tool that finds these tools; it lists their names, those of a server together."""
    names = sorted((name for name in specs if name not in _SHOWN_TOOLS), key=_server_of)
    listed, size = list[str](), 0
    for name in names:
        size += len(name) + 2
        if size > _MOST_LISTED:
            break
        listed.append(name)
    more = f" and {len(names) - len(listed):,} more" if len(listed) < len(names) else ""
    groups = "; ".join(
        (f"of the server {server}: " if server else "") + ", ".join(group)
        for server, group in groupby(listed, key=_server_of)
    )
    meaning = "Words about what the tool is to do, or names of tools"
    about = (
        "Finds tools: what they do and which arguments they take. You can call them from your next answer on. Tools: "
    )
    properties: dict[str, Any] = {
        QUERY: {"type": "string", "minLength": 1, "maxLength": _MOST_QUERY, "description": meaning}
    }
    if servers := servers_of(names):
        properties[SERVER] = {"type": "string", "enum": servers, "description": "Only tools of this server"}
    parameters = {"type": "object", "properties": properties, "required": [QUERY], "additionalProperties": False}
    description = f"{about}{groups}{more}."
    return ToolSpec(name=TOOL_SEARCH, description=description, parameters=parameters, effect=Effect.PURE)


def shown_tools(
    specs: Mapping[str, ToolSpec], found: Sequence[str], fits: Callable[[Collection[ToolSpec]], bool]
) -> dict[str, ToolSpec]:
    """Return the tools that are shown with their schemas: those that always are, and of the ``found`` as many as
    ``fits`` allows, the newest first. One at least is shown.
    """
    shown = {TOOL_SEARCH: search_tool(specs), **{name: spec for name, spec in specs.items() if name in _SHOWN_TOOLS}}
    newest = [specs[name] for name in reversed(found) if name in specs and name not in _SHOWN_TOOLS]
    taken: list[ToolSpec] = []
    for spec in newest:
        if taken and not fits([*shown.values(), *taken, spec]):
            break
        taken.append(spec)
    return shown | {spec.name: spec for spec in reversed(taken)}


def found_by(query: str, specs: Mapping[str, ToolSpec], server: str | None = None) -> list[ToolSpec]:
    """Return the tools that a query names or describes, the best first. ``server``: only tools of this one; where the
    query fits none of them, all of them count.
    """
    if server is not None:
        own = {name: spec for name, spec in specs.items() if _server_of(name) == server}
        return found_by(query, own) or [own[name] for name in sorted(own)[:_MOST_FOUND]]
    wanted, named = set(terms_of(query)), set(query.replace(",", " ").split())
    scores: dict[str, float] = {}
    for name, spec in specs.items():
        if name in _SHOWN_TOOLS or name == TOOL_SEARCH:
            continue
        of_name, of_words = set(terms_of(name.replace("_", " ").replace("-", " "))), set(terms_of(spec.description))
        score = _NAME_WEIGHT * len(wanted & of_name) + len(wanted & of_words)
        if name in named:
            score += _NAME_WEIGHT * (len(wanted) + 1)
        if score:
            scores[name] = score
    best = sorted(scores, key=lambda name: (-scores[name], name))[:_MOST_FOUND]
    return [specs[name] for name in best]


def search(args: Mapping[str, Any], specs: Mapping[str, ToolSpec]) -> list[ToolSpec]:
    """Return what a call of the search finds. Raises ``ValueError`` with what is wrong with its arguments."""
    query, server = args.get(QUERY), args.get(SERVER)
    if not isinstance(query, str) or not query.strip():
        raise ValueError(f"the argument {QUERY!r} must be a text that says something")
    if server is not None and server not in (servers := servers_of(specs)):
        raise ValueError(f"there is no server {server!r}; the servers are: {', '.join(servers) or 'none'}")
    return found_by(query[:_MOST_QUERY], specs, server)


def search_result(found: Sequence[ToolSpec]) -> str:
    """Return the result of a search, as the model is told it."""
    if not found:
        return "No tool was found: try other words, or a name from the list."
    told = "\n".join(f"- {spec.name}: {' '.join(spec.description.split())}" for spec in found)
    return f"You can call these from now on:\n{told}"


def remembered(before: str, found: Sequence[ToolSpec], most: int = 64) -> str:
    """Return the names that a task keeps as found, the newest last."""
    names = [spec.name for spec in reversed(found)]
    kept = [name for name in before.split() if name not in names]
    return " ".join([*kept, *names][-most:])
