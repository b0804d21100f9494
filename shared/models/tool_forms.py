"""Tools in the forms that model servers take: schemas with less in them, shorter descriptions, fewer tools. Pure.

llama.cpp's server makes a grammar of all schemas and refuses a request for one length of 2,000; Google's takes a small
part of JSON Schema, without references, tuples and exclusive bounds; OpenAI's takes descriptions of 1,024 characters.
The worker that runs a tool checks its arguments, so nothing depends on what a schema says to the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from pentad.shared.immutable import immutable
from pentad.shared.models.loose_values import as_dict, as_text

WITHOUT_BOUNDS, CORE, BARE = 1, 2, 3
"""Levels of a loosened schema: without lengths and patterns; the part that every server takes, with references
resolved; only the arguments' names, types and descriptions."""
MAX_DESCRIPTION = 1_024
"""Characters of a tool's description that OpenAI's server takes."""
_BOUND_KEYWORDS = frozenset({"maxItems", "maxLength", "minItems", "minLength", "pattern"})
_SCHEMA_MAPS = frozenset({"$defs", "definitions", "properties"})
"""Keywords whose members are schemas, by names that may be anything."""
_VALUE_KEYWORDS = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas, whatever they look like."""
_REFUSED_SOMEWHERE = (
    "$ref", "allOf", "dependentRequired", "exclusiveMaximum", "exclusiveMinimum", "if", "not", "oneOf",
    "patternProperties", "prefixItems", "propertyNames", "unevaluatedProperties",
)  # fmt: skip
"""Keywords that at least one of the large servers refuses."""
KEYWORDS = re.compile(
    r"\$(?:ref|defs|schema|id)\b|\b(?:additionalProperties|additional_properties|patternProperties|propertyNames"
    r"|unevaluated(?:Properties|Items)|prefixItems|exclusiveM(?:in|ax)imum|exclusive_m(?:in|ax)imum|m(?:in|ax)(?:imum"
    r"|Length|Items|Properties|_length|_items)|multipleOf|uniqueItems|oneOf|anyOf|allOf|any_of|one_of|all_of|const"
    r"|definitions|dependentRequired|dependentSchemas|contentEncoding)\b"
)
"""Words of JSON Schema that stand for nothing else in a server's refusal."""
_MAX_NODES, _MAX_DEPTH = 4_000, 24
"""Number and depth of the parts of a schema whose references are resolved; every part beyond them allows anything."""
_TYPES = ("string", "number", "integer", "boolean", "array", "object")


@immutable
class ToolForm:
    """The form in which tools are sent."""

    level: int = 0
    most_description: int | None = None
    most_tools: int | None = None
    without: frozenset[str] = frozenset()


@lru_cache(maxsize=32)
def formed(tools: bytes, form: ToolForm) -> bytes | None:
    """Return the tools, a JSON array in OpenAI form, in this form; None when none is left."""
    offered = [tool for tool in from_json(tools) if _name(tool) not in form.without][: form.most_tools]
    return to_json([_formed(tool, form) for tool in offered]) if offered else None


@lru_cache(maxsize=32)
def tool_names(tools: bytes) -> tuple[str, ...]:
    """Return the names of tools, in their order."""
    return tuple(map(_name, from_json(tools)))


@lru_cache(maxsize=32)
def unusual_tools(tools: bytes) -> tuple[str, ...]:
    """Return the names of tools with more than the barest form: one of them is refused where the server names none."""
    return tuple(_name(tool) for tool in from_json(tools) if _formed(tool, ToolForm(BARE, MAX_DESCRIPTION)) != tool)


