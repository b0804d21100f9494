"""What a model makes of an archived task is asked once, kept with its record, supported, always written the same."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import ARCHIVE, ERASE, EXTRACT
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.extracting import Extracting
from pentad.services.archiver.handlers import Archiving
from pentad.services.archiver.near_nodes import NearNodes
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.errors import MemoryOutageError, OutageError, PoisonError
from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, NodeKind, Tally
from pentad.shared.graph.merging import node_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import TaskKeys, bell
from pentad.shared.memory.forgetting import Forgetter
from pentad.shared.models.offline.model import OfflineModel
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.ports import ChatModel, ModelCutOff
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.segments.anchors import anchor_of
from pentad.shared.segments.expansion import expanded
from pentad.shared.store.store import Argument, Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.points import Point
from pentad.shared.work.entry import Entry
from tests.integration.memory.dying import Dying, KilledError
from tests.integration.memory.learned import extracting, extraction_model
from tests.integration.memory.remembered import TASK, end, everything
from tests.support.graph_export import exported
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, cut, fail, say

ADA = Owner("acme", "ada")
SAID = [("user", "The ferry to Bergen leaves at nine.", "ada"), ("assistant", "I keep that in mind.", None)]
FERRY = {"id": "a", "kind": "fact", "text": "The ferry to Bergen leaves at nine.", "importance": 0.9, "segments": [1]}
TOWN = {"id": "b", "kind": "concept", "text": "Bergen is a town with a ferry.", "importance": 0.5, "segments": [1, 2]}
EDGE = {"from": "a", "to": "b", "type": "related_to", "weight": 0.7, "segments": [1]}
ANSWER = {"nodes": [FERRY, TOWN], "edges": [EDGE]}


class DyingGraph(SqliteGraph):
    dying: Dying

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        await self.dying.at(lambda: SqliteGraph.upsert_nodes(self, nodes))

    async def upsert_edges(self, edges: Sequence[MemoryEdge]) -> None:
        await self.dying.at(lambda: SqliteGraph.upsert_edges(self, edges))

    async def end(self, owner: Owner, ids: Sequence[str], at: int) -> None:
        await self.dying.at(lambda: SqliteGraph.end(self, owner, ids, at))


class DyingVectors(EdgeVectors):
    dying: Dying

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        await self.dying.at(lambda: EdgeVectors.upsert(self, collection, points))


class DyingRecords(Records):
    dying: Dying

    async def write(self, record: Any) -> None:
        await self.dying.at(lambda: Records.write(self, record))


class Stores:
    """A folder's record, graph and vectors, and the handler that writes them."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.dying = store, Dying()
        self.chat: ChatModel = OpenAIChat("http://127.0.0.1:9", "none", "there")
        """The model that is there when a task is archived."""
        self.graph, self.vectors = DyingGraph(folder / "graph.db"), DyingVectors(folder / "vectors")
        self.records = DyingRecords(str(folder / "records"))
        for each in (self.graph, self.vectors, self.records):
            each.dying = self.dying

    async def archive(self, said: Sequence[tuple[str, str, str | None]] = SAID, keys: TaskKeys = TASK) -> list[Any]:
        """A task has ended and is archived; returns what was queued for extraction."""
        await self.store.call("DEL", keys.log, keys.header, EXTRACT.key(0))
        if keys is TASK:
            await end(self.store, said, goal="g", user="ada")
        entry = Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=keys.actor).to_json())
        await Archiving(self.store, self.records, 0, 60, extraction_model(self.store, self.chat)).handle(entry)
        return list(await self.store.call("XRANGE", EXTRACT.key(0), "-", "+"))

    def extracting(self, chat: ChatModel) -> Extracting:
        near = NearNodes(self.vectors, HashingEmbedder(), self.graph)
        ended = EndedTasks(self.store, self.records, self.vectors)
        return extracting(self.store, self.records, ended, self.graph, near, chat)

    async def export(self) -> tuple[list[str], list[Any]]:
        return await exported(self.graph, "acme"), await everything(self.vectors)

    async def aclose(self) -> None:
        await self.graph.aclose()
        await self.vectors.aclose()


@pytest.fixture
async def stores(store: Store, tmp_path: Path) -> AsyncIterator[Stores]:
    made = Stores(store, tmp_path)
    yield made
    await made.aclose()


