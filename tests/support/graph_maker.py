"""Nodes and edges for tests of the stores of the graph."""

import random
from typing import Any

from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, NodeKind, Support
from pentad.shared.owners import Owner


def support(name: str, task: str = "task-0-1", user: str | None = None, at: int = 1000) -> Support:
    """A statement that is called so."""
    return Support(f"anchor-{name}", task, user, at)


def node(name: str, owner: Owner, *supports: Support, **fields: Any) -> MemoryNode:
    """A node whose id and text are its name."""
    given = {"kind": NodeKind.CONCEPT, "text": name, "importance": 0.5, "learned_at": 1000}
    return MemoryNode(id=name, owner=owner, supports=supports or (support(name),), **{**given, **fields})


def edge(source: str, target: str, owner: Owner, *supports: Support, **fields: Any) -> MemoryEdge:
    """An edge between two names."""
    given = {"type": EdgeType.RELATED_TO, "weight": 0.5, "learned_at": 1000}
    rests = supports or (support(f"{source}-{target}"),)
    return MemoryEdge(owner=owner, source=source, target=target, supports=rests, **{**given, **fields})


def random_edges(chance: random.Random, owner: Owner, nodes: int, edges: int) -> list[MemoryEdge]:
    """So many different edges between ``n0`` and the others, of weights that differ."""
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < edges:
        one, other = chance.sample(range(nodes), 2)
        pairs.add((one, other))
    types = list(EdgeType)
    return [
        edge(f"n{a}", f"n{b}", owner, type=chance.choice(types), weight=round(chance.random(), 3))
        for a, b in sorted(pairs)
    ]
