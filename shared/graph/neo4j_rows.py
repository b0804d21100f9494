"""Our nodes and edges as parameters of Cypher, and properties as nodes and edges. Pure."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from pentad.shared.errors import DamagedError
from pentad.shared.graph.knowledge import (
    BareEdge,
    EdgeType,
    MemoryEdge,
    MemoryNode,
    NodeKind,
    Support,
    WalkedEdge,
)
from pentad.shared.graph.merging import edge_key, metadata_from, metadata_rank, normal_name, rank, sorted_supports
from pentad.shared.owners import Owner

TASK, USER = 0, 1
"""Positions of the task and of the user in a support's text."""


def key_of(tenant: str, identifier: str) -> str:
    """Return the key of a node among all tenants: no tenant has a slash in its name."""
    return f"{tenant}/{identifier}"


def users_of(owner: Owner) -> list[str]:
    """Return the holders whose nodes and edges this owner sees."""
    return [*owner.holders_seen]


def holder_text(holder: str | None) -> str:
    """Return a holder as part of a support's text, whose parts are separated by ``|``; ``|`` and ``%`` are escaped."""
    return (holder or "").replace("%", "%25").replace("|", "%7C")


def node_row(node: MemoryNode) -> dict[str, Any]:
    """Return a node as a row of ``cypher.PUT_NODES``. ``said`` has the fields that an earlier statement replaces
    together."""
    name = normal_name(node.text)
    said = {"rank": rank(node), "kind": node.kind.value, "text": node.text, "name": name, "learned_at": node.learned_at}
    return {
        "key": key_of(node.owner.tenant, node.id),
        "tenant": node.owner.tenant,
        "id": node.id,
        "user": node.owner.holder or "",
        "said": said,
        "importance": float(node.importance),
        "merged_into": node.merged_into,
        **_metadata_of(node),
        **_times(node),
    }


def edge_row(edge: MemoryEdge) -> dict[str, Any]:
    """Return an edge as a row of ``cypher.PUT_EDGES``."""
    tenant = edge.owner.tenant
    return {
        "key": edge_key(edge),
        "tenant": tenant,
        "user": edge.owner.holder or "",
        "source_key": key_of(tenant, edge.source),
        "target_key": key_of(tenant, edge.target),
        "weight": float(edge.weight),
        "learned_at": edge.learned_at,
        **_metadata_of(edge),
        **_times(edge),
    }


def node_from(kept: Mapping[str, Any]) -> MemoryNode:
    """Return a node from its properties. Raises ``DamagedError`` for one that Pentad did not write."""
    try:
        return MemoryNode(
            id=kept["id"],
            owner=Owner.of_holder(kept["tenant"], kept["user"]),
            kind=NodeKind(kept["kind"]),
            text=kept["text"],
            importance=kept["importance"],
            learned_at=kept["learned_at"],
            supports=sorted_supports(map(_support, kept["supports"])),
            true_from=kept.get("true_from"),
            true_until=kept.get("true_until"),
            merged_into=kept.get("merged_into"),
            metadata=metadata_from(kept.get("metadata"), kept.get("metadata_rank")),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise DamagedError(f"a node of the graph cannot be read: {error!r}") from None


def edge_from(row: Mapping[str, Any]) -> MemoryEdge:
    """Return an edge from a row. Raises ``DamagedError`` for one that Pentad did not write."""
    try:
        kept = row["kept"]
        return MemoryEdge(
            owner=Owner.of_holder(kept["tenant"], kept["user"]),
            source=row["source"],
            target=row["target"],
            type=EdgeType(row["type"].lower()),
            weight=kept["weight"],
            learned_at=kept["learned_at"],
            supports=sorted_supports(map(_support, kept["supports"])),
            true_from=kept.get("true_from"),
            true_until=kept.get("true_until"),
            metadata=metadata_from(kept.get("metadata"), kept.get("metadata_rank")),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise DamagedError(f"an edge of the graph cannot be read: {error!r}") from None


def bare_from(row: Mapping[str, Any]) -> BareEdge:
    """Return an edge from a row of `cypher.BETWEEN`."""
    kept = row["kept"]
    owner = Owner.of_holder(kept["tenant"], kept["user"])
    return BareEdge(
        owner,
        row["source"],
        row["target"],
        EdgeType(row["type"].lower()),
        kept["weight"],
        metadata_from(kept.get("metadata"), kept.get("metadata_rank")),
    )


def link_from(row: Mapping[str, Any]) -> WalkedEdge:
    """Return an edge from a row of `cypher.LINKS`."""
    return WalkedEdge(row["source"], row["target"], EdgeType(row["type"].lower()), row["weight"])


def _times(it: MemoryNode | MemoryEdge) -> dict[str, Any]:
    supports = [f"{s.task}|{holder_text(s.user)}|{s.at}|{s.anchor}" for s in it.supports]
    return {"true_from": it.true_from, "true_until": it.true_until, "supports": supports}


def _metadata_of(it: MemoryNode | MemoryEdge) -> dict[str, Any]:
    told = it.metadata
    return {"metadata": told and told.json, "metadata_rank": told and metadata_rank(told)}


def _support(text: str) -> Support:
    task, user, at, anchor = text.split("|", 3)
    return Support(anchor, task, unquote(user) or None, int(at))