@asynccontextmanager
async def answering(*replies: Reply | dict[str, Any]) -> AsyncIterator[tuple[ScriptedModel, OpenAIChat]]:
    """A model that answers so, one reply after the other, the last for ever."""
    left = [reply if isinstance(reply, Reply) else say(json.dumps(reply)) for reply in replies]
    async with ScriptedModel(lambda request: left.pop(0) if len(left) > 1 else left[0]) as server:
        chat = OpenAIChat(server.base_url, "none", "scripted")
        yield server, chat
        await chat.aclose()


def asked(keys: TaskKeys = TASK) -> Entry:
    return Entry(EXTRACT.key(keys.shard), "1-1", WakeUp(actor=keys.actor).to_json())


async def test_an_archived_task_is_asked_about_and_each_node_opens_at_its_words(stores: Stores) -> None:
    assert len(await stores.archive()) == 1
    async with answering(ANSWER) as (server, chat):
        await stores.extracting(chat).handle(asked())
    [request] = server.seen.chats
    assert '"text":"The ferry to Bergen leaves at nine."' in request["messages"][1]["content"]
    fact, town = node_id(ADA, NodeKind.FACT, FERRY["text"]), node_id(ADA, NodeKind.CONCEPT, TOWN["text"])  # type: ignore[arg-type]
    nodes = {node.id: node for node in await stores.graph.nodes(ADA, [fact, town])}
    record = await stores.records.read("acme", TASK.task)
    assert record is not None
    [support] = nodes[fact].supports
    assert expanded("acme", anchor_of(support.anchor), record.messages).focus.text == SAID[0][1]
    [edge] = await stores.graph.edges(ADA, [fact], 9)
    assert (edge.source, edge.target, edge.weight) == (fact, town, 0.7)
    assert {(each.id, each.payload.kind) for each in await everything(stores.vectors)} == {
        (fact, "semantic"), (town, "semantic")
    }  # fmt: skip
    assert await stores.graph.nodes(Owner("acme", "bob"), [fact, town]) == []


