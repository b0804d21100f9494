"""Identifiers, shards and times: the words that every stream, key and event is addressed with."""

import re
from datetime import UTC, datetime
from typing import Annotated
from zlib import crc32

from pydantic import AfterValidator, StringConstraints

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._~@-]{0,127}$"
Identifier = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
"""Tenants, users, sessions, tasks and messages: 1 to 128 of ``A-Z a-z 0-9 . _ ~ @ -``, the first a letter or digit."""

DEFAULT_TENANT = "default"

_ID = re.compile(ID_PATTERN)
_OURS = re.compile(r"^(?:task|call)-(\d{1,4})-")


def is_identifier(text: str) -> bool:
    """Whether ``text`` may name a tenant, user, session, task or message."""
    return _ID.fullmatch(text) is not None


def shard_of(tenant_id: str, session_id: str, shards: int) -> int:
    """The shard a session lives in; its tasks, calls and events live there too."""
    return crc32(f"{tenant_id}/{session_id}".encode()) % shards


def task_id(shard: int, unique: str) -> str:
    """A task's id; it says its shard, so that a task can be found without its session."""
    return f"task-{shard}-{unique}"


def tool_call_id(shard: int, unique: str) -> str:
    """A tool call's id. Ours, because models repeat theirs."""
    return f"call-{shard}-{unique}"


def shard_in(identifier: str, shards: int) -> int | None:
    """The shard that a task or tool call id names, or None when it is not one of ours."""
    found = _OURS.match(identifier)
    shard = int(found.group(1)) if found else shards
    return shard if shard < shards else None


def rfc3339(milliseconds: int) -> str:
    """Milliseconds since the epoch as RFC 3339 text in UTC, with milliseconds."""
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{rest:03d}Z"


def milliseconds(text: str) -> int:
    """RFC 3339 text as milliseconds since the epoch.

    Raises ``ValueError`` when the text is not a time or has no time zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: write it as 2030-01-31T12:00:00Z")
    return round(moment.timestamp() * 1000)


def _checked_time(text: str) -> str:
    milliseconds(text)
    return text


Timestamp = Annotated[str, AfterValidator(_checked_time)]
"""A time given by somebody else: RFC 3339 with a zone."""
