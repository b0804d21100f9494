"""Memory as tools: whose it is comes from the task, never from what the model writes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.quotes import quotes_in
from pentad.contracts.records import TranscriptMeta
from pentad.contracts.tools import MEMORY_FORGET, RECALLING_TOOLS, Effect, ToolOutcome
from pentad.services.tool_worker.builtins.catalogue import Builtins
from pentad.services.tool_worker.builtins.memory_search import MemoryReader, memory_tools
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.services.tool_worker.transcripts import Transcripts
from pentad.shared.actors.transcript import entry
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.archiver_client import ArchiverGraph
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.walks import HitWalks
from pentad.shared.plugins.context import ToolContext
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from tests.support.remembering import remember
from tests.unit.segments.transcripts import AT, HOSTILE, answered, said

CAT, CODE = "my cat is called Ada", "my locker code is swordfish"
SHARED = [said(CAT), answered("A fine name.")]
ADAS = [said(CODE, user_id="ada"), answered("Kept."), said("and the boat is green", user_id="bob")]


class Worker:
    """The built-in tools over a memory of two tasks."""

    def __init__(self, store: Store, vectors: EdgeVectors, folder: Path) -> None:
        transcripts = Transcripts(store, Records(str(folder / "records")), 1)
        self._tools = Builtins(
            memory_tools(
                MemoryReader(
                    store, MemorySearch(vectors, HashingEmbedder()), HitWalks(ArchiverGraph(store)), transcripts, 1
                )
            )
        )

    as_of: datetime | None = None
    """The time as of which the calling task sees the memory."""

    task = "task-0-9"
    """Id of the calling task."""

    async def call(self, tool: str, user: str | None = None, tenant: str = "acme", **args: Any) -> ToolOutcome:
        context = ToolContext("call-0-1", "call-0-1", 1, tenant, user, "s1", self.task, as_of=self.as_of)
        return await self._tools.run(ToolInvocation(tool, args, 5.0, context), lambda _text, _share: None)

    async def found(self, query: str, **more: Any) -> list[str]:
        return [quote.text for quote in quotes_in((await self.call("memory_search", query=query, **more)).text)]

    async def anchor(self, query: str, user: str | None = None) -> str:
        return quotes_in((await self.call("memory_search", user, query=query)).text)[0].anchor


@asynccontextmanager
async def live(store: Store, task: str, messages: list[dict[str, Any]], **header: str) -> AsyncIterator[None]:
    keys = TaskKeys(0, "acme", task)
    for message in messages:
        known = {name: message[name] for name in ("user_id", "step") if name in message}
        plain = {"role": message["role"], "content": message["content"]}
        await store.call("RPUSH", keys.log, entry(plain, TranscriptMeta(at=message["at"], **known)))
    fields = {"status": "completed", "session": "s1"} | header
    await store.call("HSET", keys.header, *(part for pair in fields.items() for part in pair))
    yield


@pytest.fixture
async def worker(store: Store, tmp_path: Path) -> AsyncIterator[Worker]:
    vectors = EdgeVectors(tmp_path / "vectors")
    await remember(vectors, "acme", "task-0-1", SHARED)
    await remember(vectors, "acme", "task-0-2", ADAS)
    async with live(store, "task-0-1", SHARED), live(store, "task-0-2", ADAS):
        yield Worker(store, vectors, tmp_path)
    await vectors.aclose()


def test_they_are_offered_as_tools_that_only_read_and_name_no_user(store: Store, tmp_path: Path) -> None:
    vectors, transcripts = EdgeVectors(tmp_path), Transcripts(store, Records(str(tmp_path)), 1)
    tools = memory_tools(
        MemoryReader(store, MemorySearch(vectors, HashingEmbedder()), HitWalks(ArchiverGraph(store)), transcripts, 1)
    )
    assert set(tools) == RECALLING_TOOLS - {MEMORY_FORGET}
    for tool in tools.values():
        assert tool.spec.effect is Effect.PURE
        assert not {"user", "user_id", "tenant", "context"} & set(tool.spec.parameters["properties"])


async def test_a_search_finds_what_the_tasks_user_may_see(worker: Worker) -> None:
    assert (await worker.found("what is my cat called?"))[0] == CAT
    assert CODE in await worker.found("locker code", user="ada")
    for user in ("bob", None):
        assert CODE not in await worker.found("locker code swordfish", user=user, limit=20)
    assert await worker.found("cat", tenant="other") == []


async def test_as_of_another_time_it_finds_what_had_been_said(worker: Worker) -> None:
    assert CAT in await worker.found("what is my cat called?", as_of=AT)
    assert await worker.found("what is my cat called?", as_of="2001-01-01T00:00:00Z") == []


async def test_a_message_of_the_conversation_itself_opens_by_its_number(worker: Worker) -> None:
    """Promise: what a summary stands for stays readable, by those who may read it."""
    worker.task = "task-0-1"
    for number in ("0", "[0]", " 0 "):
        assert quotes_in((await worker.call("memory_expand", anchor=number)).text)[0].text == CAT
    worker.task = "task-0-2"
    assert CODE in (await worker.call("memory_expand", "ada", anchor="0")).text
    for anchor, task in (("99", "task-0-1"), ("0", "task-0-9"), ("0", "task-0-2"), ("-1", "task-0-1")):
        worker.task = task
        refused = await worker.call("memory_expand", "bob", anchor=anchor)
        assert refused.kind == "error"
        assert CODE not in refused.text


async def test_a_fork_finds_and_opens_nothing_that_was_said_after_its_step(worker: Worker) -> None:
    anchor, at = await worker.anchor("what is my cat called?"), datetime.fromisoformat(AT)
    worker.as_of = at
    assert CAT in await worker.found("what is my cat called?")
    assert CAT in (await worker.call("memory_expand", anchor=anchor)).text
    worker.as_of = at - timedelta(milliseconds=1)
    assert await worker.found("what is my cat called?") == []
    assert await worker.found("what is my cat called?", as_of="2040-01-01T00:00:00Z") == [], "no argument widens it"
    assert (await worker.call("memory_expand", anchor=anchor)).kind == "error"


async def test_no_argument_makes_it_anothers(worker: Worker) -> None:
    for more in ({"user_id": "ada"}, {"context": {"user_id": "ada"}}, {"tenant_id": "acme"}):
        outcome = await worker.call("memory_search", "bob", query="locker code", **more)
        assert outcome.kind == "error"
        assert "unknown" in outcome.text


async def test_an_anchor_opens_the_words_in_their_place(worker: Worker) -> None:
    opened = await worker.call("memory_expand", anchor=await worker.anchor("what is my cat called?"))
    assert [(quote.text, quote.focus) for quote in quotes_in(opened.text)] == [(CAT, True), ("A fine name.", None)]


async def test_an_anchor_of_another_user_opens_nothing_nor_do_words_beside_ones_own(worker: Worker) -> None:
    hers = await worker.anchor("locker code", "ada")
    assert [quote.text for quote in quotes_in((await worker.call("memory_expand", "ada", anchor=hers)).text)] == [
        CODE,
        "Kept.",
    ]
    for user in ("bob", None):
        refused = await worker.call("memory_expand", user, anchor=hers)
        assert (refused.kind, "swordfish" in refused.text) == ("error", False)
    assert (await worker.call("memory_expand", "ada", "other", anchor=hers)).kind == "error"
    his = await worker.anchor("what colour is the boat", "bob")
    opened = await worker.call("memory_expand", "bob", anchor=his)
    assert [quote.text for quote in quotes_in(opened.text)] == ["and the boat is green"]


async def test_a_task_of_before_speakers_were_written_is_its_beginners(store: Store, tmp_path: Path) -> None:
    old = [said("my pin is 1234"), answered("Kept.")]
    async with live(store, "task-0-3", old, user="ada"):
        vectors = EdgeVectors(tmp_path / "old")
        await remember(vectors, "acme", "task-0-3", old)
        theirs = Worker(store, vectors, tmp_path)
        anchor = await theirs.anchor("pin")
        assert (await theirs.call("memory_expand", "bob", anchor=anchor)).kind == "error"
        assert (await theirs.call("memory_expand", "ada", anchor=anchor)).kind == "ok"
        await vectors.aclose()


@pytest.mark.parametrize("anchor", ["x", "a1.", "a1.W10", "a9.WyJ0Il0", *(text[:512] for text in HOSTILE if text)])
async def test_what_is_no_anchor_is_an_error_of_the_call(worker: Worker, anchor: str) -> None:
    assert (await worker.call("memory_expand", anchor=anchor)).kind == "error"


@pytest.mark.parametrize(
    "args",
    [
        {"query": ""},
        {"query": "x" * 2_001},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": 21},
        {"query": "?!"},
        {"query": "x", "as_of": "yesterday"},
        {"query": "x", "as_of": "9" * 65},
        {},
    ],
)
async def test_searches_out_of_bounds_are_errors_of_the_call(worker: Worker, args: dict[str, Any]) -> None:
    assert (await worker.call("memory_search", **args)).kind == "error"


async def test_a_memory_that_is_away_is_an_error_of_the_call(worker: Worker, tmp_path: Path, store: Store) -> None:
    vectors = EdgeVectors(tmp_path / "away")
    await vectors.aclose()
    outcome = await Worker(store, vectors, tmp_path).call("memory_search", query="cat")
    assert outcome.kind == "error"
