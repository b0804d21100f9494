"""Schemas of an OpenAPI document without its references: each is replaced by what it names, within bounds. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from pentad.shared.clipping import plain
from pentad.shared.json_schema import WrongSchema, compile_pattern

MAX_PARTS = 2_000
"""Parts that the schemas of one operation may have once their references are followed."""
MAX_PARTS_OF_ALL = 100_000
"""Parts that the schemas of all operations of one document may have: reading them takes a second then."""
_MAX_DEPTH = 24
_MAX_REFERENCES = 16
"""References of which each names the next."""
_SHOWN = 100
"""Characters of a reference that are repeated."""
_SCHEMAS = frozenset({"items", "not", "additionalProperties"})
_SCHEMAS_BY_NAME = frozenset({"properties", "patternProperties"})
_LISTS_OF_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_VALUES = frozenset(
    "type title description enum const default format required minimum maximum exclusiveMinimum exclusiveMaximum "
    "multipleOf minLength maxLength minItems maxItems uniqueItems minProperties maxProperties".split()
)
"""Keywords that are taken over as they are; others, and extensions, say nothing about arguments."""
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


class UnusableOperationError(Exception):
    """An operation cannot be a tool. The text says why."""


class DocumentReferences:
    """Finds what the references in a document name."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def followed(self, part: Any) -> Any:
        """Return a part, or what its reference names at last. Raises ``UnusableOperationError``."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(part, Mapping) or not isinstance(pointer := part.get("$ref"), str):
                return part
            part = self.found(pointer)
        raise UnusableOperationError(f"it has more than {_MAX_REFERENCES} references of which each names the next")

    def found(self, pointer: str) -> Any:
        """Return what a reference names. Raises ``UnusableOperationError``."""
        found: Any = self._document
        for part in pointer[2:].split("/") if pointer.startswith("#/") else [None]:
            name = None if part is None else unquote(part).replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise UnusableOperationError(f"it refers to {plain(pointer, _SHOWN)}, which is not in the document")
            found = found[name]
        return found


class OperationSchemas:
    """Makes the schemas of one operation. ``room``: parts that are left for it."""

    def __init__(self, references: DocumentReferences, room: int) -> None:
        self._references, self._room = references, min(room, MAX_PARTS)
        self._is_of_all = room < MAX_PARTS
        self.parts = 0
        self._within: list[str] = []
        """References that are being followed."""

    def schema(self, given: Any) -> dict[str, Any]:
        """Return a schema without references. Raises ``UnusableOperationError``."""
        return self._of(given, 0)

    def _of(self, given: Any, depth: int) -> dict[str, Any]:
        self._count(depth)
        if isinstance(given, bool) or given is None:
            return {} if given is not False else {"not": {}}
        if not isinstance(given, Mapping):
            raise UnusableOperationError("one of its schemas is no object")
        pointer = given.get("$ref")
        if not isinstance(pointer, str):
            return self._made(given, depth)
        if pointer in self._within:  # a tree: from here on anything fits
            return {}
        self._within.append(pointer)
        made = self._of(self._references.found(pointer), depth + 1)
        self._within.pop()
        beside = {name: given[name] for name in ("description", "default") if name in given}
        return made | beside

    def _made(self, given: Mapping[str, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {name: given[name] for name in given if name in _VALUES}
        for name in given.keys() & _SCHEMAS:
            made[name] = given[name] if isinstance(given[name], bool) else self._of(given[name], depth + 1)
        for name in given.keys() & _SCHEMAS_BY_NAME:
            if isinstance(given[name], Mapping):
                made[name] = dict(self._properties(given[name], depth))
        for name in given.keys() & _LISTS_OF_SCHEMAS:
            if isinstance(given[name], list) and given[name]:
                made[name] = [self._of(each, depth + 1) for each in given[name]]
        if isinstance(pattern := given.get("pattern"), str) and _is_usable(pattern):
            made["pattern"] = pattern
        if not isinstance(made.get("required", []), list):  # in documents of version 2 it stands at each property
            del made["required"]
        elif "required" in made and "properties" in made:
            made["required"] = [name for name in made["required"] if name in made["properties"]]
        return _in_today_s_words(made, given)

    def _properties(self, given: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
        for name, each in given.items():
            if not (isinstance(each, Mapping) and each.get("readOnly") is True):  # it stands in answers alone
                yield name, self._of(each, depth + 1)

    def _count(self, depth: int) -> None:
        self.parts += 1
        if depth > _MAX_DEPTH:
            raise UnusableOperationError(f"one of its schemas has more than {_MAX_DEPTH} levels")
        if self.parts > self._room:
            if self._is_of_all:
                raise UnusableOperationError("the document is too large: name the operations that are wanted")
            raise UnusableOperationError(f"its schemas have more than {MAX_PARTS} parts with their references followed")


def _in_today_s_words(made: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of version 3.0 as JSON Schema says it since: bounds as numbers, null as a type."""
    for exclusive, bound in _BOUNDS:
        if isinstance(made.get(exclusive), bool) and made.pop(exclusive) and bound in made:
            made[exclusive] = made.pop(bound)
    if given.get("nullable") is True:
        if isinstance(made.get("type"), str):
            made["type"] = [made["type"], "null"]
        if isinstance(made.get("enum"), list) and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
    return made


def _is_usable(pattern: str) -> bool:
    """Return whether a pattern can be checked: look-ahead and references back cannot, and the server checks anyway."""
    try:
        compile_pattern(pattern)
    except WrongSchema:
        return False
    return True
