"""Reading of requests to forget memories, and to undo that. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from pentad.contracts.ids import EXTERNAL_ID_RULE, ID_RULE, is_external_id, is_identifier, milliseconds
from pentad.contracts.memories import MemoryKind
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.graph.knowledge import MemoryNode, NodeKind
from pentad.shared.immutable import immutable
from pentad.shared.segments.anchors import MOST_CHARS

MOST_IDS = 100
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CURSOR = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,99}):(" + _UUID.pattern + r")?")
_CONDITIONS = ("ids", "task_id", "since", "until", "importance_below")
_KINDS = (MemoryKind.EPISODIC, MemoryKind.SEMANTIC)
_STRUCTURE = (NodeKind.ENTITY, NodeKind.TASK)
"""Kinds of nodes that connect others: they are forgotten with their statements, or by their ids."""


@immutable
class ForgetRequest:
    """A request to forget the segments and nodes that meet all conditions. None is no condition."""

    ids: tuple[str, ...] | None = None
    task: str | None = None
    user: str | None = None
    """User to whom the request is limited; None: memories of all owners."""
    since: int | None = None
    """Start of the time range, in milliseconds since the epoch."""
    until: int | None = None
    """End of the time range, exclusive, in milliseconds since the epoch."""
    kind: MemoryKind | None = None
    """Kind of the memories: ``episodic`` or ``semantic``."""
    importance_below: float | None = None
    cursor: tuple[str, str | None] | None = None
    """Position at which to go on: a collection and a point in it, or the graph and a node."""

    def means_importance(self, importance: float) -> bool:
        """Return whether a memory of this importance meets the request; 0, as earlier versions wrote, means unknown."""
        return self.importance_below is None or 0 < importance < self.importance_below


@immutable
class UndoRequest:
    """A request to find memories again that a model had forgotten."""

    anchor: str
    user: str | None = None
    """User to whom the request is limited; None: memories of all owners."""


def read_undo(body: Mapping[str, Any]) -> UndoRequest:
    """Read a client's request to undo a model's forgetting. Raises ``UnreadableError``."""
    if unknown := sorted(body.keys() - {"anchor", "user_id"}):
        raise UnreadableError(f"{unknown[0][:64]!r} is none of: anchor, user_id")
    anchor = body.get("anchor")
    if not isinstance(anchor, str) or not 1 <= len(anchor) <= MOST_CHARS:
        raise UnreadableError("anchor: the one that a model has had forgotten is expected")
    return UndoRequest(anchor, _user(body))


def is_meant(node: MemoryNode, asked: ForgetRequest) -> bool:
    """Return whether a node meets the request. It belongs to a task if all its statements come from that task."""
    learned = (asked.since or 0) <= node.learned_at and (asked.until is None or node.learned_at < asked.until)
    named = node.kind is not NodeKind.TASK if asked.ids is not None else node.kind not in _STRUCTURE
    return (
        named
        and learned
        and (asked.user is None or node.owner.user == asked.user)
        and (asked.task is None or {support.task for support in node.supports} == {asked.task})
        and asked.means_importance(node.importance)
    )


def read_forgetting(body: Mapping[str, Any]) -> ForgetRequest:
    """Read a client's request to forget memories. Raises ``UnreadableError``."""
    if unknown := sorted(body.keys() - {*_CONDITIONS, "user_id", "kind", "cursor"}):
        raise UnreadableError(f"{unknown[0][:64]!r} is no condition: {', '.join(_CONDITIONS)}")
    if not any(body.get(name) is not None for name in _CONDITIONS):
        raise UnreadableError(f"say what is to be forgotten: {', '.join(_CONDITIONS)}")
    return ForgetRequest(
        ids=_ids(body.get("ids")),
        task=_task(body),
        user=_user(body),
        since=_time(body, "since"),
        until=_time(body, "until"),
        kind=_kind(body.get("kind")),
        importance_below=_share(body.get("importance_below")),
        cursor=_cursor(body.get("cursor")),
    )


def _ids(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    whole = isinstance(given, list) and all(isinstance(each, str) and _UUID.fullmatch(each) for each in given)
    if not whole or not 1 <= len(given) <= MOST_IDS:
        raise UnreadableError(f"ids: a list of 1 to {MOST_IDS} ids of memory hits is expected")
    return tuple(given)


def _task(body: Mapping[str, Any]) -> str | None:
    given = body.get("task_id")
    if given is not None and not (isinstance(given, str) and is_identifier(given)):
        raise UnreadableError(f"task_id: {ID_RULE} are expected")
    return given


def _user(body: Mapping[str, Any]) -> str | None:
    given = body.get("user_id")
    if given is not None and not (isinstance(given, str) and is_external_id(given)):
        raise UnreadableError(f"user_id: {EXTERNAL_ID_RULE} are expected")
    return given


def _time(body: Mapping[str, Any], name: str) -> int | None:
    given = body.get(name)
    if given is None:
        return None
    try:
        return max(0, milliseconds(given if isinstance(given, str) else ""))
    except ValueError as error:
        raise UnreadableError(f"{name}: {error}") from None


def _kind(given: Any) -> MemoryKind | None:
    if given is not None and given not in tuple(_KINDS):
        raise UnreadableError(f"kind: one of {', '.join(_KINDS)} is expected")
    return None if given is None else MemoryKind(given)


def _share(given: Any) -> float | None:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if given is not None and not (is_number and 0 < given <= 1):
        raise UnreadableError("importance_below: a number above 0, at most 1, is expected")
    return None if given is None else float(given)


def _cursor(given: Any) -> tuple[str, str | None] | None:
    if given is None:
        return None
    found = _CURSOR.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise UnreadableError("cursor: the `next` of an earlier answer is expected")
    return found[1], found[2]
