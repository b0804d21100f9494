"""A model says how the graph is walked for a new task: once, kept before it is used; else the rule says it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.quotes import quotes_in
from pentad.contracts.recalls import RecallWalk
from pentad.contracts.records import Anchor, Manifest, SegmentType, StepRecord
from pentad.services.task_runner.initial_recall import ModelWalkChooser
from pentad.shared import metrics
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, NodeKind, Support
from pentad.shared.graph.merging import node_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.nodes import NodePointWriter
from pentad.shared.memory.task_recall import RecallQuestion
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.models.model_pool import pool_of
from pentad.shared.models.offline.model import OfflineModel
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.ports import ChatModel
from pentad.shared.owners import Owner
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.selection import Selection, Whose
from tests.integration.handlers.flow import Flow, answer
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, fail, say
from tests.support.recalling import recalling
from tests.support.remembering import COLLECTION, remember
from tests.support.waiting import PATIENCE_S
from tests.unit.segments.transcripts import answered, said

OWNER = Owner("default")
FERRY, BOAT, TICKET, PIER = (
    "The ferry leaves at nine",
    "A ferry is a boat",
    "Tickets cost ten crowns",
    "It is at pier 4",
)
ASKS = "When does the ferry leave?"


def fact(text: str) -> MemoryNode:
    place = Anchor(
        task_id="task-0-old", position=0, part=0, segment=len(text), step=0, type=SegmentType.USER_MESSAGE, at="",
        start=0, end=len(text), quote="0" * 32,
    )  # fmt: skip
    support = Support(anchor_text(place), "task-0-old", None, 1_000)
    return MemoryNode(node_id(OWNER, NodeKind.FACT, text), OWNER, NodeKind.FACT, text, 0.5, 1_000, (support,))


def edge(source: str, target: str) -> MemoryEdge:
    ends = fact(source), fact(target)
    return MemoryEdge(OWNER, ends[0].id, ends[1].id, EdgeType.RELATED_TO, 0.9, 1_000, ends[0].supports)


class Tasks:
    """New tasks that recall what two facts lead to, each in a process of its own."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.vectors, self.graph = EdgeVectors(folder / "vectors"), SqliteGraph(folder / "graph.db")

    async def prepare(self) -> "Tasks":
        await TenantMemories(self.store).writing(OWNER.tenant)
        await self.graph.upsert_nodes([fact(text) for text in (FERRY, BOAT, TICKET, PIER)])
        await self.graph.upsert_edges([edge(FERRY, TICKET), edge(BOAT, PIER)])
        points = NodePointWriter(self.vectors, HashingEmbedder(), self.graph)
        await points.write([fact(FERRY), fact(BOAT)], "s1", Requester(0, OWNER.tenant, "s1"))
        return self

    async def begin(self, chat: ChatModel, patience_s: float = PATIENCE_S) -> tuple[list[str], Manifest, TaskKeys]:
        """What a task recalls, its manifest and its keys."""
        chooser = ModelWalkChooser(self.store, pool_of(chat), InstructionBook(self.store), patience_s)
        recall = recalling(self.store, self.vectors, timeout_s=PATIENCE_S, graph=self.graph, chooser=chooser)
        prompts: list[Any] = []

        def model(request: Any) -> Any:
            prompts.append(json.loads(request.messages[1]))
            return answer("At nine.")

        flow = await Flow(self.store, self.folder, model, recall=recall).prepare()
        await flow.say(ASKS)
        await flow.drive()
        keys = await flow.task()
        (step,) = await self.store.call("LRANGE", keys.steps, 0, -1)
        quotes = [quote.text for quote in quotes_in(prompts[0]["content"])]
        return quotes, StepRecord.model_validate_json(step).manifest, keys

    async def aclose(self) -> None:
        await self.vectors.aclose()
        await self.graph.aclose()


