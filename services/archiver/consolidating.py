"""What was just written to the graph, as it is now: what other tasks say too matters more from now on."""

from collections.abc import Sequence
from dataclasses import replace

from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.memory.facts import raised_by_repetition
from pentad.shared.owners import Owner


async def consolidate(graph: Graph, owner: Owner, written: Sequence[MemoryNode]) -> list[MemoryNode]:
    """The nodes with all that they rest on. ``written``: of this owner, by one task. Raises ``MemoryOutageError``.

    What is written rests on that task alone: another one may be erased meanwhile.
    """
    own = {node.id: node for node in written}
    there = {node.id: node for node in await graph.nodes(owner, list(own))}
    grown = raised_by_repetition(written, list(there.values()))
    if grown:
        await graph.upsert_nodes([replace(node, supports=own[node.id].supports) for node in grown])
    return list((there | {node.id: node for node in grown}).values())
