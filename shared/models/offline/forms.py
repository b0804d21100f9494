"""Answers of the offline model in the form that is asked for: JSON of a schema, a judgement, tool calls as text."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_SCHEMA = "that fits this JSON schema:\n"
"""Ends the words before the schema in a system prompt."""
_JUDGES = "You watch a conversation"
_CONDITIONS = "hold now?\n"
_TEXT_CALLS = "\nFinal Answer: the answer to the user"
_TOOL = re.compile(r"^- ([A-Za-z0-9_-]{1,64}): .*\n  Action Input: (\{.*\})$", re.MULTILINE)
_OBSERVED = "Observation: "
_decoder = json.JSONDecoder()
_MAX_DEPTH = 8


def form_of(system: str) -> Mapping[str, Any] | None:
    """Return the JSON schema that a system prompt asks the answer to fit; None if it asks for none."""
    _, found, rest = system.partition(_SCHEMA)
    if not found:
        return None
    try:
        schema, _ = _decoder.raw_decode(rest)
    except (ValueError, RecursionError):
        return None
    return schema if isinstance(schema, dict) else None


def judgement_of(system: str, question: str) -> str | None:
    """Return a judgement that no condition holds; None if none is asked about."""
    if not system.startswith(_JUDGES):
        return None
    conditions = question.rpartition(_CONDITIONS)[2].splitlines()
    return json.dumps({"holds": [False] * len(conditions)})


def fitting(schema: Mapping[str, Any], text: str, depth: int = 0) -> Any:
    """Return a small value of this form, with ``text`` in the places of texts."""
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object" if depth < _MAX_DEPTH:
            return dict(_members(schema, text, depth))
        case "array":
            items, least = schema.get("items"), schema.get("minItems", 0)
            each = fitting(items, text, depth + 1) if isinstance(items, dict) else text
            return [each] * min(int(least), 100) if isinstance(least, int) else []
        case "integer" | "number":
            least = schema.get("minimum", 0)
            return least if isinstance(least, int | float) else 0
        case "boolean":
            return True
        case "null":
            return None
    longest = schema.get("maxLength")
    return text[:longest] if isinstance(longest, int) else text


def _members(schema: Mapping[str, Any], text: str, depth: int) -> Iterator[tuple[str, Any]]:
    properties, required = schema.get("properties"), schema.get("required")
    for name in required if isinstance(required, list) else ():
        of = properties.get(name) if isinstance(properties, dict) else None
        yield str(name), fitting(of if isinstance(of, dict) else {}, text, depth + 1)


def tools_in_words(system: str) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the tools that a system prompt tells in words, with their schemas; None if it tells of no such calls."""
    if _TEXT_CALLS not in system:
        return None
    found: dict[str, Mapping[str, Any]] = {}
    for name, parameters in _TOOL.findall(system):
        try:
            found[name] = json.loads(parameters)
        except (ValueError, RecursionError):
            continue
    return found


def observed(text: str) -> str | None:
    """Return the result that a message tells in words; None if it tells none."""
    return text.removeprefix(_OBSERVED) if text.startswith(_OBSERVED) else None
