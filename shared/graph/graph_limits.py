"""The bounds of the stores of the graph: what makes a node, an edge or a question unusable. Pure."""

from collections.abc import Sequence

from pentad.contracts.ids import LAST_MS, is_external_id, is_identifier
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, Support
from pentad.shared.graph.metadata import check_metadata
from pentad.shared.owners import is_holder

MOST_WRITTEN = 1000
"""Nodes or edges of one call."""
MOST_ASKED = 5000
"""Ids of one question."""
MOST_FOUND = 50_000
"""Links of one answer; nodes and edges of a page."""
MOST_SUPPORTS = 1000
"""Supports of one node or edge in one call."""
_MOST_TEXT = 1 << 15
"""Bytes of a node's text."""
_MOST_ID = 128
_MOST_ANCHOR = 512


def check_nodes(nodes: Sequence[MemoryNode]) -> None:
    """Check nodes that are written together."""
    _check_number(len(nodes), "nodes")
    for node in nodes:
        check_ids((node.id,) if node.merged_into is None else (node.id, node.merged_into))
        where = f"node {node.id}"
        if not node.text.strip() or _size(node.text, where) > _MOST_TEXT:
            raise MemoryRefusedError(f"{where} has no text, or one of more than {_MOST_TEXT} bytes: shorten it")
        _check_share(node.importance, where)
        _check_metadata(node, where)
        _check_times(node, where)
        _check_supports(node.supports, where)


def check_edges(edges: Sequence[MemoryEdge]) -> None:
    """Check edges that are written together."""
    _check_number(len(edges), "edges")
    for edge in edges:
        check_ids((edge.source, edge.target))
        where = f"the edge from {edge.source} to {edge.target}"
        if edge.source == edge.target:
            raise MemoryRefusedError(f"{where} leads nowhere")
        _check_share(edge.weight, where)
        _check_metadata(edge, where)
        _check_times(edge, where)
        _check_supports(edge.supports, where)


def check_ids(ids: Sequence[str]) -> None:
    """Check ids of nodes that are asked for together."""
    if len(ids) > MOST_ASKED:
        raise MemoryRefusedError(f"{len(ids)} nodes asked for: {MOST_ASKED} at most, and the others after them")
    for identifier in ids:
        _check_word(identifier, _MOST_ID)


def check_anchors(anchors: Sequence[str]) -> None:
    """Check the statements of a task that are named."""
    if len(anchors) > MOST_ASKED:
        raise MemoryRefusedError(f"{len(anchors)} statements of a task: {MOST_ASKED} at most")
    for anchor in anchors:
        _check_word(anchor, _MOST_ANCHOR)


def check_found(limit: int) -> None:
    """Check the number of results that are asked for."""
    if not 1 <= limit <= MOST_FOUND:
        raise MemoryRefusedError(f"{limit} asked for: 1 to {MOST_FOUND}")


def check_links(ids: Sequence[str], limit: int, as_of: int | None) -> None:
    """Check a question for the edges of nodes, up to a number, as of a time."""
    check_ids(ids)
    check_found(limit)
    check_time(as_of or 0)


def check_time(moment: int) -> None:
    """Check a time in milliseconds since the epoch."""
    if not 0 <= moment <= LAST_MS:
        raise MemoryRefusedError(f"{moment} is no time in milliseconds since the epoch")


def check_identifier(name: str) -> None:
    """Check the name of a tenant or a task."""
    if not is_identifier(name):
        raise MemoryRefusedError(f"{name[:64]!r} is no identifier of a tenant or task")


def check_user(name: str) -> None:
    """Check the id of an end user."""
    if not is_external_id(name):
        raise MemoryRefusedError(f"{name[:64]!r} is no identifier of a user")


def _check_number(number: int, what: str) -> None:
    if number > MOST_WRITTEN:
        raise MemoryRefusedError(f"{number} {what} at once: write {MOST_WRITTEN} at most, the others after them")


def _check_share(number: float, where: str) -> None:
    if not 0 <= number <= 1:
        raise MemoryRefusedError(f"{where}: weight and importance are 0 to 1")


def _check_metadata(it: MemoryNode | MemoryEdge, where: str) -> None:
    if it.metadata is None:
        return
    check_time(it.metadata.at)
    try:
        check_metadata(it.metadata)
    except MemoryRefusedError as error:
        raise MemoryRefusedError(f"{where}: metadata: {error}") from None


def _check_times(it: MemoryNode | MemoryEdge, where: str) -> None:
    for moment in (it.learned_at, it.true_from or 0, it.true_until or 0):
        check_time(moment)
    if it.true_from is not None and it.true_until is not None and it.true_until < it.true_from:
        raise MemoryRefusedError(f"{where} would end before it begins")


def _check_supports(supports: Sequence[Support], where: str) -> None:
    if not 1 <= len(supports) <= MOST_SUPPORTS:
        raise MemoryRefusedError(f"{where} rests on {len(supports)} statements: 1 to {MOST_SUPPORTS} at once")
    for support in supports:
        _check_word(support.anchor, _MOST_ANCHOR)
        check_identifier(support.task)
        if support.user and not is_holder(support.user):
            raise MemoryRefusedError(f"{support.user[:64]!r} is no identifier of a user or a session")
        check_time(support.at)


def _check_word(word: str, most: int) -> None:
    if not 1 <= len(word) <= most or not word.isprintable():
        raise MemoryRefusedError(f"{word[:64]!r}: 1 to {most} printable characters are wanted")


def _size(text: str, where: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise MemoryRefusedError(f"{where} cannot be written in UTF-8: {error}") from None
