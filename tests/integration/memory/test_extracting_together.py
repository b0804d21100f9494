"""Short tasks of one owner are asked about in one call; each record keeps its own part, whoever is killed."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.commands import WakeUp
from pentad.contracts.records import TaskRecord
from pentad.contracts.streams import EXTRACT
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.extracting import Extracting
from pentad.services.archiver.near_nodes import NearNodes
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.errors import MemoryOutageError
from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, NodeKind
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.extraction_budget import ExtractionBudget
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.ports import ModelCutOff
from pentad.shared.owners import session_holder
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.points import Point
from pentad.shared.work.entry import Entry
from tests.integration.memory.dying import Dying, KilledError
from tests.integration.memory.learned import extracting
from tests.integration.memory.remembered import AT, everything
from tests.support.graph_export import exported
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, cut, fail, refuse, say

GATHER_S = 0.3
"""Long enough for tasks that are begun together to come to the same question."""


class Dead(Dying):
    """Who has died writes nothing more, also not what was under way beside it."""

    dead = False

    async def at(self, write: Callable[[], Any]) -> None:
        self.left -= 1
        last = self.left == 0
        self.dead = self.dead or (last and not self.after)
        if not self.dead:
            await write()
        self.dead = self.dead or last
        if self.dead:
            raise KilledError


class DyingGraph(SqliteGraph):
    dying: Dying

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        await self.dying.at(lambda: SqliteGraph.upsert_nodes(self, nodes))

    async def upsert_edges(self, edges: Sequence[MemoryEdge]) -> None:
        await self.dying.at(lambda: SqliteGraph.upsert_edges(self, edges))


class DyingVectors(EdgeVectors):
    dying: Dying

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        await self.dying.at(lambda: EdgeVectors.upsert(self, collection, points))


class DyingRecords(Records):
    dying: Dying

    async def write(self, record: TaskRecord) -> None:
        await self.dying.at(lambda: Records.write(self, record))


class Archive:
    """Archived tasks in a folder, and archivers that ask a model about them."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.dying = store, Dead()
        self.graph, self.vectors = DyingGraph(folder / "graph.db"), DyingVectors(folder / "vectors")
        self.records = DyingRecords(str(folder / "records"))
        for each in (self.graph, self.vectors, self.records):
            each.dying = self.dying

    async def add(self, number: int, *said: tuple[str, str | None], tenant: str = "acme", **more: Any) -> TaskKeys:
        """A task in which users have said this; without a user it is its session's."""
        keys = TaskKeys(0, tenant, f"task-0-{number}")
        messages = [
            {"role": "user", "content": text, "at": AT, "message_id": f"m{n}"}
            | ({"user_id": user} if user else {"memory_session": f"s{number}"})
            for n, (text, user) in enumerate(said)
        ]
        task = {"task_id": keys.task, "session_id": f"s{number}", "status": "completed", "goal": "g", "steps": 1}
        task |= {"created_at": AT, "updated_at": AT, "archived_at": AT, "instruction": "executor"}
        task |= {"usage": {"input_tokens": 0, "output_tokens": 0}}
        record = {"tenant_id": tenant, "task": task, "messages": messages, "steps": [], **more}
        await Records(self.records._place.url).write(TaskRecord.model_validate(record))
        return keys

    def archiver(self, chat: OpenAIChat | None, budget: ExtractionBudget | None = None) -> Extracting:
        near = NearNodes(self.vectors, HashingEmbedder(), self.graph)
        ended = EndedTasks(self.store, self.records, self.vectors)
        return extracting(self.store, self.records, ended, self.graph, near, chat, budget, GATHER_S)

    async def extract(self, archiver: Extracting, *tasks: TaskKeys) -> list[BaseException | None]:
        """Handle the entries of these tasks at once; returns what each ended with."""
        return await asyncio.gather(*(archiver.handle(asked(keys)) for keys in tasks), return_exceptions=True)

    async def answer(self, keys: TaskKeys) -> dict[str, Any]:
        record = await self.records.read(keys.tenant, keys.task)
        assert record is not None
        assert record.extraction is not None
        return record.extraction

    async def texts(self, tenant: str = "acme", kind: NodeKind | None = None) -> list[str]:
        nodes = await self.graph.node_page(tenant, 1000)
        kinds = {kind} if kind else {NodeKind.FACT, NodeKind.CONCEPT}
        return sorted(node.text for node in nodes if node.kind in kinds)

    async def aclose(self) -> None:
        await self.graph.aclose()
        await self.vectors.aclose()


