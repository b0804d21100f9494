"""A recall costs little where there is nothing, and nothing but itself where the memory is away."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from pentad.contracts.quotes import quotes_in
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.embedder.vectors import Embedded, Requester
from pentad.shared.errors import MemoryOutageError
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import remembers
from pentad.shared.memory.archiver_client import ArchiverGraph
from pentad.shared.memory.nodes import reembedded_node_point
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.task_recall import Recall, RecallQuestion, TaskRecall
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.memory.walks import HitWalks
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.points import Hit, KeptPoint
from pentad.shared.vectors.selection import Selection, VectorQuery
from tests.integration.memory.remembered import end, remembering, woken
from tests.support.recalling import recalling
from tests.support.remembering import COLLECTION, MODEL, remember
from tests.unit.segments.transcripts import HOSTILE, answered, said

ASKING = Requester(0, "acme", "s1")
CAT = "my cat is called Ada"


class Counted(EdgeVectors):
    """Counts what it is asked, and fails, or never answers, as long as it is told to."""

    asked = 0
    fails = hangs = False

    async def _trouble(self) -> None:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise MemoryOutageError("away")

    async def search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        await self._trouble()
        return await super().search(collection, queries)

    async def count(self, collection: str, selection: Selection) -> int:
        await self._trouble()
        return await super().count(collection, selection)


class Silent(HashingEmbedder):
    """An embedding service that is away."""

    async def embed(self, texts: Sequence[str], requester: Requester) -> Embedded:
        raise ModelUnavailable("away")


@pytest.fixture
async def vectors(tmp_path: Path) -> AsyncIterator[Counted]:
    made = Counted(tmp_path / "vectors")
    yield made
    await made.aclose()


def question(text: str, tenant: str = "acme", user: str | None = None, task: str = "task-0-9") -> RecallQuestion:
    return RecallQuestion(Owner(tenant, user), [text], (), task, 1_900_000_000_000)


async def asked(memory: TaskRecall, text: str = "what is my cat called?", tenant: str = "acme") -> Recall:
    """As a task asks."""
    return memory.at_once(tenant) or await memory.recall(question(text, tenant), ASKING)


async def taught(vectors: EdgeVectors) -> None:
    await remember(vectors, "acme", "task-0-1", [said(CAT), answered("A fine name.")])


def quoted(found: Recall) -> list[str]:
    return [quote.text for quote in quotes_in(found.text)]


async def test_what_is_known_is_quoted_with_its_anchors(store: Store, vectors: Counted) -> None:
    await taught(vectors)
    found = await asked(recalling(store, vectors))
    assert found.outcome == "recalled"
    assert quoted(found)[0] == CAT
    assert found.anchors == tuple(quote.anchor for quote in quotes_in(found.text))


async def test_a_question_about_nothing_known_quotes_nothing(store: Store, vectors: Counted) -> None:
    await taught(vectors)
    for text in ("what is the capital of Mongolia?", "hello", "?!"):
        assert await asked(recalling(store, vectors), text) == Recall("nothing")


async def test_who_has_no_memories_is_asked_about_once_and_then_not_at_all(store: Store, vectors: Counted) -> None:
    await taught(vectors)
    memory = recalling(store, vectors)
    assert (await asked(memory, tenant="empty")).outcome == "no_memory"
    once = vectors.asked
    assert await store.call("GET", remembers("empty")) == b"0"
    assert 0 < await store.call("TTL", remembers("empty")) <= 60
    for _ in range(20):
        assert (await asked(memory, tenant="empty")).outcome == "no_memory"
    assert (await asked(recalling(store, vectors), tenant="empty")).outcome == "no_memory", "another process"
    assert vectors.asked == once


async def test_the_first_that_is_written_ends_the_emptiness(store: Store, tmp_path: Path, vectors: Counted) -> None:
    memory = recalling(store, vectors)
    assert (await asked(memory)).outcome == "no_memory"
    await end(store, [("user", CAT, None), ("assistant", "Noted.", None)])
    await remembering(store, tmp_path, vectors).handle(woken())
    assert await store.call("GET", remembers("acme")) == b"1"
    assert (await asked(recalling(store, vectors))).outcome == "recalled", "a process that has not looked yet"


async def test_memories_of_before_are_noticed_though_nobody_told(store: Store, vectors: Counted) -> None:
    await taught(vectors)
    assert await store.call("GET", remembers("acme")) is None
    assert (await asked(recalling(store, vectors))).outcome == "recalled"
    assert await store.call("GET", remembers("acme")) == b"1"


async def test_what_is_known_alone_is_noticed_though_nobody_told(
    store: Store, vectors: Counted, tmp_path: Path
) -> None:
    """A fact that was added by hand a day ago, where no task was remembered: the note beside the memory has ended."""
    await taught(vectors)
    [segment] = (await vectors.scroll(COLLECTION, Selection(Owner("acme"), kinds=(SEGMENT_KIND,)), 9)).points[:1]
    node = KeptPoint(str(UUID(int=7)), replace(segment.payload, kind=NODE_KIND, type="fact", text=CAT))
    [vector] = await MODEL.embed([CAT])
    await vectors.delete(COLLECTION, Selection(Owner("acme")))
    await vectors.upsert(COLLECTION, [reembedded_node_point(node, vector)])
    graph = SqliteGraph(tmp_path / "graph.db")
    found = await asked(recalling(store, vectors, graph=graph))
    assert (found.outcome, quoted(found)) == ("recalled", [CAT])
    await graph.aclose()


async def test_who_counts_does_not_undo_what_who_writes_has_told(store: Store) -> None:
    reader, writer = TenantMemories(store), TenantMemories(store)
    await writer.writing("acme")
    await reader.looked("acme", there=False)
    assert await TenantMemories(store).look("acme") is True


async def test_an_outage_costs_three_recalls_and_then_nobody_asks(store: Store, vectors: Counted) -> None:
    await taught(vectors)
    await TenantMemories(store).writing("acme")
    memory, vectors.fails = recalling(store, vectors), True
    assert [(await asked(memory)).outcome for _ in range(10)] == ["away"] * 10
    assert vectors.asked == 3


async def test_a_tenant_without_memories_does_not_make_an_outage_look_over(store: Store, vectors: Counted) -> None:
    tenants = TenantMemories(store)
    await tenants.writing("acme")
    await tenants.looked("empty", there=False)
    memory, vectors.fails = recalling(store, vectors), True
    for _ in range(2):
        assert (await asked(memory)).outcome == "away"
        assert (await asked(memory, tenant="empty")).outcome == "no_memory"
        assert (await asked(memory, "thanks")).outcome == "nothing"
    assert (await asked(memory)).outcome == "away"
    assert (vectors.asked, memory.at_once("acme")) == (3, Recall("away")), "three in a row, whatever came between"


async def test_no_answer_in_time_is_left_alone_likewise(store: Store, vectors: Counted) -> None:
    await taught(vectors)
    await TenantMemories(store).writing("acme")
    memory, vectors.hangs = recalling(store, vectors, timeout_s=0.05), True
    assert [(await asked(memory)).outcome for _ in range(6)] == [*["late"] * 3, *["away"] * 3]
    assert vectors.asked == 3


async def test_an_embedding_service_that_is_away_is_an_outage(store: Store, vectors: Counted) -> None:
    await TenantMemories(store).writing("acme")
    memory = TaskRecall(MemorySearch(vectors, Silent()), HitWalks(ArchiverGraph(store)), TenantMemories(store), 2000)
    assert (await asked(memory)).outcome == "away"


async def test_a_recall_that_is_cancelled_counts_for_nothing(store: Store, vectors: Counted) -> None:
    await taught(vectors)
    await TenantMemories(store).writing("acme")
    memory, vectors.hangs = recalling(store, vectors), True
    for _ in range(5):
        work = asyncio.ensure_future(asked(memory))
        await asyncio.sleep(0)
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
    vectors.hangs = False
    assert (await asked(memory)).outcome == "recalled"


async def test_off_asks_nobody(store: Store, vectors: Counted) -> None:
    await taught(vectors)
    assert await asked(recalling(store, vectors, tokens=0)) == Recall("off")
    assert vectors.asked == 0


async def test_other_users_memories_and_the_tasks_own_are_not_recalled(store: Store, vectors: Counted) -> None:
    await remember(vectors, "acme", "task-0-2", [said("my locker code is swordfish", user_id="ada")])
    memory = recalling(store, vectors)
    text = "what is my locker code?"
    assert (await memory.recall(question(text, user="ada"), ASKING)).outcome == "recalled"
    for other in (question(text, user="bob"), question(text), question(text, user="ada", task="task-0-2")):
        assert (await memory.recall(other, ASKING)).outcome == "nothing"


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_messages_recall_something_or_nothing(text: str, store: Store, vectors: Counted) -> None:
    await remember(vectors, "acme", "task-0-1", [said(CAT)])
    assert (await asked(recalling(store, vectors), text)).outcome in ("nothing", "recalled")


async def test_where_nobody_has_told_of_a_memory_one_recall_finds_out_that_it_is_away(
    store: Store, vectors: Counted
) -> None:
    memory, vectors.fails = recalling(store, vectors), True
    assert [(await asked(memory)).outcome for _ in range(5)] == ["away"] * 5
    assert vectors.asked == 1