@pytest.fixture
async def tasks(store: Store, tmp_path: Path) -> AsyncIterator[Tasks]:
    made = await Tasks(store, tmp_path).prepare()
    yield made
    await made.aclose()


@asynccontextmanager
async def answering(reply: Reply | dict[str, Any]) -> AsyncIterator[tuple[ScriptedModel, OpenAIChat]]:
    """A model that always answers so."""
    told = reply if isinstance(reply, Reply) else say(json.dumps(reply))
    async with ScriptedModel(lambda request: told) as server:
        chat = OpenAIChat(server.base_url, "none", "scripted")
        yield server, chat
        await chat.aclose()


async def test_it_is_walked_as_the_model_says_and_the_manifest_names_it(tasks: Tasks) -> None:
    async with answering({"strategy": "bfs", "start_nodes": ["k2"]}) as (server, chat):
        quotes, manifest, keys = await tasks.begin(chat)
    [asked] = server.seen.chats
    shown = json.loads(asked["messages"][1]["content"])
    assert (shown["question"], [each["text"] for each in shown["known"]]) == (ASKS, [FERRY, BOAT])
    assert PIER in quotes
    assert TICKET not in quotes
    assert manifest.walk == RecallWalk(strategy="bfs", starts=[fact(BOAT).id], by="memory_retriever")
    assert 0 < await tasks.store.call("TTL", keys.walk) <= 3_600


async def test_who_begins_the_task_anew_asks_nobody(tasks: Tasks) -> None:
    async with answering({"strategy": "bfs", "start_nodes": ["k2"]}) as (_, chat):
        _, _, keys = await tasks.begin(chat)
    async with answering({"strategy": "dfs", "start_nodes": ["k1"]}) as (server, chat):
        chooser = ModelWalkChooser(tasks.store, pool_of(chat), InstructionBook(tasks.store))
        recall = recalling(tasks.store, tasks.vectors, timeout_s=PATIENCE_S, graph=tasks.graph, chooser=chooser)
        question = RecallQuestion(OWNER, [ASKS], (), keys.task, 1_900_000_000_000)
        found = await recall.recall(question, Requester(0, OWNER.tenant, "s1", keys.task))
    assert server.seen.chats == []
    assert (found.walk and found.walk.strategy, PIER in found.text) == ("bfs", True)


async def test_where_nothing_known_is_among_the_best_nobody_is_asked(tasks: Tasks) -> None:
    await remember(tasks.vectors, OWNER.tenant, "task-0-red", [said("My bicycle is painted red"), answered("Nice.")])
    async with answering({"strategy": "bfs", "start_nodes": ["k1"]}) as (server, chat):
        chooser = ModelWalkChooser(tasks.store, pool_of(chat), InstructionBook(tasks.store))
        recall = recalling(tasks.store, tasks.vectors, timeout_s=PATIENCE_S, graph=tasks.graph, chooser=chooser)
        question = RecallQuestion(OWNER, ["which colour is my bicycle painted"], (), "task-0-new", 1_900_000_000_000)
        found = await recall.recall(question, Requester(0, OWNER.tenant, "s1", "task-0-new"))
    assert (found.outcome, found.walk, server.seen.chats) == ("recalled", None, [])


async def test_the_model_may_say_that_none_is_needed(tasks: Tasks) -> None:
    async with answering({"strategy": "none", "start_nodes": []}) as (_, chat):
        quotes, manifest, _ = await tasks.begin(chat)
    assert not {PIER, TICKET} & set(quotes)
    assert manifest.walk == RecallWalk(strategy="none", by="memory_retriever")