def asked(keys: TaskKeys) -> Entry:
    return Entry(EXTRACT.key(keys.shard), "1-1", WakeUp(actor=keys.actor).to_json())


@pytest.fixture
async def archive(store: Store, tmp_path: Path) -> AsyncIterator[Archive]:
    made = Archive(store, tmp_path)
    yield made
    await made.aclose()


def question_in(request: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(request["messages"][1]["content"])
    return shown


def diligent(request: dict[str, Any]) -> Reply:
    """Find a fact in each segment, and join each to the one before it, and to all that is known."""
    shown = question_in(request)
    nodes, edges = [], []
    for each in shown["segments"]:
        name = f"f{each['n']}"
        text = f"It was said: {each['text']}"[:400]
        nodes.append({"id": name, "kind": "fact", "text": text, "importance": 0.9, "segments": [each["n"]]})
        others = [known["id"] for known in shown["known"] if known["text"] != text]
        others += [f"f{each['n'] - 1}"] if each["n"] > 1 else []
        edges += [
            {"from": name, "to": other, "type": "related_to", "weight": 0.5, "segments": [each["n"]]}
            for other in others
        ]
    return say(json.dumps({"nodes": nodes, "edges": edges}))


@asynccontextmanager
async def model(
    script: Callable[[dict[str, Any]], Reply] = diligent,
) -> AsyncIterator[tuple[ScriptedModel, OpenAIChat]]:
    async with ScriptedModel(script) as server:
        chat = OpenAIChat(server.base_url, "none", "scripted")
        yield server, chat
        await chat.aclose()


def facts(*said: str) -> list[str]:
    return sorted(f"It was said: {text}" for text in said)


FERRY, CAT, BOSS = "My ferry leaves at nine.", "My cat is called Mimi.", "My boss is called Olav Hagen."


async def test_short_tasks_of_a_user_are_one_call_and_each_record_has_its_own_part(archive: Archive) -> None:
    tasks = [await archive.add(n, (text, "ada")) for n, text in enumerate((FERRY, CAT, BOSS), start=1)]
    async with model() as (server, chat):
        archiver = archive.archiver(chat)
        assert await archive.extract(archiver, *tasks) == [None, None, None]
        assert len(server.seen.chats) == 1
        assert await archive.extract(archiver, *tasks) == [None, None, None]
        assert len(server.seen.chats) == 1, "a redelivery asks nobody"
    assert await archive.texts() == facts(FERRY, CAT, BOSS)
    assert (await archive.graph.tally("acme")).edges == 2
    order = [each["text"] for each in question_in(server.seen.chats[0])["segments"]]
    for keys, text in zip(tasks, (FERRY, CAT, BOSS), strict=True):
        kept = await archive.answer(keys)
        assert [node["text"] for node in kept["value"]["nodes"]] == facts(text)
        others = json.dumps({"near": kept["near"], "value": kept["value"]})
        assert not any(other in others for other in order if other != text), "no words of another task are kept"


async def test_tenants_users_and_sessions_share_no_question(archive: Archive) -> None:
    tasks = [
        await archive.add(1, (FERRY, "ada")),
        await archive.add(2, (CAT, "bob")),
        await archive.add(3, (BOSS, "ada"), tenant="other"),
        await archive.add(4, ("I live in Bergen.", None)),
        await archive.add(5, ("I live in Oslo.", None)),
    ]
    async with model() as (server, chat):
        assert not any(await archive.extract(archive.archiver(chat), *tasks))
    shown = [[each["text"] for each in question_in(request)["segments"]] for request in server.seen.chats]
    assert sorted(shown) == sorted([[FERRY], [CAT], [BOSS], ["I live in Bergen."], ["I live in Oslo."]])
    holders = {node.owner.holder for node in await archive.graph.node_page("acme", 100)}
    assert {"ada", "bob", session_holder("s4"), session_holder("s5")} == holders


async def test_a_long_task_and_one_of_several_users_are_asked_about_alone(archive: Archive) -> None:
    long = [(f"{n} {'word ' * 100}.", "ada") for n in range(30)]
    tasks = [
        await archive.add(1, *long),
        await archive.add(2, (CAT, "ada"), (BOSS, "bob")),
        await archive.add(3, (FERRY, "ada")),
        await archive.add(4, ("I live in Bergen.", "ada")),
    ]
    async with model() as (server, chat):
        assert not any(await archive.extract(archive.archiver(chat), *tasks))
    shown = [{each.get("task", 1) for each in question_in(request)["segments"]} for request in server.seen.chats]
    assert sorted(map(len, shown)) == [1, 1, 2]


async def test_no_question_is_about_more_than_sixteen_tasks(archive: Archive) -> None:
    tasks = [await archive.add(n, (f"My number {n} is lucky.", "ada")) for n in range(1, 20)]
    async with model() as (server, chat):
        assert not any(await archive.extract(archive.archiver(chat), *tasks))
    assert sorted(len(question_in(request)["segments"]) for request in server.seen.chats) == [3, 16]


async def test_a_poisonous_task_does_not_spoil_its_neighbours(archive: Archive) -> None:
    tasks = [await archive.add(n, (text, "ada")) for n, text in enumerate((FERRY, CAT, BOSS), start=1)]

    def poisoned(request: dict[str, Any]) -> Reply:
        return say("what a nice cat!") if CAT in request["messages"][1]["content"] else diligent(request)

    async with model(poisoned) as (server, chat):
        assert not any(await archive.extract(archive.archiver(chat), *tasks))
    assert len(server.seen.chats) == 2 + 1 + 4 + 1, "together twice, and the poisonous one alone as often as always"
    assert await archive.texts() == sorted([*facts(FERRY, BOSS), CAT]), "what is unusable is found by rule"
    assert "cannot be used" in (await archive.answer(tasks[1]))["problem"]


async def test_an_answer_about_several_that_breaks_off_is_asked_for_one_by_one(archive: Archive) -> None:
    tasks = [await archive.add(n, (text, "ada")) for n, text in enumerate((FERRY, CAT), start=1)]

    def breaks(request: dict[str, Any]) -> Reply:
        return cut(2) if len(question_in(request)["segments"]) > 1 else diligent(request)

    async with model(breaks) as (_, chat):
        assert not any(await archive.extract(archive.archiver(chat), *tasks))
    assert await archive.texts() == facts(FERRY, CAT)


async def test_a_task_whose_answer_always_breaks_off_has_its_facts_by_rule(archive: Archive) -> None:
    task = await archive.add(1, (CAT, "ada"))
    async with model(lambda _: cut(2)) as (_, chat):
        archiver = archive.archiver(chat)
        [first] = await archive.extract(archiver, task)
        assert isinstance(first, ModelCutOff)
        assert await archive.extract(archiver, task) == [None]
    assert await archive.texts() == [CAT]


async def test_a_model_that_refuses_everything_is_asked_once_for_all(archive: Archive) -> None:
    tasks = [await archive.add(n, (text, "ada")) for n, text in enumerate((CAT, BOSS), start=1)]
    async with model(lambda _: refuse(401, {"error": {"message": "no such key"}})) as (server, chat):
        assert not any(await archive.extract(archive.archiver(chat), *tasks))
    assert len(server.seen.chats) == 1
    assert await archive.texts() == sorted([CAT, BOSS])


async def test_a_model_that_is_away_is_waited_for(archive: Archive) -> None:
    tasks = [await archive.add(n, (text, "ada")) for n, text in enumerate((CAT, BOSS), start=1)]
    async with model(lambda _: fail(503)) as (_, chat):
        found = await archive.extract(archive.archiver(chat), *tasks)
    assert all(isinstance(each, MemoryOutageError) for each in found)
    async with model() as (_, chat):
        assert not any(await archive.extract(archive.archiver(chat), *tasks))
    assert await archive.texts() == facts(CAT, BOSS)


async def test_while_the_graph_is_away_no_model_is_asked_for_what_cannot_be_written(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await archive.add(1, (CAT, "ada"))

    async def away(*_: Any) -> list[MemoryNode]:
        raise MemoryOutageError("the graph is away")

    async with model() as (server, chat):
        archiver = archive.archiver(chat)
        with monkeypatch.context() as patched:
            patched.setattr(archive.graph, "nodes", away)
            for _ in range(3):
                [found] = await archive.extract(archiver, task)
                assert isinstance(found, MemoryOutageError)
        assert server.seen.chats == []
        assert await archive.extract(archiver, task) == [None]
    assert await archive.texts() == facts(CAT)


@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_each_write_only_those_without_an_answer_are_asked_about_again(
    store: Store, tmp_path: Path, after: bool
) -> None:
    async def run(name: str, left: int) -> tuple[Any, list[int], int]:
        archive = Archive(store, tmp_path / f"{name}-{after}")
        tasks = [await archive.add(n, (text, "ada")) for n, text in enumerate((FERRY, CAT), start=1)]
        archive.dying.left, archive.dying.after = left, after
        async with model() as (server, chat):
            found = await archive.extract(archive.archiver(chat), *tasks)
            assert bool(left) == any(isinstance(each, KilledError) for each in found)
            archive.dying.dead = False
            for keys in tasks:  # redelivered, to an archiver that knows nothing
                assert await archive.extract(archive.archiver(chat), keys) == [None]
        export = await exported(archive.graph, "acme"), await everything(archive.vectors)
        writes = left - archive.dying.left
        await archive.aclose()
        return export, [len(question_in(request)["segments"]) for request in server.seen.chats], writes

    undisturbed, asks, _ = await run("calm", 0)
    assert asks == [2]
    assert sum("related_to" in line for line in undisturbed[0]) == 1
    for at in range(1, 9):  # two records, then nodes, edges and points of each
        export, asks, _ = await run(f"killed-{at}", at)
        kept = at - 1 + after if at <= 2 else 2
        assert asks == [2] + [1] * (2 - kept)
        assert export == undisturbed, at


async def test_an_edge_to_a_task_that_was_not_written_yet_has_it_written_first(archive: Archive) -> None:
    """Entries of one question may be redelivered in any order."""
    tasks = [await archive.add(n, (text, "ada")) for n, text in enumerate((FERRY, CAT), start=1)]
    archive.dying.left, archive.dying.after = 2, True
    async with model() as (_, chat):
        await archive.extract(archive.archiver(chat), *tasks)
        assert await archive.texts() == []
        archive.dying.dead = False
        assert (await archive.answer(tasks[1]))["after"] == [tasks[0].task]
        assert await archive.extract(archive.archiver(chat), tasks[1]) == [None]
    assert (await archive.texts(), (await archive.graph.tally("acme")).edges) == (facts(FERRY, CAT), 1)


async def test_tasks_whose_edges_lead_to_an_erased_one_are_written_again_once_for_each_that_names_them(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [await archive.add(n, (f"My number {n} is lucky.", "ada")) for n in range(1, 9)]

    def all_joined(request: dict[str, Any]) -> Reply:
        shown = question_in(request)["segments"]
        nodes = [
            {"id": f"f{n}", "kind": "fact", "text": each["text"], "importance": 0.9, "segments": [n]}
            for n, each in enumerate(shown, start=1)
        ]
        edges = [
            {"from": f"f{n}", "to": f"f{to}", "type": "related_to", "weight": 0.5, "segments": [n]}
            for n in range(2, len(shown) + 1)
            for to in range(1, n)
        ]
        return say(json.dumps({"nodes": nodes, "edges": edges}))

    async with model(all_joined) as (server, chat):
        assert not any(await archive.extract(archive.archiver(chat), *tasks))
        assert len(server.seen.chats) == 1
    assert (await archive.graph.tally("acme")).edges == 7 * 8 / 2
    await archive.records.remove("acme", tasks[0].task)
    await archive.graph.forget_task("acme", tasks[0].task)
    writes = 0
    upsert = archive.graph.upsert_nodes

    async def counted(nodes: Sequence[MemoryNode]) -> None:
        nonlocal writes
        writes += 1
        await upsert(nodes)

    monkeypatch.setattr(archive.graph, "upsert_nodes", counted)
    await archive.archiver(None).rebuild(tasks[-1])
    assert writes <= len(tasks)
    assert (await archive.graph.tally("acme")).edges == 6 * 7 / 2


async def test_who_stops_gives_up_the_call_that_nobody_waits_for(archive: Archive) -> None:
    tasks = [await archive.add(n, (text, "ada")) for n, text in enumerate((FERRY, CAT), start=1)]
    asked_about = asyncio.Event()

    def slow(request: dict[str, Any]) -> Reply:
        asked_about.set()
        return say("late", delay=60.0, chunks=2)

    async with model(slow) as (_, chat):
        archiver = archive.archiver(chat)
        handling = [asyncio.create_task(archiver.handle(asked(keys))) for keys in tasks]
        await asked_about.wait()
        for each in handling:
            each.cancel()
        assert all(
            isinstance(e, asyncio.CancelledError) for e in await asyncio.gather(*handling, return_exceptions=True)
        )
        names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]  # type: ignore[union-attr]
        assert not any("GroupedCalls" in name for name in names)
