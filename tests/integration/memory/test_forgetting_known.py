"""What is known is forgotten by its id, by how much it matters and by when; what was said of it stays."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pentad.services.archiver.near_nodes import NearNodes
from pentad.services.gateway.domain.forget_request import read_forgetting
from pentad.services.gateway.memory.forgetting import Forgetting
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, NodeKind, Support
from pentad.shared.graph.merging import node_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.memory.forgotten import forgotten_of
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.segments.segment import segments_of
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from tests.integration.memory.remembered import TASK, end, everything, remembering, texts, woken
from tests.unit.segments.transcripts import said

ADA, ALL = Owner("acme", "ada"), Owner("acme")
DAY = 86_400_000
SAID = [("user", "the ferry leaves at nine", "ada"), ("user", "the ferry is blue", None)]


def node(text: str, importance: float, *, owner: Owner = ADA, at: int = DAY, tasks: tuple[str, ...] = (TASK.task,),
         kind: NodeKind = NodeKind.FACT) -> MemoryNode:  # fmt: skip
    """Something known that rests on the first words of these tasks."""
    supports = []
    for task in tasks:
        [segment] = segments_of(owner.tenant, task, [said(text, user_id=owner.user)])
        supports.append(Support(anchor_text(segment.anchor), task, owner.user, at))
    return MemoryNode(node_id(owner, kind, text), owner, kind, text, importance, at, tuple(supports))


FERRY, BLUE = node("the ferry leaves at nine", 0.8), node("ferries are blue", 0.3, at=3 * DAY)
SHARED = node("ferries float", 0.3, owner=ALL, tasks=(TASK.task, "task-0-2"))
NAME = node("Bergen", 0.3, kind=NodeKind.ENTITY)
OTHERS = node("the ferry leaves at nine", 0.1, owner=Owner("another", "ada"))
EVERY = {each.text: each for each in (FERRY, BLUE, SHARED, NAME)}


class Memory:
    """What an archiver has written, and the gateway's way to forget of it."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.vectors, self.graph = EdgeVectors(folder / "vectors"), SqliteGraph(folder / "graph.db")
        self._store = store

    async def forget(self, tenant: str = "acme", **asked: Any) -> int:
        done, body = 0, dict(asked)
        while True:
            page = await Forgetting(self._store, self.vectors, self.graph, 1).forget(tenant, read_forgetting(body))
            done += page.forgotten
            if page.next is None:
                return done
            body["cursor"] = page.next

    async def known(self) -> set[str]:
        """Texts of what is in the graph."""
        return {each.text for each in await self.graph.node_page("acme", 99)}

    async def found(self) -> set[str]:
        """Of what is known and found by searches."""
        return {each.payload.text for each in await everything(self.vectors) if each.payload.kind == "semantic"}


@pytest.fixture
async def memory(store: Store, tmp_path: Path) -> AsyncIterator[Memory]:
    made = Memory(store, tmp_path)
    await end(store, SAID)
    await remembering(store, tmp_path, made.vectors).handle(woken())
    near = NearNodes(made.vectors, HashingEmbedder(), made.graph)
    await made.graph.upsert_nodes([*EVERY.values(), OTHERS])
    edge = MemoryEdge(ADA, FERRY.id, NAME.id, EdgeType.RELATED_TO, 0.5, DAY, FERRY.supports)
    await made.graph.upsert_edges([edge])
    await near.write_points(TASK, "s1", [FERRY, BLUE, SHARED])
    yield made
    await made.vectors.aclose()
    await made.graph.aclose()


async def test_a_node_is_forgotten_by_its_id_and_what_was_said_stays(memory: Memory) -> None:
    assert await memory.forget(ids=[FERRY.id]) == 1
    assert await memory.known() == EVERY.keys() - {FERRY.text}
    assert await memory.found() == {BLUE.text, SHARED.text}
    assert (await memory.graph.tally("acme")).edges == 0
    assert await texts(memory.vectors) == [text for _, text, _ in SAID]
    assert await forgotten_of(memory.vectors, "acme", TASK.task) == {FERRY.id}
    assert await memory.forget(ids=[FERRY.id]) == 0


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({"importance_below": 0.5, "kind": "semantic"}, {FERRY.text, NAME.text}),
        ({"importance_below": 0.3, "kind": "semantic"}, EVERY.keys()),
        ({"importance_below": 1, "user_id": "ada", "kind": "semantic"}, {SHARED.text, NAME.text}),
        ({"importance_below": 1, "user_id": "bob", "kind": "semantic"}, EVERY.keys()),
        ({"since": "1970-01-03T00:00:00Z", "kind": "semantic"}, EVERY.keys() - {BLUE.text}),
        ({"until": "1970-01-03T00:00:00Z", "kind": "semantic"}, {BLUE.text, NAME.text}),
        ({"task_id": TASK.task, "kind": "semantic"}, {SHARED.text, NAME.text}),
        ({"task_id": TASK.task}, EVERY.keys()),
        ({"ids": [NAME.id], "user_id": "ada"}, EVERY.keys() - {NAME.text}),
        ({"ids": [NAME.id], "user_id": "bob"}, EVERY.keys()),
        ({"ids": [FERRY.id], "user_id": "bob"}, EVERY.keys()),
        ({"ids": [FERRY.id], "kind": "episodic"}, EVERY.keys()),
        ({"ids": [OTHERS.id]}, EVERY.keys()),
    ],
)
async def test_what_is_meant_of_what_is_known_meets_every_condition(
    memory: Memory, asked: dict[str, Any], left: set[str]
) -> None:
    await memory.forget(**asked)
    assert await memory.known() == left
    assert await memory.found() == left - {NAME.text}
    assert (await memory.graph.tally("another")).nodes == 1


async def test_another_tenant_forgets_nothing_that_we_know(memory: Memory) -> None:
    assert await memory.forget("third", ids=[FERRY.id, NAME.id]) == 0
    assert await memory.forget("third", since="1970-01-01T00:00:00Z") == 0
    assert await memory.known() == EVERY.keys()


async def test_by_both_kinds_what_was_said_goes_too(memory: Memory) -> None:
    assert await memory.forget(since="1970-01-01T00:00:00Z") == len(SAID) + 3
    assert (await texts(memory.vectors), await memory.found(), await memory.known()) == ([], set(), {NAME.text})


async def test_what_a_kill_left_of_a_node_is_forgotten_by_its_id(memory: Memory) -> None:
    await memory.graph.remove(ADA, [FERRY.id])
    await memory.forget(ids=[FERRY.id])
    assert await memory.found() == {BLUE.text, SHARED.text}
