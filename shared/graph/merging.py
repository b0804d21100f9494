"""How what is written again joins what is there, the same whichever comes first. Pure; the stores do it in their words.

Supports are added up. Of two texts the one that was learned first stays, of equally old ones the one with the lower
digest. Importance and weight only grow; a node is true from the earliest beginning that is known, and an end, once
known, only moves to an earlier time. Of two nodes that stand for it, the lower id does. Metadata that was told last
counts, whole; of what was told in the same moment that with the higher digest.
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
    """A text without what the same text may be written differently in."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def normal_name(text: str) -> str:
    """The name under which a node is found."""
    return normal_text(text)[:MOST_NAME]


def rank(node: MemoryNode) -> str:
    """Of two texts of a node the one of the lower rank stays: the older one."""
    return f"{node.learned_at:015d}-{sha256(f'{node.kind}:{node.text}'.encode()).hexdigest()[:16]}"


def metadata_rank(metadata: Metadata) -> str:
    """Of two the one of the higher rank stays: what was told later. Texts of their own no two stores compare alike."""
    return f"{metadata.at:015d}-{sha256(metadata.json.encode()).hexdigest()[:16]}"


def metadata_from(text: str | None, ranked: str | None) -> Metadata | None:
    """What a store has kept: the JSON, and its rank."""
    return None if text is None or ranked is None else Metadata(text, int(ranked[:15]))


def edge_key(edge: MemoryEdge) -> str:
    """What tells an edge from the tenant's others: ends, type and holder."""
    return "\x1f".join((edge.source, edge.target, edge.type, edge.owner.holder or ""))


def bare_of(edge: MemoryEdge) -> BareEdge:
    """The same without what it rests on."""
    return BareEdge(edge.owner, edge.source, edge.target, edge.type, edge.weight, edge.metadata)


def in_order(supports: Iterable[Support]) -> tuple[Support, ...]:
    """Each once, the oldest first."""
    return tuple(sorted(set(supports), key=lambda s: (s.at, s.anchor, s.task, s.user or "")))


def merged_nodes(nodes: Sequence[MemoryNode]) -> list[MemoryNode]:
    """Each node once, in the order of tenants and ids."""
    found: dict[tuple[str, str], MemoryNode] = {}
    for node in nodes:
        key = node.owner.tenant, node.id
        found[key] = _both_nodes(found[key], node) if key in found and found[key].owner == node.owner else node
    return [found[key] for key in sorted(found)]


def merged_edges(edges: Sequence[MemoryEdge]) -> list[MemoryEdge]:
    """Each edge once, in the order of its ends."""
    found: dict[tuple[str, str], MemoryEdge] = {}
    for edge in edges:
        key = edge.owner.tenant, edge_key(edge)
        found[key] = _both_edges(found[key], edge) if key in found else edge
    return [found[key] for key in sorted(found)]


def _both_nodes(one: MemoryNode, other: MemoryNode) -> MemoryNode:
    return replace(
        min(one, other, key=rank),
        importance=max(one.importance, other.importance),
        supports=in_order(one.supports + other.supports),
        true_from=_earliest(one.true_from, other.true_from),
        true_until=_earliest(one.true_until, other.true_until),
        merged_into=min(filter(None, (one.merged_into, other.merged_into)), default=None),
        metadata=_latest(one.metadata, other.metadata),
    )


def _both_edges(one: MemoryEdge, other: MemoryEdge) -> MemoryEdge:
    return replace(
        one,
        weight=max(one.weight, other.weight),
        learned_at=min(one.learned_at, other.learned_at),
        supports=in_order(one.supports + other.supports),
        true_from=_earliest(one.true_from, other.true_from),
        true_until=_earliest(one.true_until, other.true_until),
        metadata=_latest(one.metadata, other.metadata),
    )


def _latest(one: Metadata | None, other: Metadata | None) -> Metadata | None:
    return max(filter(None, (one, other)), key=metadata_rank, default=None)


def _earliest(one: int | None, other: int | None) -> int | None:
    return min((moment for moment in (one, other) if moment is not None), default=None)


def node_id(owner: Owner, kind: NodeKind, text: str) -> str:
    """A UUID (version 8 of RFC 9562). However a text is written (`normal_text`), it is the same node's."""
    return _uuid("node", owner.tenant, owner.holder, kind.value, normal_text(text))


def edge_id(owner: Owner, source: str, target: str, kind: EdgeType) -> str:
    """Such a one, too. It is kept nowhere: whoever shows an edge makes it."""
    return _uuid("edge", owner.tenant, owner.holder, source, target, kind.value)


def _uuid(*of: str | None) -> str:
    said = json.dumps(of)
    digest = sha256(said.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
