"""Ids, shards and times: the parts from which the names of streams, keys and events are made."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated
from zlib import crc32

from pydantic import AfterValidator, StringConstraints

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._~@-]{0,127}$"
Identifier = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
"""Id of a tenant, a task, a tool call, or of an operator's making: 1 to 128 of ``A-Z a-z 0-9 . _ ~ @ -``, the first a
letter or digit."""

ID_RULE = "1 to 128 characters of A-Z a-z 0-9 . _ ~ @ -, the first a letter or digit"
EXTERNAL_ID_RULE = "1 to 128 printable characters without spaces and /"
MAX_EXTERNAL_ID = 128
"""Characters that the id of a user, a session or a message may have."""

DEFAULT_TENANT = "default"

_ID = re.compile(ID_PATTERN)
_NAME = re.compile(r"(?:[A-Za-z0-9]|%[0-9A-F]{2})(?:[A-Za-z0-9._~@-]|%[0-9A-F]{2})*")
_MAX_NAME = 12 * MAX_EXTERNAL_ID
"""Characters that an encoded id may have: each character of the id is up to four bytes, each byte three characters."""
_IN_NAMES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~@-")
_ENCODED = re.compile(rb"%([0-9A-F]{2})")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
LAST_MS = 253_402_300_799_999
"""The last time, in milliseconds since the epoch, that can be written as text: the end of the year 9999 in UTC."""
_SHARD_IN_ID = re.compile(r"^(?:task|call)-(\d{1,4})-")


def is_identifier(text: str) -> bool:
    """Return whether ``text`` may be the id of a tenant, a task, a tool call, or of an operator's making."""
    return _ID.fullmatch(text) is not None


def is_external_id(text: str) -> bool:
    """Return whether ``text`` may be the id of a user, a session or a message: such ids come from other systems.

    They are compared character by character and never normalised. Not printable are control characters, separators
    other than the space, format characters (zero width, direction), surrogates, and unassigned characters.
    """
    return 0 < len(text) <= MAX_EXTERNAL_ID and " " not in text and "/" not in text and text.isprintable()


_EXTERNAL = frozenset(("session_id", "message_id", "user_id", "correlation_id", "causation_id"))


def may_be(field: str, text: str) -> bool:
    """Return whether ``text`` may be the id in this field of a message, an event or a command."""
    return is_external_id(text) if field in _EXTERNAL else is_identifier(text)


def rule_of(field: str) -> str:
    """Return the rule that an id in this field must follow, in words."""
    return EXTERNAL_ID_RULE if field in _EXTERNAL else ID_RULE


def _external_id(text: str) -> str:
    if not is_external_id(text):
        raise ValueError(f"an id has {EXTERNAL_ID_RULE}")
    return text


ExternalId = Annotated[str, StringConstraints(min_length=1, max_length=MAX_EXTERNAL_ID), AfterValidator(_external_id)]
"""Id of a user, a session or a message: 1 to 128 printable characters without spaces and ``/``."""


@lru_cache(maxsize=4096)
def encoded_id(identifier: str) -> str:
    """Return an external id as a part of the name of a key or a file: percent-encoded UTF-8 if it is no `Identifier`.

    An id that is an `Identifier` stays as it is. Two ids never have the same name.
    """
    if not identifier or is_identifier(identifier):
        return identifier
    encoded = [chr(byte) if byte in _IN_NAMES else f"%{byte:02X}" for byte in identifier.encode()]
    if not encoded[0][-1].isalnum():  # an `Identifier` begins with a letter or digit
        encoded[0] = f"%{ord(encoded[0]):02X}"
    return "".join(encoded)


@lru_cache(maxsize=4096)
def decoded_id(name: str) -> str:
    """Return the external id that `encoded_id` has encoded as this name. Raises ``ValueError`` for any other name."""
    if _ID.fullmatch(name) is not None:
        return name
    if len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None:
        identifier = _ENCODED.sub(lambda found: bytes([int(found[1], 16)]), name.encode()).decode()
        if is_external_id(identifier) and encoded_id(identifier) == name:
            return identifier
    raise ValueError(f"{name[:300]!r} is no name of an id")


def shard_of(tenant_id: str, session_id: str, shards: int) -> int:
    """Return the shard that holds a session with its tasks, tool calls and events."""
    return crc32(f"{tenant_id}/{session_id}".encode()) % shards


def task_id(shard: int, unique: str) -> str:
    """Return a task's id. It contains the shard, so that a task can be found without its session."""
    return f"task-{shard}-{unique}"


def tool_call_id(shard: int, unique: str) -> str:
    """Return a tool call's id. Pentad makes ids of its own, because models repeat theirs."""
    return f"call-{shard}-{unique}"


def child_task_id(tool_call_id: str) -> str:
    """Return the id of the task that a call starts: it has the shard and the random part of the call's id."""
    return f"task-{tool_call_id.removeprefix('call-')}"


def is_tool_call_id(text: str) -> bool:
    """Return whether a text is an id that `tool_call_id` has made."""
    return text.startswith("call-")


ANY_SHARD = 1 << 30
"""Upper bound for `shard_in` where an id of any shard is accepted: no deployment has so many shards."""


def shard_in(identifier: str, shards: int) -> int | None:
    """Return the shard in the id of a task or tool call; None for an id that Pentad has not made."""
    found = _SHARD_IN_ID.match(identifier)
    shard = int(found.group(1)) if found else shards
    return shard if shard < shards else None


def rfc3339(milliseconds: int) -> str:
    """Return milliseconds since the epoch as RFC 3339 text in UTC, with milliseconds."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    """Return a time in seconds as text; cached, because most times that are written lie in the current second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def milliseconds(text: str) -> int:
    """Return RFC 3339 text as milliseconds since the epoch; finer digits are cut off.

    As RFC 3339 allows, ``t`` and ``z`` may be lower case and a space may stand for the ``T``. Raises ``ValueError`` for
    every other form of ISO 8601, for a leap second, and for a time after the year 9999 in UTC.
    """
    if _RFC3339.fullmatch(text) is None:
        missing = "has no time zone" if _RFC3339.fullmatch(text + "Z") else "is not a time of RFC 3339"
        raise ValueError(f"it {missing}: write it as 2030-01-31T12:00:00Z")
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise ValueError(f"there is no such time ({error}): write it as 2030-01-31T12:00:00Z") from None
    ms = (moment - _EPOCH) // _MILLISECOND
    if ms > LAST_MS:
        raise ValueError("in UTC it lies after the year 9999")
    return ms


def _checked_time(text: str) -> str:
    milliseconds(text)
    return text


Timestamp = Annotated[str, AfterValidator(_checked_time)]
"""Time that comes from outside, in the form that `milliseconds` reads."""
