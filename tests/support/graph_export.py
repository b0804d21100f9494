"""A tenant's graph as text that is equal where the graphs are: for comparing two stores, or one before and after."""

import json
from dataclasses import asdict

from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode
from pentad.shared.graph.merging import edge_key

_PAGE = 500


async def exported(graph: Graph, tenant: str) -> list[str]:
    """A line of JSON for each node and each edge, in the order of the lines. All of it is held in memory."""
    lines: list[str] = []
    last = ""
    while nodes := await graph.node_page(tenant, _PAGE, last):
        lines += map(line_of, nodes)
        last = nodes[-1].id
    last = ""
    while edges := await graph.edge_page(tenant, _PAGE, last):
        lines += map(line_of, edges)
        last = edge_key(edges[-1])
    return sorted(lines)


def line_of(it: MemoryNode | MemoryEdge) -> str:
    """One line of canonical JSON. When metadata was told is not in it: that is told anew each time."""
    told = asdict(it) | {"metadata": it.metadata and it.metadata.json}
    return json.dumps(told, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
