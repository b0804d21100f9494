"""What a person states in several tasks becomes known, whoever learns from them, in whatever order, killed or not."""

from itertools import permutations
from pathlib import Path

import pytest

from pentad.contracts.records import TranscriptMeta
from pentad.shared.actors.transcript import entry
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryNode, NodeKind
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.facts import SEARCHED_IMPORTANCE
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from tests.integration.memory.dying import KilledError
from tests.integration.memory.learned import DyingGraph, learning, told
from tests.integration.memory.remembered import AT, everything
from tests.support.graph_export import exported
from tests.support.remembering import COLLECTION, MODEL

CAT = "my cat is called Ada"
TASKS = [TaskKeys(0, "acme", f"task-0-{number}") for number in range(3)]


@pytest.fixture(autouse=True)
async def said_three_times(store: Store) -> None:
    """Three tasks of Ada's and one of Bob's."""
    for keys, user in (*((keys, "ada") for keys in TASKS), (TaskKeys(0, "acme", "task-0-9"), "bob")):
        said = entry({"role": "user", "content": CAT}, TranscriptMeta(at=AT, user_id=user))
        await store.call("RPUSH", keys.log, said)
        await store.call("HSET", keys.header, "status", "completed", "session", "s1", "ended_at", 1, "created", 1)


async def facts(graph: Graph) -> list[MemoryNode]:
    return [node for node in await graph.node_page("acme", 99) if node.kind is NodeKind.FACT]


async def found(vectors: EdgeVectors) -> list[tuple[str | None, float]]:
    points = [each.payload for each in await everything(vectors) if each.payload.kind == "semantic"]
    return [(kept.owner.user, kept.importance) for kept in points]


async def test_said_in_three_tasks_it_is_known_in_whatever_order_and_rests_on_all_of_them(
    store: Store, tmp_path: Path
) -> None:
    exports = []
    for number, order in enumerate(permutations(TASKS)):
        graph, vectors = SqliteGraph(tmp_path / f"{number}.db"), EdgeVectors(tmp_path / f"vectors-{number}")
        await vectors.prepare(COLLECTION, MODEL.dimensions)
        for keys in order:
            assert await found(vectors) == [], "not before it was said often enough"
            for redelivered in (False, True):
                await learning(store, tmp_path, graph, vectors).handle(told(keys, redelivered=redelivered))
        await learning(store, tmp_path, graph, vectors).handle(told(TaskKeys(0, "acme", "task-0-9")))
        [adas] = [node for node in await facts(graph) if node.owner.user == "ada"]
        [bobs] = [node for node in await facts(graph) if node.owner.user == "bob"]
        assert (adas.importance, len(adas.supports), bobs.importance, len(bobs.supports)) == (
            SEARCHED_IMPORTANCE,
            3,
            0.7,
            1,
        )
        assert await found(vectors) == [("ada", SEARCHED_IMPORTANCE)], "nothing merges across owners"
        exports.append(await exported(graph, "acme"))
        await graph.aclose()
        await vectors.aclose()
    assert exports.count(exports[0]) == len(exports)


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_each_write_a_redelivery_leaves_what_an_undisturbed_run_leaves(
    store: Store, tmp_path: Path, after: bool
) -> None:
    async def run(name: str, left: int) -> tuple[list[str], list[tuple[str | None, float]], int]:
        graph, vectors = DyingGraph(tmp_path / f"{name}.db"), EdgeVectors(tmp_path / f"{name}-vectors")
        for keys in TASKS[:2]:
            await learning(store, tmp_path, graph, vectors).handle(told(keys))
        graph.left, graph.after = left, after
        try:
            await learning(store, tmp_path, graph, vectors).handle(told(TASKS[2]))
        except KilledError:
            await learning(store, tmp_path, graph, vectors).handle(told(TASKS[2], redelivered=True))
        left_over = await exported(graph, "acme"), await found(vectors), left - graph.left
        await graph.aclose()
        await vectors.aclose()
        return left_over

    undisturbed = await run("calm", 0)
    assert (undisturbed[1], undisturbed[2]) == ([("ada", SEARCHED_IMPORTANCE)], 3), (
        "nodes, edges, what matters more now"
    )
    for at in range(1, 4):
        assert (await run(f"killed-{at}", at))[:2] == undisturbed[:2]


async def test_a_statement_of_an_erased_task_supports_nothing(store: Store, tmp_path: Path) -> None:
    graph, vectors = SqliteGraph(tmp_path / "graph.db"), EdgeVectors(tmp_path / "vectors")
    for keys in TASKS:
        await learning(store, tmp_path, graph, vectors).handle(told(keys))
    await store.call("HSET", TASKS[0].erased, "at", 1)
    await learning(store, tmp_path, graph, vectors).handle(told(TASKS[0], redelivered=True))
    [adas] = await facts(graph)
    assert ({each.task for each in adas.supports}, await found(vectors)) == (
        {keys.task for keys in TASKS[1:]}, [("ada", SEARCHED_IMPORTANCE)]
    )  # fmt: skip
    await graph.aclose()
    await vectors.aclose()
