"""Our nodes and edges as rows of parameters, and back from properties. Pure."""

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
from pentad.shared.graph.merging import edge_key, in_order, metadata_from, metadata_rank, normal_name, rank
from pentad.shared.owners import Owner

TASK, USER = 0, 1
"""Where a support's text says its task and its user."""


def key_of(tenant: str, identifier: str) -> str:
    """What one node of all tenants is found by: no tenant has a slash in its name."""
    return f"{tenant}/{identifier}"


def users_of(owner: Owner) -> list[str]:
    """The holders whose nodes and edges this owner sees."""
    return [*owner.holders_seen]


def holder_text(holder: str | None) -> str:
    """A holder within a support's text, whose parts stand between ``|``; one without ``|`` and ``%`` is as it is."""
    return (holder or "").replace("%", "%25").replace("|", "%7C")


def node_row(node: MemoryNode) -> dict[str, Any]:
    """What ``cypher.PUT_NODES`` takes. ``said``: what goes together and is replaced by what was learned earlier."""
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
    """What ``cypher.PUT_EDGES`` takes."""
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
    """Raises ``DamagedError`` for what nobody of ours has written."""
    try:
        return MemoryNode(
            id=kept["id"],
            owner=Owner.of_holder(kept["tenant"], kept["user"]),
            kind=NodeKind(kept["kind"]),
            text=kept["text"],
            importance=kept["importance"],
            learned_at=kept["learned_at"],
            supports=in_order(map(_support, kept["supports"])),
            true_from=kept.get("true_from"),
            true_until=kept.get("true_until"),
            merged_into=kept.get("merged_into"),
            metadata=metadata_from(kept.get("metadata"), kept.get("metadata_rank")),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise DamagedError(f"a node of the graph cannot be read: {error!r}") from None


def edge_from(row: Mapping[str, Any]) -> MemoryEdge:
    """Raises ``DamagedError`` for what nobody of ours has written."""
    try:
        kept = row["kept"]
        return MemoryEdge(
            owner=Owner.of_holder(kept["tenant"], kept["user"]),
            source=row["source"],
            target=row["target"],
            type=EdgeType(row["type"].lower()),
            weight=kept["weight"],
            learned_at=kept["learned_at"],
            supports=in_order(map(_support, kept["supports"])),
            true_from=kept.get("true_from"),
            true_until=kept.get("true_until"),
            metadata=metadata_from(kept.get("metadata"), kept.get("metadata_rank")),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise DamagedError(f"an edge of the graph cannot be read: {error!r}") from None


def bare_from(row: Mapping[str, Any]) -> BareEdge:
    """An edge as `cypher.BETWEEN` returns it."""
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
    """A link as `cypher.LINKS` returns it."""
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
