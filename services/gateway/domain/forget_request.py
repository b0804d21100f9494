"""What a client wants forgotten. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from pentad.contracts.ids import is_identifier, milliseconds
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.immutable import immutable

MOST_IDS = 100
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CURSOR = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,99}):(" + _UUID.pattern + r")?")
_CONDITIONS = ("ids", "task_id", "since", "until")


@immutable
class ForgetRequest:
    """Segments that meet all of these; None: whatever it is."""

    ids: tuple[str, ...] | None = None
    task: str | None = None
    user: str | None = None
    """Of this user alone."""
    since: int | None = None
    """The first ms that is meant."""
    until: int | None = None
    """The first ms that is not meant any more."""
    cursor: tuple[str, str | None] | None = None
    """Where to go on: a collection, and a point in it."""


def read_forgetting(body: Mapping[str, Any]) -> ForgetRequest:
    """As a client writes it. Raises ``UnreadableError``."""
    if unknown := sorted(body.keys() - {*_CONDITIONS, "user_id", "cursor"}):
        raise UnreadableError(f"{unknown[0][:64]!r} is no condition: {', '.join(_CONDITIONS)}")
    if not any(body.get(name) is not None for name in _CONDITIONS):
        raise UnreadableError(f"say what is to be forgotten: {', '.join(_CONDITIONS)}")
    return ForgetRequest(
        ids=_ids(body.get("ids")),
        task=_identifier(body, "task_id"),
        user=_identifier(body, "user_id"),
        since=_time(body, "since"),
        until=_time(body, "until"),
        cursor=_cursor(body.get("cursor")),
    )


def _ids(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    whole = isinstance(given, list) and all(isinstance(each, str) and _UUID.fullmatch(each) for each in given)
    if not whole or not 1 <= len(given) <= MOST_IDS:
        raise UnreadableError(f"ids: a list of 1 to {MOST_IDS} ids of memory hits is expected")
    return tuple(given)


def _identifier(body: Mapping[str, Any], name: str) -> str | None:
    given = body.get(name)
    if given is not None and not (isinstance(given, str) and is_identifier(given)):
        raise UnreadableError(f"{name}: 1 to 128 characters of A-Z a-z 0-9 . _ ~ @ - are expected")
    return given


def _time(body: Mapping[str, Any], name: str) -> int | None:
    given = body.get(name)
    if given is None:
        return None
    try:
        return max(0, milliseconds(given if isinstance(given, str) else ""))
    except ValueError as error:
        raise UnreadableError(f"{name}: {error}") from None


def _cursor(given: Any) -> tuple[str, str | None] | None:
    if given is None:
        return None
    found = _CURSOR.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise UnreadableError("cursor: the `next` of an earlier answer is expected")
    return found[1], found[2]
