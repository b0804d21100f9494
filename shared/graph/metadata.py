"""Metadata that clients store with a node or an edge: any JSON object within bounds, stored as text. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pentad.shared.errors import DamagedError, MemoryRefusedError
from pentad.shared.graph.knowledge import Metadata

MOST_BYTES = 4096
"""Bytes of its JSON, written without spaces, in UTF-8."""
MOST_DEPTH = 8
"""Levels of nested objects and lists, the outermost included."""
MOST_KEYS = 64
"""Number of keys of all its objects together."""


def metadata_text(given: Any) -> str:
    """Return the object as JSON in its normal form. Raises ``MemoryRefusedError`` for other values, and beyond the
    bounds."""
    if not isinstance(given, dict):
        raise MemoryRefusedError("a JSON object is expected")
    keys = 0
    for depth, value in _objects(given):
        if depth > MOST_DEPTH:
            raise MemoryRefusedError(f"objects and lists are at most {MOST_DEPTH} deep")
        keys += len(value) if isinstance(value, dict) else 0
    if keys > MOST_KEYS:
        raise MemoryRefusedError(f"{keys} keys: {MOST_KEYS} at most, of all objects in it together")
    try:
        text = json.dumps(given, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except (ValueError, TypeError) as error:
        raise MemoryRefusedError(f"it cannot be written as JSON in UTF-8: {error}") from None
    if size > MOST_BYTES:
        raise MemoryRefusedError(f"{size} bytes of JSON: {MOST_BYTES} at most")
    return text


def metadata_told(kept: Metadata | None) -> dict[str, Any]:
    """Return the object that is stored, empty where there is none. Raises ``DamagedError``."""
    return {} if kept is None else metadata_read(kept.json)


def metadata_read(text: str) -> dict[str, Any]:
    """Return the object that a stored text says. Raises ``DamagedError`` for a text that Pentad did not write."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DamagedError("what is kept as metadata is no JSON object")
    return found


def check_metadata(kept: Metadata) -> None:
    """Check metadata. Raises ``MemoryRefusedError``."""
    try:
        found = metadata_read(kept.json)
    except DamagedError as error:
        raise MemoryRefusedError(str(error)) from None
    if metadata_text(found) != kept.json:
        raise MemoryRefusedError("metadata is not in the one form in which it is kept")


def _objects(value: Any, depth: int = 1) -> Iterator[tuple[int, dict[str, Any] | list[Any]]]:
    """Yield all objects and lists with their depths; none below the first that is too deep."""
    if not isinstance(value, dict | list):
        return
    yield depth, value
    if depth > MOST_DEPTH:
        return
    for each in value.values() if isinstance(value, Mapping) else value:
        yield from _objects(each, depth + 1)