async def test_an_archiver_that_dies_when_a_task_has_left_redis_has_asked_for_its_extraction(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry is acknowledged by then: nobody would ask in its place."""
    run = Store.run

    async def dies(self: Store, name: str, *rest: Any) -> Any:
        outcome = await run(self, name, *rest)
        if name == "archive":
            raise OutageError("dead")
        return outcome

    monkeypatch.setattr(Store, "run", dies)
    with pytest.raises(OutageError):
        await stores.archive()
    assert await stores.store.call("EXISTS", TASK.header) == 0
    assert await stores.store.call("XLEN", EXTRACT.key(0)) == 1


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_each_write_a_redelivery_asks_nobody_again_and_leaves_the_same(
    store: Store, tmp_path: Path, after: bool
) -> None:
    async def run(name: str, left: int) -> tuple[Any, int, int]:
        stores = Stores(store, tmp_path / f"{name}-{after}")
        await stores.archive()
        stores.dying.left, stores.dying.after = left, after
        other = ANSWER | {"nodes": [FERRY | {"text": "Said another way the second time."}], "edges": []}
        async with answering(ANSWER, other) as (server, chat):
            try:
                await stores.extracting(chat).handle(asked())
            except KilledError:
                await stores.extracting(chat).handle(asked())
        export, asks, writes = await stores.export(), len(server.seen.chats), left - stores.dying.left
        await stores.aclose()
        return export, asks, writes

    undisturbed, _, writes = await run("calm", 0)
    assert writes == 4, "the record, nodes, edges, points"
    for at in range(1, writes + 1):
        export, asks, _ = await run(f"killed-{at}", at)
        if at == 1 and not after:
            assert asks == 2, "nothing was kept yet, and nothing written"
        else:
            assert (export, asks) == (undisturbed, 1)


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_each_write_of_a_correction_a_redelivery_leaves_the_same(
    store: Store, tmp_path: Path, after: bool
) -> None:
    """Also what searches know of the fact that is true no more."""
    new = FERRY | {"text": "The ferry to Bergen leaves at ten.", "segments": [3]}
    against = {"from": "a", "to": "k1", "type": "contradicts", "weight": 1, "segments": [3]}

    async def run(name: str, left: int) -> tuple[Any, int]:
        stores = Stores(store, tmp_path / f"{name}-{after}")
        await stores.archive()
        async with answering({"nodes": [FERRY], "edges": []}) as (_, chat):
            await stores.extracting(chat).handle(asked())
        await stores.archive([*SAID, ("user", "No, the ferry to Bergen leaves at ten!", "ada")])
        stores.dying.left, stores.dying.after = left, after
        async with answering({"nodes": [new], "edges": [against]}) as (_, chat):
            try:
                await stores.extracting(chat).handle(asked())
            except KilledError:
                await stores.extracting(chat).handle(asked())
        export, writes = await stores.export(), left - stores.dying.left
        await stores.aclose()
        return export, writes

    undisturbed, writes = await run("calm", 0)
    assert writes == 6, "the record, nodes, edges, the end, points, the point of what ended"
    assert sum("contradicted" in point.payload.details for point in undisturbed[1]) == 1
    for at in range(1, writes + 1):
        assert (await run(f"killed-{at}", at))[0] == undisturbed


async def test_what_was_forgotten_is_not_brought_back_by_a_redelivery(stores: Stores) -> None:
    await stores.archive()
    fact = node_id(ADA, NodeKind.FACT, str(FERRY["text"]))
    async with answering(ANSWER) as (server, chat):
        await stores.extracting(chat).handle(asked())
        [node] = await stores.graph.nodes(ADA, [fact])
        forgetter = Forgetter(stores.store, stores.vectors, stores.graph, 1)
        await forgetter.nodes("acme", [node])
        left = await stores.export()
        await stores.extracting(chat).handle(asked())
    assert (await stores.export(), len(server.seen.chats)) == (left, 1)
    assert [each.payload.text for each in await everything(stores.vectors)] == [TOWN["text"]]


class Full(Records):
    """Can be read, and not written while it is full."""

    full = True

    async def write(self, record: Any) -> None:
        if self.full:
            raise OutageError("no space is left")
        await super().write(record)


async def test_an_answer_that_cannot_be_kept_yet_is_not_asked_for_again(stores: Stores, tmp_path: Path) -> None:
    await stores.archive()
    async with answering(ANSWER) as (server, chat):
        handler = stores.extracting(chat)
        handler._records = full = Full(str(tmp_path / "records"))
        for _ in range(3):
            with pytest.raises(OutageError):
                await handler.handle(asked())
        assert await stores.graph.tally("acme") == Tally(0, 0), "nothing is written before the answer is kept"
        full.full = False
        await handler.handle(asked())
    assert (len(server.seen.chats), await stores.graph.tally("acme")) == (1, Tally(2, 1))
    record = await stores.records.read("acme", TASK.task)
    assert record is not None
    assert record.extraction is not None


async def test_what_nothing_supports_is_refused(stores: Stores) -> None:
    await stores.archive()
    invented = FERRY | {"id": "c", "text": "The moon is made of cheese.", "segments": [9]}
    async with answering({"nodes": [FERRY, invented], "edges": [EDGE | {"to": "c"}]}) as (_, chat):
        await stores.extracting(chat).handle(asked())
    assert await stores.graph.tally("acme") == Tally(1, 0)


async def test_a_correction_ends_what_was_known_and_what_is_said_again_is_joined(stores: Stores) -> None:
    await stores.archive()
    async with answering({"nodes": [FERRY], "edges": []}) as (_, chat):
        await stores.extracting(chat).handle(asked())
    old = node_id(ADA, NodeKind.FACT, str(FERRY["text"]))
    await stores.archive([*SAID, ("user", "At nine leaves the ferry to Bergen? No, it leaves at ten!", "ada")])
    new = FERRY | {"text": "The ferry to Bergen leaves at ten.", "segments": [3]}
    again = FERRY | {"id": "b", "text": "At nine the ferry to Bergen leaves.", "segments": [3]}
    against = {"from": "a", "to": "k1", "type": "contradicts", "weight": 1, "segments": [3]}
    async with answering({"nodes": [new, again], "edges": [against]}) as (server, chat):
        await stores.extracting(chat).handle(asked())
    assert (
        '"known":[{"id":"k1","kind":"fact","text":"The ferry to Bergen leaves at nine."}]'
        in (server.seen.chats[0]["messages"][1]["content"])
    )
    nodes = {node.text: node for node in await stores.graph.node_page("acme", 9)}
    assert set(nodes) == {FERRY["text"], new["text"]}, "the same words in another order are no new fact"
    assert (nodes[str(FERRY["text"])].id, len(nodes[str(FERRY["text"])].supports)) == (old, 2)
    assert nodes[str(FERRY["text"])].true_until is not None
    assert nodes[str(new["text"])].true_until is None


async def test_a_wrong_answer_is_repaired_and_one_that_stays_wrong_is_given_up(stores: Stores) -> None:
    await stores.archive()
    async with answering(say("no json"), {"nodes": [{}], "edges": []}, ANSWER) as (server, chat):
        await stores.extracting(chat).handle(asked())
    assert (len(server.seen.chats), (await stores.graph.tally("acme")).nodes) == (3, 2)
    await stores.archive([*SAID, ("user", "more", "ada")])
    async with answering(say("no json")) as (server, chat):
        for _ in range(2):
            await stores.extracting(chat).handle(asked())
    assert len(server.seen.chats) == 4, "once and three repairs; then it is not asked again"
    record = await stores.records.read("acme", TASK.task)
    assert record is not None
    assert record.extraction is not None
    assert "not JSON" in record.extraction["problem"]


@pytest.mark.parametrize("reply", [fail(503), cut(1), cut(2)])
async def test_a_model_that_is_away_or_breaks_off_is_asked_again(stores: Stores, reply: Reply) -> None:
    await stores.archive()
    async with answering(reply) as (_, chat):
        with pytest.raises((MemoryOutageError, ModelCutOff)):
            await stores.extracting(chat).handle(asked())
    async with answering(ANSWER) as (_, chat):
        await stores.extracting(chat).handle(asked())
    assert (await stores.graph.tally("acme")).nodes == 2


async def test_the_offline_model_is_not_asked(stores: Stores) -> None:
    await stores.archive()
    await stores.extracting(OfflineModel()).handle(asked())
    assert await stores.graph.tally("acme") == Tally(0, 0)


async def test_who_dies_after_a_task_has_left_redis_asks_all_the_same(stores: Stores) -> None:
    await stores.archive()
    assert len(await stores.archive(keys=TaskKeys(0, "acme", "task-0-9"))) == 1
    async with answering(ANSWER) as (server, chat):
        await stores.extracting(chat).handle(asked(TaskKeys(0, "acme", "task-0-9")))
    assert server.seen.chats == [], "there is no record of it"


@pytest.mark.parametrize("at", [2, 3, 4])
async def test_what_was_written_behind_an_erasure_goes_with_the_redelivery_of_who_died(stores: Stores, at: int) -> None:
    """The erasure had removed all that there was, the record too, before the write at which the archiver died."""
    await stores.archive()
    stores.dying.left, stores.dying.after = at, True
    async with answering(ANSWER) as (_, chat):
        with pytest.raises(KilledError):
            await stores.extracting(chat).handle(asked())
        args: list[Argument] = ["0-0", "", 60, "", "", TASK.tenant]
        await stores.store.run("erase_mark", [TASK.erased, ERASE.key(0), TASK.wake, bell(0)], args)
        await stores.records.remove("acme", TASK.task)
        await stores.extracting(chat).handle(asked())
    assert await stores.export() == ([], [])


async def test_a_slow_writer_of_the_record_does_not_take_the_answer_away(stores: Stores) -> None:
    await stores.archive()
    late = await stores.records.read("acme", TASK.task)
    async with answering(ANSWER) as (server, chat):
        await stores.extracting(chat).handle(asked())
        assert late is not None
        await stores.records.write(late)
        await stores.extracting(chat).handle(asked())
    assert len(server.seen.chats) == 1


@pytest.mark.parametrize("data", [b"", b"no json", b'{"type":"wake_up","version":1,"actor":"acme/task-1-1"}'])
async def test_an_entry_that_names_no_task_of_the_shard_is_set_aside(stores: Stores, data: bytes) -> None:
    with pytest.raises(PoisonError):
        await stores.extracting(OfflineModel()).handle(Entry(EXTRACT.key(0), "1-1", data))
