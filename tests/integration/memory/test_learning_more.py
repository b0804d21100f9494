"""An end of a task that went on is learned from by what it adds, and leaves what learning all of it at once leaves."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, NodeKind
from pentad.shared.graph.merging import node_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.store.store import Store
from tests.integration.memory.dying import KilledError
from tests.integration.memory.learned import ADA, MORE, TRIP, DyingGraph, Slow, learning, names, reading, told
from tests.integration.memory.remembered import TASK, end, exclude
from tests.support.graph_export import exported

THEN = [("user", "Her dog Bruno is in Tromso too", "ada"), ("assistant", "What does Mimi Solberg say?", None)]
TOLD_NOBODY = [("user", "Nothing at all", "ada"), ("assistant", "I see.", None)]


class Counting(SqliteGraph):
    """Says how many nodes and edges it was given, and which statements it was to keep."""

    written = retained = 0

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        self.written += len(nodes)
        await super().upsert_nodes(nodes)

    async def upsert_edges(self, edges: Sequence[MemoryEdge]) -> None:
        self.written += len(edges)
        await super().upsert_edges(edges)

    async def retain(self, tenant: str, task: str, anchors: Sequence[str]) -> None:
        self.retained += 1
        await super().retain(tenant, task, anchors)


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[Counting]:
    made = Counting(tmp_path / "graph.db")
    yield made
    await made.aclose()


async def at_once(store: Store, folder: Path) -> list[str]:
    """What is there when the task, as it is now, is learned from for the first time."""
    graph = SqliteGraph(folder / "at-once.db")
    await learning(store, folder, graph).handle(told())
    export = await exported(graph, "acme")
    await graph.aclose()
    return export


async def test_an_end_writes_what_it_adds_also_at_turn_200(store: Store, tmp_path: Path, graph: Counting) -> None:
    handler, written = learning(store, tmp_path, graph), {}
    for first, last in ((1, 2), (3, 3), (4, 199), (200, 200)):
        turns = [[("user", f"I went to Place{n} today", "ada"), ("assistant", "I see.", None)]
                 for n in range(first, last + 1)]  # fmt: skip
        await end(store, [message for turn in turns for message in turn])
        graph.written = 0
        await handler.handle(told())
        written[last] = graph.written
    assert written[200] == written[3] == 3, "a name, that it is the task's, and what was stated"
    assert await exported(graph, "acme") == await at_once(store, tmp_path)
    graph.written = 0
    await handler.handle(told())
    assert graph.written == 0, "nothing is new"
    await end(store, TOLD_NOBODY)
    await handler.handle(told(redelivered=True))
    assert graph.written > 400, "whoever had it before may have died within it"


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_each_write_a_redelivery_leaves_what_an_undisturbed_run_leaves(
    store: Store, tmp_path: Path, after: bool
) -> None:
    await end(store, TRIP + MORE)
    await exclude(store, 2, 3)
    calm = DyingGraph(tmp_path / "calm.db")
    await learning(store, tmp_path, calm).handle(told())
    writes, undisturbed = -calm.left, await exported(calm, "acme")
    await calm.aclose()
    assert (writes, len(undisturbed)) == (3, 6), "nodes, edges, what is kept; two names, a fact, their task, two edges"
    for at in range(1, writes + 1):
        there = DyingGraph(tmp_path / f"killed-{at}.db")
        there.left, there.after = at, after
        with pytest.raises(KilledError):
            await learning(store, tmp_path, there).handle(told())
        await learning(store, tmp_path, there).handle(told())
        assert await exported(there, "acme") == undisturbed
        await there.aclose()


@pytest.mark.parametrize("after", [False, True])
async def test_failing_at_each_write_of_each_end_the_next_end_leaves_what_an_undisturbed_run_leaves(
    store: Store, tmp_path: Path, after: bool
) -> None:
    """By the same archiver, which goes on, or by another that begins: each end has two writes."""
    for at in range(1, 7):
        await store.call("DEL", TASK.log)
        graph = DyingGraph(tmp_path / f"{at}.db")
        handler = learning(store, tmp_path, graph)
        graph.left, graph.after = at, after
        for said in (TRIP, MORE, THEN):
            await end(store, said)
            try:
                await handler.handle(told())
            except KilledError:
                handler = learning(store, tmp_path, graph) if at % 2 else handler
        await handler.handle(told())
        assert await exported(graph, "acme") == await at_once(store, tmp_path / f"{at}-{after}")
        await graph.aclose()


async def test_a_slow_writer_does_not_bring_back_what_was_moved_meanwhile(store: Store, tmp_path: Path) -> None:
    graph = Slow(tmp_path / "graph.db")
    quick = learning(store, tmp_path, graph)
    await end(store, TRIP + MORE)

    async def moved() -> None:
        await exclude(store, 2, 3)
        await quick.handle(told())

    graph.meanwhile = moved
    await learning(store, tmp_path, graph).handle(told())
    assert set(await names(graph)) == {"Mimi Solberg", "Tromso"}
    await graph.aclose()


async def test_a_slow_writer_takes_back_what_was_moved_also_when_the_task_goes_on(store: Store, tmp_path: Path) -> None:
    graph = Slow(tmp_path / "graph.db")
    quick = learning(store, tmp_path, graph)
    await end(store, TRIP + MORE)

    async def moved() -> None:
        await exclude(store, 2, 3)
        await quick.handle(told())
        await end(store, [], status="active")

    graph.meanwhile = moved
    await learning(store, tmp_path, graph).handle(told())
    assert set(await names(graph)) == {"Mimi Solberg", "Tromso"}
    await graph.aclose()


async def test_what_another_archiver_has_learned_of_moved_messages_goes(
    store: Store, tmp_path: Path, graph: Counting
) -> None:
    one, other = learning(store, tmp_path, graph), learning(store, tmp_path, graph)
    await end(store, TRIP)
    await one.handle(told())
    before = await exported(graph, "acme")
    await end(store, MORE)
    await other.handle(told())
    await exclude(store, 2, 3)
    await one.handle(told())
    assert await exported(graph, "acme") == before
    await end(store, THEN)
    await one.handle(told())
    assert graph.retained == 1, "once is enough"
    assert await exported(graph, "acme") == await at_once(store, tmp_path)


async def test_where_somebody_has_removed_what_it_is_joined_to_a_task_is_learned_from_whole(
    store: Store, tmp_path: Path, graph: Counting
) -> None:
    handler = learning(store, tmp_path, graph)
    await end(store, TRIP)
    await handler.handle(told())
    await graph.remove(ADA, [node_id(ADA, NodeKind.TASK, TASK.task)])
    await end(store, MORE)
    await handler.handle(told())
    assert await exported(graph, "acme") == await at_once(store, tmp_path)


async def test_who_has_remembered_a_task_has_read_it_for_who_learns_from_it(
    store: Store, tmp_path: Path, graph: Counting
) -> None:
    """And what is moved between the two is seen all the same."""
    ended = reading(store, tmp_path)
    handler = learning(store, tmp_path, graph, ended=ended)
    await end(store, TRIP + MORE)
    await ended.read(TASK)
    await exclude(store, 2, 3)
    await handler.handle(told())
    assert await exported(graph, "acme") == await at_once(store, tmp_path)
