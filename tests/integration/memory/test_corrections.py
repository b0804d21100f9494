"""What was corrected is recalled as it is now and found as it was, each with its source, in every pair of stores."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import milliseconds
from pentad.contracts.quotes import quotes_in
from pentad.contracts.records import TaskRecord
from pentad.contracts.streams import EXTRACT
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.near_nodes import NearNodes
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.graph.graph_store import Graph
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.ranking import MemoryHit, MemoryQuestion
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.task_recall import RecallQuestion
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.segments.anchors import anchor_of
from pentad.shared.segments.expansion import expanded
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.entry import Entry
from tests.integration.memory.both_stores import BOTH, vectors_and_graph
from tests.integration.memory.learned import extracting
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, say
from tests.support.neo4j.neo4j_server import neo4j_server
from tests.support.recalling import recalling
from tests.support.remembering import remember
from tests.support.waiting import PATIENCE_S
from tests.unit.segments.transcripts import answered, said

__all__ = ["neo4j_server"]

NINE, TEN = "The ferry to Bergen leaves at nine.", "The ferry to Bergen leaves at ten."
SAID_NINE, SAID_TEN = "Our ferry to Bergen, it leaves at nine o'clock", "Now the ferry to Bergen leaves at ten o'clock"
SAID_AGAIN = "From today the ferry to Bergen leaves at nine o'clock again"
JANUARY, FEBRUARY, MARCH = (f"2030-0{month}-01T12:00:00.000Z" for month in (1, 2, 3))
APRIL = milliseconds("2030-04-01T00:00:00Z")
ASKED = "When does the ferry to Bergen leave?"


class Taught:
    """Tasks that were remembered and extracted from, by a model that knows what contradicts what."""

    def __init__(self, store: Store, folder: Path, vectors: Vectors, graph: Graph) -> None:
        self.owner = Owner(f"t{uuid4().hex}", "ada")
        self.store, self.vectors, self.graph = store, vectors, graph
        self.records = Records(str(folder / "records"))

    async def teach(self, number: int, text: str, at: str, fact: str, against: str = "") -> None:
        """A task says this; ``against``: the fact that it contradicts."""
        task = f"task-0-{number}"
        messages = [said(text, at=at, user_id="ada"), answered("I see.") | {"at": at}]
        described: dict[str, Any] = {"task_id": task, "session_id": "s1", "status": "completed", "goal": "g"}
        described |= {"created_at": at, "updated_at": at, "archived_at": at, "instruction": "executor", "steps": 1}
        described |= {"usage": {"input_tokens": 0, "output_tokens": 0}, "user_id": "ada"}
        record = {"tenant_id": self.owner.tenant, "task": described, "messages": messages, "steps": []}
        await self.records.write(TaskRecord.model_validate(record))
        await remember(self.vectors, self.owner.tenant, task, messages)
        await self._extract(TaskKeys(0, self.owner.tenant, task), fact, against)

    async def _extract(self, keys: TaskKeys, fact: str, against: str) -> None:
        def answer(request: dict[str, Any]) -> Reply:
            known = json.loads(request["messages"][1]["content"])["known"]
            edges = [
                {"from": "a", "to": each["id"], "type": "contradicts", "weight": 1, "segments": [1]}
                for each in known
                if each["text"] == against
            ]
            node = {"id": "a", "kind": "fact", "text": fact, "importance": 0.9, "segments": [1]}
            return say(json.dumps({"nodes": [node], "edges": edges}))

        near = NearNodes(self.vectors, HashingEmbedder(), self.graph)
        ended = EndedTasks(self.store, self.records, self.vectors)
        async with ScriptedModel(answer) as server:
            chat = OpenAIChat(server.base_url, "none", "scripted")
            entry = Entry(EXTRACT.key(0), "1-1", WakeUp(actor=keys.actor).to_json())
            await extracting(self.store, self.records, ended, self.graph, near, chat).handle(entry)
            await chat.aclose()

    async def hits(self, as_of: str | None = None) -> list[MemoryHit]:
        moment = None if as_of is None else milliseconds(as_of)
        asked = MemoryQuestion(self.owner, ASKED, 20, APRIL, as_of=moment)
        return await MemorySearch(self.vectors, HashingEmbedder()).search(asked, self._requester())

    async def found(self, as_of: str | None = None) -> set[str]:
        """What is found of the facts and of what users said; every anchor opens where it was said."""
        hits = await self.hits(as_of)
        for hit in hits:
            assert (await self.opened(hit.payload.anchor)) in (hit.payload.text, *(SAID_NINE, SAID_TEN, SAID_AGAIN))
        return {hit.payload.text for hit in hits} - {"I see."}

    async def opened(self, anchor: str) -> str:
        place = anchor_of(anchor)
        record = await self.records.read(self.owner.tenant, place.task_id)
        assert record is not None
        return expanded(self.owner.tenant, place, record.messages).focus.text

    async def recalled(self) -> set[str]:
        asked = RecallQuestion(self.owner, [ASKED], (), "task-0-99", APRIL)
        found = await recalling(self.store, self.vectors, timeout_s=PATIENCE_S, graph=self.graph).recall(
            asked, self._requester()
        )
        quotes = quotes_in(found.text)
        for quote in quotes:
            assert await self.opened(quote.anchor) in (SAID_NINE, SAID_TEN, SAID_AGAIN, "I see.")
        return {quote.text for quote in quotes} - {"I see."}

    def _requester(self) -> Requester:
        return Requester(0, self.owner.tenant, "s2")


@pytest.fixture(params=BOTH)
async def taught(request: Any, store: Store, tmp_path: Path) -> AsyncIterator[Taught]:
    async with vectors_and_graph(request, tmp_path) as (vectors, graph):
        yield Taught(store, tmp_path, vectors, graph)


async def test_a_corrected_fact_is_recalled_as_it_is_and_found_as_it_was(taught: Taught) -> None:
    await taught.teach(1, SAID_NINE, JANUARY, NINE)
    assert await taught.recalled() == {NINE, SAID_NINE}
    await taught.teach(2, SAID_TEN, FEBRUARY, TEN, against=NINE)
    assert await taught.recalled() == await taught.found() == {TEN, SAID_TEN}
    assert await taught.found("2030-01-15T00:00:00Z") == {NINE, SAID_NINE}
    assert await taught.found(FEBRUARY) == {TEN, SAID_TEN}
    assert await taught.found("2029-12-31T00:00:00Z") == set()


async def test_what_was_true_before_and_is_said_again_is_true_again(taught: Taught) -> None:
    await taught.teach(1, SAID_NINE, JANUARY, NINE)
    await taught.teach(2, SAID_TEN, FEBRUARY, TEN, against=NINE)
    await taught.teach(3, SAID_AGAIN, MARCH, NINE, against=TEN)
    assert await taught.found() == {NINE, SAID_NINE, SAID_AGAIN}
    assert await taught.found("2030-02-15T00:00:00Z") == {TEN, SAID_TEN}
    assert await taught.found("2030-01-15T00:00:00Z") == {NINE, SAID_NINE}


async def test_a_correction_that_is_learned_before_what_it_corrects_ends_the_older_one(taught: Taught) -> None:
    """Tasks are extracted from in the order in which they leave Redis."""
    await taught.teach(2, SAID_TEN, FEBRUARY, TEN)
    await taught.teach(1, SAID_NINE, JANUARY, NINE, against=TEN)
    assert TEN in await taught.found()
    assert await taught.found("2030-01-15T00:00:00Z") == {NINE, SAID_NINE}
