"""Merges what is written again with what exists, with the same result in any order. Pure; stores do it in their
language.

Supports are united. Of two texts the one that was learned first stays, of equally old ones the one with the lower
digest. Importance and weight only grow. A node is true from the earliest known beginning, and an end, once known, only
moves to an earlier time. Of two nodes that replace it, the one with the lower id does. The latest metadata counts, as a
whole; of two of the same moment, the one with the higher digest.
"""

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from pentad.shared.graph.knowledge import BareEdge, EdgeType, MemoryEdge, MemoryNode, Metadata, NodeKind, Support
from pentad.shared.owners import Owner

MOST_NAME = 256
"""Characters of a name that count."""


def normal_text(text: str) -> str:
    """Return a text in the normal form of all its spellings."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def normal_name(text: str) -> str:
    """Return the name by which a node is found."""
    return normal_text(text)[:MOST_NAME]


def rank(node: MemoryNode) -> str:
    """Return the rank of a node's text: of two texts the one of the lower rank stays, which is the older one."""
    return f"{node.learned_at:015d}-{sha256(f'{node.kind}:{node.text}'.encode()).hexdigest()[:16]}"


def metadata_rank(metadata: Metadata) -> str:
    """Return the rank of metadata: the one of the higher rank stays, which is the later one.

    Stores compare ranks, because no two of them compare texts alike.
    """
    return f"{metadata.at:015d}-{sha256(metadata.json.encode()).hexdigest()[:16]}"


def metadata_from(text: str | None, ranked: str | None) -> Metadata | None:
    """Return metadata from the JSON and the rank that a store has."""
    return None if text is None or ranked is None else Metadata(text, int(ranked[:15]))


def edge_key(edge: MemoryEdge) -> str:
    """Return the key of an edge among the tenant's edges: ends, type and holder."""
    return "\x1f".join((edge.source, edge.target, edge.type, edge.owner.holder or ""))


def without_supports(edge: MemoryEdge) -> BareEdge:
    """Return an edge without its supports."""
    return BareEdge(edge.owner, edge.source, edge.target, edge.type, edge.weight, edge.metadata)


def sorted_supports(supports: Iterable[Support]) -> tuple[Support, ...]:
    """Return supports without duplicates, the oldest first."""
    return tuple(sorted(set(supports), key=lambda s: (s.at, s.anchor, s.task, s.user or "")))


def merged_nodes(nodes: Sequence[MemoryNode]) -> list[MemoryNode]:
    """Return each node once, in the order of tenants and ids."""
    found: dict[tuple[str, str], MemoryNode] = {}
    for node in nodes:
        key = node.owner.tenant, node.id
        found[key] = _merged_node(found[key], node) if key in found and found[key].owner == node.owner else node
    return [found[key] for key in sorted(found)]


def merged_edges(edges: Sequence[MemoryEdge]) -> list[MemoryEdge]:
    """Return each edge once, in the order of its ends."""
    found: dict[tuple[str, str], MemoryEdge] = {}
    for edge in edges:
        key = edge.owner.tenant, edge_key(edge)
        found[key] = _merged_edge(found[key], edge) if key in found else edge
    return [found[key] for key in sorted(found)]


def _merged_node(one: MemoryNode, other: MemoryNode) -> MemoryNode:
    return replace(
        min(one, other, key=rank),
        importance=max(one.importance, other.importance),
        supports=sorted_supports(one.supports + other.supports),
        true_from=_earliest(one.true_from, other.true_from),
        true_until=_earliest(one.true_until, other.true_until),
        merged_into=min(filter(None, (one.merged_into, other.merged_into)), default=None),
        metadata=_latest(one.metadata, other.metadata),
    )


def _merged_edge(one: MemoryEdge, other: MemoryEdge) -> MemoryEdge:
    return replace(
        one,
        weight=max(one.weight, other.weight),
        learned_at=min(one.learned_at, other.learned_at),
        supports=sorted_supports(one.supports + other.supports),
        true_from=_earliest(one.true_from, other.true_from),
        true_until=_earliest(one.true_until, other.true_until),
        metadata=_latest(one.metadata, other.metadata),
    )


def _latest(one: Metadata | None, other: Metadata | None) -> Metadata | None:
    return max(filter(None, (one, other)), key=metadata_rank, default=None)


def _earliest(one: int | None, other: int | None) -> int | None:
    return min((moment for moment in (one, other) if moment is not None), default=None)


def node_id(owner: Owner, kind: NodeKind, text: str) -> str:
    """Return the id of a node, a UUID (version 8 of RFC 9562): equal for all spellings of its text (`normal_text`)."""
    return _uuid("node", owner.tenant, owner.holder, kind.value, normal_text(text))


def edge_id(owner: Owner, source: str, target: str, kind: EdgeType) -> str:
    """Return the id of an edge, a UUID. It is not stored: whoever shows an edge computes it."""
    return _uuid("edge", owner.tenant, owner.holder, source, target, kind.value)


def _uuid(*of: str | None) -> str:
    said = json.dumps(of)
    digest = sha256(said.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
