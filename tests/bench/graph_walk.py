"""How long a walk takes: 10,000 nodes and 50,000 edges, the neighbourhood of depth 3, in the embedded store.

    python -m tests.bench.graph_walk [--walks 200]

Run by hand. Prints a table and, as its last line, JSON in ms.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path

from pentad.shared.graph.knowledge import MemoryEdge
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.graph.traversal import MOST_NODES, Reached, Walk, a_star, breadth_first, depth_first
from pentad.shared.owners import Owner
from tests.bench.common import quantile
from tests.support.graph_maker import node, random_edges

NODES = 10_000
EDGES = 50_000
_BATCH = 500
_WALKS = {"breadth_first": breadth_first, "depth_first": depth_first, "a_star": a_star}


async def measure(walks: int) -> dict[str, float]:
    """Times in ms, of the clock and of the processor; and how many nodes the walks came to in the median."""
    owner, chance = Owner("bench"), random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        graph = SqliteGraph(Path(folder) / "graph.db", timeout_s=60)
        found = await _fill(graph, owner, random_edges(chance, owner, NODES, EDGES))
        for name, go in _WALKS.items():
            walk = Walk(owner, 3, MOST_NODES if go is breadth_first else 200)
            ran = [await _timed(go(graph, [f"n{chance.randrange(NODES)}"], walk)) for _ in range(walks)]
            for which, times in (("ms", [r[0] for r in ran]), ("cpu_ms", [r[1] for r in ran])):
                found[f"{name}_p50_{which}"], found[f"{name}_p95_{which}"] = quantile(times, 0.5), quantile(times, 0.95)
            found[f"{name}_nodes"] = quantile([r[2] for r in ran], 0.5)
        await graph.aclose()
    return {name: round(value, 3) for name, value in found.items()}


async def _fill(graph: SqliteGraph, owner: Owner, edges: Sequence[MemoryEdge]) -> dict[str, float]:
    began = time.perf_counter()
    for begin in range(0, NODES, _BATCH):
        await graph.upsert_nodes([node(f"n{n}", owner) for n in range(begin, begin + _BATCH)])
    written = time.perf_counter()
    for begin in range(0, EDGES, _BATCH):
        await graph.upsert_edges(edges[begin : begin + _BATCH])
    ended = time.perf_counter()
    return {"node_ms": (written - began) / NODES * 1000, "edge_ms": (ended - written) / EDGES * 1000}


async def _timed(going: Awaitable[list[Reached]]) -> tuple[float, float, float]:
    cpu, clock = time.process_time(), time.perf_counter()
    reached = await going
    return (time.perf_counter() - clock) * 1000, (time.process_time() - cpu) * 1000, float(len(reached))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", type=int, default=200)
    found = asyncio.run(measure(parser.parse_args().walks))
    for name, value in found.items():
        print(f"{name:24} {value:10.3f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
