"""Tools' schemas for servers that make a grammar of them and cannot read every bound in it. Pure.

llama.cpp's server refuses a request for one length of 2,000, or one pattern without `^` and `$`, whatever tool it is
of. The worker that runs a tool checks its arguments, so nothing depends on these bounds being said.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from pydantic_core import from_json, to_json

_NO_GRAMMAR = re.compile(r"failed to parse grammar|JSON schema conversion failed", re.I)
_BOUNDS = frozenset({"maxItems", "maxLength", "minItems", "minLength", "pattern"})
_OF_NAMES = frozenset({"$defs", "definitions", "properties"})
"""Their members are schemas, by names that may be anything."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Not schemas, whatever they look like."""


def made_no_grammar(refusal: str) -> bool:
    """Whether a server's words say that it could not make a grammar of the schemas."""
    return bool(_NO_GRAMMAR.search(refusal))


@lru_cache(maxsize=16)
def loosened(tools: bytes) -> bytes:
    """The tools, as a JSON array in OpenAI form, without lengths and patterns."""
    offered = from_json(tools)
    for tool in offered:
        function = tool["function"]
        function["parameters"] = _loose(function["parameters"])
    return to_json(offered)


def _loose(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_loose(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _part(name, value) for name, value in schema.items() if name not in _BOUNDS}


def _part(name: str, value: Any) -> Any:
    if name in _VALUES:
        return value
    if name in _OF_NAMES and isinstance(value, dict):
        return {each: _loose(schema) for each, schema in value.items()}
    return _loose(value)
