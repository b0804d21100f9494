"""What is forgotten is not found any more, and stays so whoever writes its task again; its record stays."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import REMEMBER
from pentad.services.gateway.domain.forget_request import ForgetRequest, read_forgetting
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.memory.forgetting import Forgetting
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.memory.forgotten import FORGOTTEN, forgotten_of
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.points import KeptPoint
from tests.integration.memory.remembered import TASK, end, everything, remembering, texts, woken

TALK = [
    ("user", "my cat is called Ada", "ada"),
    ("assistant", "What a fine name.", None),
    ("user", "my boat is green", "bob"),
    ("assistant", "Noted.", None),
]
OF_ADA, OF_BOB = [text for _, text, _ in TALK[:2]], [text for _, text, _ in TALK[2:]]


@pytest.fixture
async def vectors(store: Store, tmp_path: Path) -> AsyncIterator[EdgeVectors]:
    """A memory in which the talk is."""
    made = EdgeVectors(tmp_path / "vectors")
    await end(store, TALK)
    await remembering(store, tmp_path, made).handle(woken())
    yield made
    await made.aclose()


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[SqliteGraph]:
    """What is known: nothing yet."""
    made = SqliteGraph(tmp_path / "graph.db")
    yield made
    await made.aclose()


async def point(vectors: EdgeVectors, text: str) -> KeptPoint:
    (found,) = [each for each in await everything(vectors) if each.payload.text == text]
    return found


async def forget(store: Store, vectors: EdgeVectors, graph: SqliteGraph, **asked: Any) -> int:
    """As a client does, to the last page."""
    done, body = 0, dict(asked)
    while True:
        page = await Forgetting(store, vectors, graph, 1).forget("acme", read_forgetting(body))
        done += page.forgotten
        if page.next is None:
            return done
        body["cursor"] = page.next


async def test_a_forgotten_segment_goes_at_once_and_does_not_come_back(
    store: Store, tmp_path: Path, vectors: EdgeVectors, graph: SqliteGraph
) -> None:
    cat = await point(vectors, TALK[0][1])
    assert await forget(store, vectors, graph, ids=[cat.id]) == 1
    assert await texts(vectors) == [OF_ADA[1], *OF_BOB]
    ((_, fields),) = await store.call("XRANGE", REMEMBER.key(0), "-", "+")
    assert fields[1] == WakeUp(actor=TASK.actor).to_json(), "its neighbours are to be written without it"
    await end(store, [("user", "and my dog Bruno", "ada")])
    for _ in range(2):
        await remembering(store, tmp_path, vectors).handle(woken())
        assert await texts(vectors) == [OF_ADA[1], *OF_BOB, "and my dog Bruno"]
    assert await store.call("LLEN", TASK.log) == len(TALK) + 1, "the transcript stays"
    assert await forget(store, vectors, graph, ids=[cat.id]) == 0


async def test_whoever_writes_while_it_is_forgotten_takes_it_back(
    store: Store, tmp_path: Path, vectors: EdgeVectors, graph: SqliteGraph
) -> None:
    cat, upsert = await point(vectors, TALK[0][1]), vectors.upsert

    async def late(collection: str, points: Any) -> None:
        vectors.upsert = upsert  # type: ignore[method-assign]
        await forget(store, vectors, graph, ids=[cat.id])
        await upsert(collection, points)

    vectors.upsert = late  # type: ignore[method-assign]
    await end(store, [("user", "and my dog Bruno", "ada")])
    await remembering(store, tmp_path, vectors).handle(woken())
    assert await texts(vectors) == [OF_ADA[1], *OF_BOB, "and my dog Bruno"]


async def test_of_a_task_that_is_forgotten_whole_nothing_is_left(
    store: Store, tmp_path: Path, vectors: EdgeVectors, graph: SqliteGraph
) -> None:
    assert await forget(store, vectors, graph, task_id=TASK.task) == len(TALK)
    await remembering(store, tmp_path, vectors).handle(woken())
    assert await everything(vectors) == []
    assert len(await forgotten_of(vectors, "acme", TASK.task)) == len(TALK)
    assert await forgotten_of(vectors, "another", TASK.task) == frozenset()


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({"task_id": TASK.task, "user_id": "ada"}, OF_BOB),
        ({"since": "2030-01-31T12:00:00Z", "until": "2030-01-31T12:00:00.001Z"}, []),
        ({"until": "2030-01-31T12:00:00Z"}, OF_ADA + OF_BOB),
        ({"task_id": "task-0-9"}, OF_ADA + OF_BOB),
        ({"ids": ["00000000-0000-8000-a000-000000000000"]}, OF_ADA + OF_BOB),
    ],
)
async def test_what_is_meant_meets_every_condition(
    store: Store, vectors: EdgeVectors, graph: SqliteGraph, asked: dict[str, Any], left: list[str]
) -> None:
    await forget(store, vectors, graph, **asked)
    assert await texts(vectors) == left


async def test_another_tenant_forgets_nothing_of_ours(store: Store, vectors: EdgeVectors, graph: SqliteGraph) -> None:
    cat = await point(vectors, TALK[0][1])
    page = await Forgetting(store, vectors, graph, 1).forget("another", ForgetRequest(ids=(cat.id,)))
    assert page.forgotten == 0
    assert len(await texts(vectors)) == len(TALK)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "say what"),
        ({"user_id": "ada"}, "say what"),
        ({"ids": []}, "ids"),
        ({"ids": "x"}, "ids"),
        ({"ids": ["x"]}, "ids"),
        ({"ids": [{}]}, "ids"),
        ({"ids": ["00000000-0000-8000-a000-000000000000"] * 101}, "ids"),
        ({"task_id": "a b"}, "task_id"),
        ({"task_id": "t", "user_id": ["x"]}, "user_id"),
        ({"since": "yesterday"}, "since"),
        ({"until": 7}, "until"),
        ({"task_id": "t", "cursor": "../x"}, "cursor"),
        ({"task_id": "t", "everything": True}, "everything"),
        ({"kind": "semantic"}, "say what"),
        ({"task_id": "t", "kind": "working"}, "kind"),
        ({"task_id": "t", "kind": ["semantic"]}, "kind"),
        ({"importance_below": 0}, "importance_below"),
        ({"importance_below": 1.1}, "importance_below"),
        ({"importance_below": True}, "importance_below"),
        ({"importance_below": "0.5"}, "importance_below"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(body: dict[str, Any], named: str) -> None:
    with pytest.raises(UnreadableError, match=named):
        read_forgetting(body)


async def test_a_cursor_of_what_is_gone_is_refused(store: Store, vectors: EdgeVectors, graph: SqliteGraph) -> None:
    for name in ("memory-other", FORGOTTEN):
        with pytest.raises(ProblemError, match="cursor"):
            await Forgetting(store, vectors, graph, 1).forget(
                "acme", read_forgetting({"task_id": "t", "cursor": f"{name}:"})
            )
