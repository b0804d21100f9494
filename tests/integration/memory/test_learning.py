"""What is known from a task is in the graph after its end: once, whatever is killed, away or moved meanwhile."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pentad.contracts.records import TranscriptMeta
from pentad.contracts.streams import LEARN
from pentad.shared.actors.transcript import entry
from pentad.shared.errors import MemoryOutageError, PoisonError
from pentad.shared.graph.knowledge import EdgeType, NodeKind, Tally
from pentad.shared.graph.merging import node_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import TaskKeys
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_of
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.work.entry import Entry
from tests.integration.memory.learned import ADA, MORE, TRIP, learning, names, told
from tests.integration.memory.remembered import AT, TASK, end, everything, exclude, remembering, woken
from tests.support.graph_export import exported
from tests.unit.segments.transcripts import answered, calling


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[SqliteGraph]:
    made = SqliteGraph(tmp_path / "graph.db")
    yield made
    await made.aclose()


async def test_a_task_that_is_remembered_is_learned_from_next(store: Store, tmp_path: Path) -> None:
    vectors = EdgeVectors(tmp_path / "vectors")
    await end(store, TRIP)
    await remembering(store, tmp_path, vectors).handle(woken())
    ((_, fields),) = await store.call("XRANGE", LEARN.key(0), "-", "+")
    assert fields[1] == told().data
    await vectors.aclose()


async def test_names_of_an_ended_task_are_its_speakers_and_rest_on_his_words(
    store: Store, tmp_path: Path, graph: SqliteGraph
) -> None:
    await end(store, TRIP)
    await learning(store, tmp_path, graph).handle(told())
    assert await names(graph) == {"Mimi Solberg": "ada", "Tromso": "ada"}
    [mimi] = await graph.named(ADA, ["mimi solberg"])
    assert [(each.task, each.user, anchor_of(each.anchor).position) for each in mimi.supports] == [
        (TASK.task, "ada", 0)
    ]
    assert await graph.named(Owner("acme", "bob"), ["mimi solberg"]) == []
    assert await graph.tally("another") == Tally(0, 0)


async def test_learned_twice_and_opened_again_it_adds_and_never_doubles(
    store: Store, tmp_path: Path, graph: SqliteGraph
) -> None:
    handler = learning(store, tmp_path, graph)
    await end(store, TRIP)
    await handler.handle(told())
    once = await exported(graph, "acme")
    await handler.handle(told())
    assert await exported(graph, "acme") == once
    await end(store, MORE, status="active")
    await handler.handle(told())
    assert await exported(graph, "acme") == once, "what goes on is learned from at its end"
    await end(store, [])
    await handler.handle(told())
    assert set(await names(graph)) == {"Mimi Solberg", "Tromso", "Oslo"}
    [tromso] = await graph.named(ADA, ["Tromso"])
    assert len(tromso.supports) == 2


async def test_what_was_moved_away_supports_nothing_any_more(store: Store, tmp_path: Path, graph: SqliteGraph) -> None:
    handler = learning(store, tmp_path, graph)
    await end(store, TRIP)
    await handler.handle(told())
    before = await exported(graph, "acme")
    await end(store, MORE)
    await handler.handle(told())
    await exclude(store, 2, 3)
    await handler.handle(told())
    assert await exported(graph, "acme") == before
    await exclude(store, 0, 1)
    await handler.handle(told())
    assert await graph.tally("acme") == Tally(0, 0)


async def test_tasks_of_a_session_follow_each_other_in_whatever_order_they_are_learned(
    store: Store, tmp_path: Path, graph: SqliteGraph
) -> None:
    other = TaskKeys(0, "acme", "task-0-2")
    await end(store, TRIP)
    await store.call("COPY", TASK.header, other.header)
    said = {"role": "assistant", "content": "What did she tell you?"}
    await store.call("RPUSH", other.log, entry(said, TranscriptMeta(at=AT, origin="context", task_id=TASK.task)))
    said = {"role": "user", "content": "Nothing"}
    await store.call("RPUSH", other.log, entry(said, TranscriptMeta(at=AT, user_id="ada")))
    exports = []
    for number, order in enumerate(((TASK, other), (other, TASK))):
        there = SqliteGraph(tmp_path / f"{number}.db")
        for keys in order:
            await learning(store, tmp_path, there).handle(told(keys))
        exports.append(await exported(there, "acme"))
        ids = {name: node_id(ADA, NodeKind.TASK, name) for name in (TASK.task, other.task)}
        edges = await there.edges(ADA, [ids[other.task]], 10)
        assert [(edge.source, edge.target, edge.type) for edge in edges] == [
            (ids[TASK.task], ids[other.task], EdgeType.FOLLOWED_BY)
        ]
        await there.aclose()
    assert exports[0] == exports[1]


@pytest.mark.parametrize("data", [b"", b"no json", b'{"type":"wake_up","version":1,"actor":"acme"}',
                                  b'{"type":"wake_up","version":1,"actor":"acme/task-1-1"}'])  # fmt: skip
async def test_an_entry_that_names_no_task_of_the_shard_is_set_aside(
    store: Store, tmp_path: Path, graph: SqliteGraph, data: bytes
) -> None:
    with pytest.raises(PoisonError):
        await learning(store, tmp_path, graph).handle(Entry(LEARN.key(0), "1-1", data))


async def test_what_the_model_has_noted_is_found_and_goes_with_the_message_that_led_to_it(
    store: Store, tmp_path: Path, graph: SqliteGraph
) -> None:
    vectors = EdgeVectors(tmp_path / "vectors")
    handler = learning(store, tmp_path, graph, vectors)
    await end(store, TRIP)
    await end(store, [("user", "please note when the ferry leaves: at nine", "ada")])
    note = calling("memory_note", '{"text":"The ferry leaves at nine."}')
    await store.call("RPUSH", TASK.log, entry(answered(None, tool_calls=[note]), TranscriptMeta(at=AT, step=2)))
    for _ in range(2):
        await handler.handle(told())
    [fact] = [node for node in await graph.node_page("acme", 99) if node.text == "The ferry leaves at nine."]
    assert (fact.text, fact.owner, [anchor_of(each.anchor).position for each in fact.supports]) == (
        "The ferry leaves at nine.", ADA, [3]
    )  # fmt: skip
    [found] = await everything(vectors)
    assert (found.id, found.payload.kind, found.payload.type) == (fact.id, "semantic", "fact")
    await exclude(store, 2, 3)
    await handler.handle(told())
    assert await everything(vectors) == []
    assert await names(graph) == {"Mimi Solberg": "ada", "Tromso": "ada"}
    await vectors.aclose()


async def test_what_was_noted_in_an_erased_task_is_not_found_whoever_writes_it_late(
    store: Store, tmp_path: Path, graph: SqliteGraph
) -> None:
    vectors = EdgeVectors(tmp_path / "vectors")
    handler = learning(store, tmp_path, graph, vectors)
    await end(store, [("user", "please note when the ferry leaves: at nine", "ada")])
    note = calling("memory_note", '{"text":"The ferry leaves at nine."}')
    await store.call("RPUSH", TASK.log, entry(answered(None, tool_calls=[note]), TranscriptMeta(at=AT, step=2)))
    await handler.handle(told())
    assert await everything(vectors) != []
    await store.call("HSET", TASK.erased, "at", 1)
    await handler.handle(told())
    assert (await everything(vectors), await graph.node_page("acme", 99)) == ([], [])
    await vectors.aclose()


async def test_a_graph_that_is_away_is_waited_for(store: Store, tmp_path: Path) -> None:
    in_its_place = tmp_path / "graph"
    in_its_place.write_text("a file where the folder should be")
    graph = SqliteGraph(in_its_place / "graph.db")
    handler = learning(store, tmp_path, graph)
    await end(store, TRIP)
    with pytest.raises(MemoryOutageError):
        await handler.handle(told())
    in_its_place.unlink()
    await handler.handle(told())
    assert len(await names(graph)) == 2
    await graph.aclose()
