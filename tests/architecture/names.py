"""Law 11: streams, groups, event types and error codes are each spelled once."""

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pentad.contracts.errors import ErrorCode
from pentad.contracts.streams import STREAMS
from tests.architecture.rules import Rule
from tests.architecture.source import Module

KEYS = frozenset({"contracts/streams.py", "shared/keys.py"})
GROUPS = frozenset(stream.group for stream in STREAMS.values() if stream.group)
ROOMS = ("actors", "inbound", "store", "work")
CODES = frozenset(code.value for code in ErrorCode if "_" in code)
"""Of codes and types those that are no plain word: ``busy`` and ``message`` mean other things too."""
LUA_TYPES = frozenset({"shared/store/scripts/_lib.lua"})
"""The one script that writes an event by itself."""


def _types() -> Iterator[str]:
    for stream in STREAMS.values():
        for contract in stream.carries:
            field = contract.model_fields.get("type")
            values: tuple[Any, ...] = (
                get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()
            )
            yield from (value for value in values if "_" in value)


TYPES = frozenset(_types())


def keys_are_spelled_in_the_registry(module: Module) -> Iterator[str]:
    """Who writes and who reads a key cannot differ about its name."""
    if module.path not in KEYS:
        yield from (module.at(node, f"spells a key: {word!r}") for node, word in module.words() if "pentad:" in word)


def groups_are_spelled_in_the_registry(module: Module) -> Iterator[str]:
    """A group is named after its service; a composition root may name its service, nobody else names a group."""
    at_the_bus = module.path.startswith((*(f"shared/{room}/" for room in ROOMS), "services/"))
    if at_the_bus and not module.path.endswith(("/app.py", "/__main__.py")):
        yield from (module.at(node, f"spells a group: {word!r}") for node, word in module.words() if word in GROUPS)


def event_types_are_spelled_in_contracts(module: Module) -> Iterator[str]:
    """Code asks for the class."""
    if not module.path.startswith("contracts/"):
        yield from (module.at(node, f"spells a type: {word!r}") for node, word in module.words() if word in TYPES)


def error_codes_are_spelled_in_contracts(module: Module) -> Iterator[str]:
    """Code asks for the member of ``ErrorCode``."""
    if module.path != "contracts/errors.py":
        yield from (module.at(node, f"spells a code: {word!r}") for node, word in module.words() if word in CODES)


def script_breaches(scripts: dict[str, str]) -> list[str]:
    """Scripts are given their keys and what they write; comments may say what they mean."""
    spelled = re.compile("pentad:|" + "|".join(sorted(CODES)))
    types = re.compile(rf"\b({'|'.join(sorted(TYPES))})\b")
    found = []
    for path, text in scripts.items():
        for number, line in enumerate(text.splitlines(), start=1):
            hits = spelled.findall(line) + ([] if path in LUA_TYPES else types.findall(line))
            found += [f"{path}:{number}: spells {hit!r}" for hit in hits]
    return found


NAME_RULES: tuple[Rule, ...] = (
    keys_are_spelled_in_the_registry,
    groups_are_spelled_in_the_registry,
    event_types_are_spelled_in_contracts,
    error_codes_are_spelled_in_contracts,
)
