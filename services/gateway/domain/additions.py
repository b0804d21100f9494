"""Reading of requests to add a node or an edge to the graph by hand. Pure."""

from collections.abc import Mapping
from typing import Any

from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id, is_identifier, milliseconds
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.knowledge import EdgeType, NodeKind
from pentad.shared.graph.metadata import metadata_text
from pentad.shared.immutable import immutable

MAX_TEXT = 2_000
"""Characters that the text of a node or edge may have."""
KINDS = tuple(kind for kind in NodeKind if kind not in (NodeKind.ENTITY, NodeKind.TASK))
"""Kinds of nodes that a person may add; the others come from tasks only."""
_NODE_FIELDS = ("kind", "text", "user_id", "importance", "true_from", "true_until", "metadata")
_EDGE_FIELDS = ("source", "target", "type", "weight", "text", "user_id", "metadata")
_DEFAULT_SHARE = 0.5
"""Default of importance and weight."""


@immutable
class NodeAddition:
    """A request to add a node: something that a person knows."""

    kind: NodeKind
    text: str
    user: str | None
    importance: float
    true_from: int | None
    true_until: int | None
    metadata: str | None
    """Metadata as JSON in its stored form; None: the present metadata stays."""


@immutable
class EdgeAddition:
    """A request to add an edge: how two nodes belong together."""

    source: str
    target: str
    type: EdgeType
    weight: float
    text: str | None
    """Reason for the edge; None if none is given."""
    user: str | None
    metadata: str | None
    """Metadata as JSON in its stored form; None: the present metadata stays."""


def read_node(body: Mapping[str, Any]) -> NodeAddition:
    """Read a client's request to add a node. Raises ``UnreadableError``."""
    _check(body, _NODE_FIELDS)
    kind = body.get("kind")
    if kind not in KINDS:
        raise UnreadableError(f"kind: one of {', '.join(KINDS)} is expected")
    begin, end = _time(body, "true_from"), _time(body, "true_until")
    if begin is not None and end is not None and end < begin:
        raise UnreadableError("true_until: a time after true_from is expected")
    importance = _share(body, "importance")
    text, user = _text(body, "text"), _user(body)
    return NodeAddition(NodeKind(kind), text, user, importance, begin, end, _metadata(body))


def read_edge(body: Mapping[str, Any]) -> EdgeAddition:
    """Read a client's request to add an edge. Raises ``UnreadableError``."""
    _check(body, _EDGE_FIELDS)
    source, target = _node(body, "source"), _node(body, "target")
    if source == target:
        raise UnreadableError("target: another node than the source is expected")
    kind = body.get("type")
    if kind not in tuple(EdgeType):
        raise UnreadableError(f"type: one of {', '.join(EdgeType)} is expected")
    text = None if body.get("text") is None else _text(body, "text")
    return EdgeAddition(source, target, EdgeType(kind), _share(body, "weight"), text, _user(body), _metadata(body))


def _check(body: Mapping[str, Any], fields: tuple[str, ...]) -> None:
    """Refuse unknown fields: a misspelt ``user_id`` would share a user's knowledge with the whole tenant."""
    if unknown := sorted(body.keys() - set(fields)):
        raise UnreadableError(f"{unknown[0][:64]!r} is none of {', '.join(fields)}")


def _text(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name)
    if not isinstance(text, str) or len(text) > MAX_TEXT or not any(map(str.isalnum, text)):
        raise UnreadableError(f"{name}: 1 to {MAX_TEXT} characters with a letter or digit are expected")
    return text


def _node(body: Mapping[str, Any], name: str) -> str:
    given = body.get(name)
    if not isinstance(given, str) or not is_identifier(given):
        raise UnreadableError(f"{name}: the `id` of a node is expected")
    return given


def _metadata(body: Mapping[str, Any]) -> str | None:
    given = body.get("metadata")
    try:
        return None if given is None else metadata_text(given)
    except MemoryRefusedError as error:
        raise UnreadableError(f"metadata: {error}") from None


def _user(body: Mapping[str, Any]) -> str | None:
    user = body.get("user_id")
    if user is not None and (not isinstance(user, str) or not is_external_id(user)):
        raise UnreadableError(f"user_id: an id of {EXTERNAL_ID_RULE} is expected")
    return user


def _share(body: Mapping[str, Any], name: str) -> float:
    number = body.get(name, _DEFAULT_SHARE)
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number <= 1:
        raise UnreadableError(f"{name}: a number from 0 to 1 is expected")
    return float(number)


def _time(body: Mapping[str, Any], name: str) -> int | None:
    text = body.get(name)
    try:
        moment = None if text is None else milliseconds(text)
    except (ValueError, TypeError, AttributeError):
        moment = -1
    if moment is not None and moment < 0:
        raise UnreadableError(f"{name}: a time of RFC 3339 since 1970 is expected")
    return moment