@pytest.mark.parametrize(
    ("reply", "patience_s", "problem"),
    [
        (fail(503), PATIENCE_S, ""),
        (say("no idea"), PATIENCE_S, "cannot be used"),
        (say('{"strategy":"bfs","start_nodes":["k77"]}'), PATIENCE_S, "nothing that was shown"),
        (say('{"strategy":"bfs","start_nodes":["k1"]}', delay=30.0, chunks=2), 0.1, "within 0.1 s"),
    ],
)
async def test_where_it_is_gone_slow_or_wrong_the_rule_says_and_the_manifest_why(
    tasks: Tasks, reply: Reply, patience_s: float, problem: str
) -> None:
    async with answering(reply) as (_, chat):
        quotes, manifest, keys = await tasks.begin(chat, patience_s)
    assert {TICKET, FERRY} <= set(quotes)
    assert manifest.recall == "recalled"
    assert manifest.walk is not None
    assert (manifest.walk.by, manifest.walk.strategy) == ("rule", "astar")
    assert problem in (manifest.walk.problem or "nothing is said")
    assert await tasks.store.call("EXISTS", keys.walk) == 0, "what the rule says is not kept as the model's"


async def test_where_the_rule_starts_from_all_that_is_known_nobody_is_asked(tasks: Tasks) -> None:
    await tasks.vectors.delete(COLLECTION, Selection(OWNER, Whose.ALL, ids=(fact(FERRY).id,)))
    async with answering({"strategy": "bfs", "start_nodes": ["k1"]}) as (server, chat):
        chooser = ModelWalkChooser(tasks.store, pool_of(chat), InstructionBook(tasks.store))
        recall = recalling(tasks.store, tasks.vectors, timeout_s=PATIENCE_S, graph=tasks.graph, chooser=chooser)
        said_first = ["Is a ferry a boat, and a boat a ferry?"]
        question = RecallQuestion(OWNER, said_first, (), "task-0-new", 1_900_000_000_000)
        found = await recall.recall(question, Requester(0, OWNER.tenant, "s1", "task-0-new"))
    assert found.walk is not None
    assert (found.walk.by, found.walk.problem) == ("rule", None)
    assert server.seen.chats == [], "there is nothing to choose"


async def test_a_model_that_keeps_being_late_holds_up_no_more_tasks(tasks: Tasks) -> None:
    late = metrics.retriever_seconds.labels("late")
    before = [*late.buckets()][-1][1]
    reply = say('{"strategy":"bfs","start_nodes":["k1"]}', delay=30.0, chunks=2)
    async with answering(reply) as (server, chat):
        chooser = ModelWalkChooser(tasks.store, pool_of(chat), InstructionBook(tasks.store), 0.1)
        recall = recalling(tasks.store, tasks.vectors, timeout_s=PATIENCE_S, graph=tasks.graph, chooser=chooser)
        problems = []
        for number in range(6):
            question = RecallQuestion(OWNER, [ASKS], (), f"task-0-{number}", 1_900_000_000_000)
            found = await recall.recall(question, Requester(0, OWNER.tenant, "s1", question.task))
            assert found.walk is not None
            problems.append(found.walk.problem or "")
    assert [*late.buckets()][-1][1] - before == len(server.seen.chats) <= 4, "three, and perhaps one that finds out"
    assert "left alone for a while" in problems[3]
    assert all(problems)


async def test_what_the_choice_of_a_walk_has_cost_is_counted(tasks: Tasks) -> None:
    tokens, chosen = metrics.internal_tokens, metrics.retriever_seconds.labels("chosen")
    before = [tokens.labels("memory_retriever", way).value for way in ("input", "output")]
    times = [*chosen.buckets()][-1][1]
    async with answering({"strategy": "bfs", "start_nodes": ["k2"]}) as (_, chat):
        await tasks.begin(chat)
    after = [tokens.labels("memory_retriever", way).value for way in ("input", "output")]
    assert all(new > old for old, new in zip(before, after, strict=True))
    assert [*chosen.buckets()][-1][1] == times + 1


async def test_the_offline_model_is_not_asked(tasks: Tasks) -> None:
    quotes, manifest, _ = await tasks.begin(OfflineModel())
    assert TICKET in quotes
    assert manifest.walk is not None
    assert (manifest.walk.by, manifest.walk.problem) == ("rule", None)