def what_servers_refuse(description: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of a tool that some server is known to refuse."""
    if len(description) > MAX_DESCRIPTION:
        yield f"a description of {len(description):,} characters"
    found = set(_keywords(schema))
    yield from (keyword for keyword in _REFUSED_SOMEWHERE if keyword in found)


def _keywords(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _keywords(each)
    elif isinstance(schema, dict):
        for name, value in schema.items():
            yield name
            if name in _SCHEMA_MAPS and isinstance(value, dict):
                yield from _keywords(list(value.values()))
            elif name not in _VALUE_KEYWORDS:
                yield from _keywords(value)


def _name(tool: Any) -> str:
    return as_text(as_dict(as_dict(tool).get("function")).get("name"))


def _formed(tool: dict[str, Any], form: ToolForm) -> dict[str, Any]:
    function = as_dict(tool.get("function"))
    changed = dict(function)
    if "parameters" in function:
        changed["parameters"] = _loosened(function["parameters"], form.level)
    if form.most_description is not None:
        changed["description"] = _cut(as_text(function.get("description")), form.most_description)
    return tool | {"function": changed}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"


def _loosened(schema: Any, level: int) -> Any:
    if level >= CORE:
        core = _Core(schema).whole()
        return _bare(core) if level >= BARE else core
    return _unbounded(schema) if level == WITHOUT_BOUNDS else schema


def _unbounded(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_unbounded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _part(name, value) for name, value in schema.items() if name not in _BOUND_KEYWORDS}


def _part(name: str, value: Any) -> Any:
    if name in _VALUE_KEYWORDS:
        return value
    if name in _SCHEMA_MAPS and isinstance(value, dict):
        return {each: _unbounded(schema) for each, schema in value.items()}
    return _unbounded(value)


class _Core:
    """The part of one schema that every server takes: types, properties, items, enums of texts, `anyOf`."""

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._nodes = 0

    def whole(self) -> dict[str, Any]:
        core = self._core(self._root, (), 0)
        return core | {"type": "object", "properties": core.get("properties", {})}

    def _core(self, schema: Any, within: tuple[str, ...], depth: int) -> dict[str, Any]:
        self._nodes += 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            beside = {name: value for name, value in schema.items() if name != "$ref"}
            if reference in within:
                return {"type": "object"} | _described(beside)
            found = self._core(self._at(reference), (*within, reference), depth + 1)
            return found | self._core(beside, within, depth + 1)
        merged = schema
        for each in _list(schema.get("allOf")):
            merged = _merged(merged, each if "$ref" not in as_dict(each) else self._core(each, within, depth + 1))
        return self._of_parts(merged, within, depth)

    def _of_parts(self, schema: dict[str, Any], within: tuple[str, ...], depth: int) -> dict[str, Any]:
        core = _described(schema)
        choices = [*_list(schema.get("anyOf")), *_list(schema.get("oneOf"))]
        options = [self._core(each, within, depth + 1) for each in choices if as_dict(each).get("type") != "null"]
        types = [each for each in _types(schema) if each != "null"]
        if len(types) > 1:
            options += [{"type": each} for each in types]
        elif types:
            core["type"] = types[0]
        if len(options) == 1:
            core = options[0] | core
        elif options:
            core["anyOf"] = options
        properties = schema.get("properties")
        if isinstance(properties, dict):
            core["type"] = "object"
            core["properties"] = {str(n): self._core(value, within, depth + 1) for n, value in properties.items()}
            if required := [name for name in _list(schema.get("required")) if name in properties]:
                core["required"] = required
        if core.get("type") == "array":
            core["items"] = self._items(schema, within, depth)
        return _with_values(core, schema)

    def _items(self, schema: dict[str, Any], within: tuple[str, ...], depth: int) -> dict[str, Any]:
        """Return the schema of the items of a list; those of a tuple may be of any of its kinds."""
        items = schema.get("items")
        kinds = _list(schema.get("prefixItems")) or (_list(items) if isinstance(items, list) else [items])
        cores: list[dict[str, Any]] = []
        for each in kinds:
            core = self._core(each, within, depth + 1)
            if core and core not in cores:
                cores.append(core)
        return cores[0] if len(cores) == 1 else {"anyOf": cores} if cores else {"type": "string"}

    def _at(self, reference: str) -> Any:
        """Return the part of the schema to which a reference leads; nothing for a reference that leaves the schema."""
        found = self._root
        if not reference.startswith("#"):
            return {}
        for step in filter(None, reference[1:].split("/")):
            found = as_dict(found).get(step.replace("~1", "/").replace("~0", "~"))
        return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _types(schema: Mapping[str, Any]) -> list[str]:
    given = schema.get("type")
    return [each for each in (given if isinstance(given, list) else [given]) if isinstance(each, str)]


def _described(schema: Mapping[str, Any]) -> dict[str, Any]:
    text = schema.get("description")
    return {"description": text} if isinstance(text, str) and text else {}


def _with_values(core: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part with the values that are allowed: texts as an enum, all others in words."""
    values = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
    values = [value for value in values if value is not None]
    if not values:
        return core
    if all(isinstance(value, str) for value in values):
        return core | {"type": "string", "enum": values}
    said = f"One of {', '.join(to_json(value).decode() for value in values[:50])}."
    return core | {"description": f"{core['description']} {said}" if "description" in core else said}


def _merged(schema: dict[str, Any], more: Any) -> dict[str, Any]:
    more = as_dict(more)
    merged = {name: value for name, value in schema.items() if name != "allOf"} | {
        name: value for name, value in more.items() if name not in schema
    }
    if "properties" in schema and "properties" in more:
        merged["properties"] = {**as_dict(more["properties"]), **as_dict(schema["properties"])}
    if "required" in schema and "required" in more:
        merged["required"] = list(dict.fromkeys(_list(schema["required"]) + _list(more["required"])))
    return merged


def _bare(core: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments alone, each with a plain type."""
    properties = {name: _plain(value) for name, value in as_dict(core.get("properties")).items()}
    required = {"required": core["required"]} if core.get("required") else {}
    return {"type": "object", "properties": properties, **required}


def _plain(core: Mapping[str, Any]) -> dict[str, Any]:
    kind = _plain_type(core)
    items = {"items": {"type": _plain_type(as_dict(core.get("items")))}} if kind == "array" else {}
    return {"type": kind, **items, **_described(core)}


def _plain_type(core: Mapping[str, Any]) -> str:
    kinds: Iterable[Any] = (core.get("type"), *(as_dict(each).get("type") for each in _list(core.get("anyOf"))))
    return next((kind for kind in kinds if kind in _TYPES), "string")
