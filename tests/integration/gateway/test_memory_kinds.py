"""Working, episodic and semantic memory: each is added to, retrieved from, counted and cleared by itself."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.cli import memory as memory_command
from pentad.client.agent import connect
from pentad.contracts.records import TranscriptMeta
from pentad.contracts.streams import REMEMBER
from pentad.errors import Refused
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.memory_server import MemoryServer
from pentad.services.archiver.remembering import Remembering
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.domain.episode import read_episode
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.actors.session_header import recent_field
from pentad.shared.actors.transcript import entry
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.memory.forgotten import prepare_forgotten
from pentad.shared.memory.working_memory import MOST_ENTRIES
from pentad.shared.records.record_store import Records
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.memory.serving import serving
from tests.support.waiting import in_time

AT = "2030-01-31T12:00:00.000Z"
CAT = "my cat is called Ada"


class Memory:
    """What an archiver has open."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._records = store, Records(str(folder / "records"))
        self.vectors, self.graph = ChildVectors(folder / "vectors"), SqliteGraph(folder / "graph.db")

    async def remember(self) -> int:
        """What was asked for since the last time; how much that is."""
        ended = EndedTasks(self._store, self._records, self.vectors)
        handler = Remembering(self._store, ended, self.vectors, HashingEmbedder())
        entries = await self._store.call("XRANGE", REMEMBER.key(0), "-", "+")
        await self._store.call("DEL", REMEMBER.key(0))
        for name, fields in entries:
            await handler.handle(Entry(REMEMBER.key(0), name.decode(), fields[1]))
        return len(entries)


@pytest.fixture
async def memory(store: Store, tmp_path: Path) -> AsyncIterator[Memory]:
    made = Memory(store, tmp_path)
    await prepare_forgotten(made.vectors)
    async with serving(store, MemoryServer(store, made.vectors, made.graph).handle):
        yield made
    await made.vectors.aclose()
    await made.graph.aclose()


async def talk(store: Store, task: str, said: list[tuple[str, str, str | None]], status: str = "active") -> None:
    """A task of session s1: role, text and user of each message."""
    keys, session = TaskKeys(0, "default", task), SessionKeys(0, "default", "s1")
    for role, text, user in said:
        await store.call("RPUSH", keys.log, entry({"role": role, "content": text}, TranscriptMeta(at=AT, user_id=user)))
    await store.call("HSET", keys.header, "status", status, "session", "s1", "created", 1, "updated", 1)
    await store.call("HSET", session.header, recent_field(task), task.rpartition("-")[2])


async def found(http: httpx2.AsyncClient, question: str, **query: Any) -> list[str]:
    response = await http.get("/v1/memory/search", params={"q": question, **query})
    assert response.status_code == 200, response.text
    return [hit["content"] for hit in response.json()["hits"]]


async def test_what_is_said_now_is_found_before_its_task_has_ended_and_its_anchor_opens(
    http: httpx2.AsyncClient, store: Store
) -> None:
    await talk(store, "task-0-1", [("user", "hello", None), ("user", CAT, None), ("assistant", "Fine.", None)])
    await talk(store, "task-0-2", [("user", "what is 6*7?", None), ("assistant", "42", None)], "completed")
    query = {"kind": "working", "session_id": "s1"}
    [hit] = (await http.get("/v1/memory/search", params={"q": "what is my cat called?"} | query)).json()["hits"][:1]
    assert (hit["content"], hit["kind"], hit["type"], hit["task_id"]) == (CAT, "working", "user_message", "task-0-1")
    opened = (await http.post("/v1/memory/expand", json={"anchor": hit["anchor"]})).json()
    assert (opened["focus"]["content"], opened["before"][0]["content"]) == (CAT, "hello")
    assert await found(http, "zebra", **query) == []
    assert await found(http, "cat", kind="working", session_id="s2") == []
    assert (await http.get("/v1/memory/stats", params=query)).json() == {"segments": 5, "tasks": 2}


async def test_of_a_long_task_the_newest_is_found_at_its_place_and_of_another_user_nothing(
    http: httpx2.AsyncClient, store: Store
) -> None:
    before = [("user" if n % 2 else "assistant", f"number{n}", "bob" if n % 2 else None) for n in range(7)]
    long = [("user", CAT, "ada"), *(("assistant", f"answer{n}", None) for n in range(MOST_ENTRIES - 2))]
    await talk(store, "task-0-1", [*before, *long])
    query = {"kind": "working", "session_id": "s1"}
    for user, expected in (("ada", [CAT]), ("bob", []), (None, [])):
        asked = query if user is None else query | {"user_id": user}
        assert await found(http, "cat", **asked) == expected
    [hit] = (await http.get("/v1/memory/search", params={"q": "cat", "user_id": "ada"} | query)).json()["hits"]
    opened = (await http.post("/v1/memory/expand", json={"anchor": hit["anchor"], "window": 1})).json()
    assert [opened[name][0]["content"] for name in ("before", "after")] == ["number6", "answer0"]
    assert await found(http, "number1 number3", user_id="bob", **query) == [], "it lies too far back"
    await talk(store, "task-0-1", [("assistant", "answer and more", None)])
    assert await found(http, "cat", user_id="ada", **query) == [CAT]
    await talk(store, "task-0-1", [("assistant", "answer and more", None)])
    for user in ("ada", "bob"):
        assert await found(http, "answer0 answer7", user_id=user, **query) == [], "nobody can tell whose turn it was"


async def test_of_very_long_messages_so_many_bytes_are_read_and_the_newest_is_found(
    http: httpx2.AsyncClient, store: Store
) -> None:
    """Entries are read sixteen at once: a search in one conversation is no way to fill the gateway's memory."""
    long = "x" * (1 << 19)
    await talk(store, "task-0-1", [("user", f"old{n} {long}", None) for n in range(40)])
    await talk(store, "task-0-1", [("user", CAT, None)])
    await talk(store, "task-0-0", [("user", "cat of another task", None)])
    query = {"kind": "working", "session_id": "s1"}
    assert await found(http, "cat", **query) == [CAT]
    assert await found(http, "old0", **query) == [], "it lies too far back"
    assert (await http.get("/v1/memory/stats", params=query)).json()["tasks"] == 1, "no more is read"


async def test_what_was_said_elsewhere_is_remembered_like_a_task(
    http: httpx2.AsyncClient, memory: Memory, store: Store
) -> None:
    body = {"text": "We met Mimi in Tromso.", "user_id": "ada", "at": "2020-01-31T12:00:00Z"}
    done = await http.post("/v1/memory/episodes", json=body)
    assert done.status_code == 202, done.text
    assert await memory.remember() == 1
    [hit] = (await http.get("/v1/memory/search", params={"q": "Tromso", "user_id": "ada"})).json()["hits"]
    assert (hit["content"], hit["kind"], hit["anchor"], hit["task_id"], hit["at"]) == (
        body["text"], "episodic", done.json()["anchor"], done.json()["task_id"], "2020-01-31T12:00:00.000Z"
    )  # fmt: skip
    opened = (await http.post("/v1/memory/expand", json={"anchor": hit["anchor"]})).json()
    assert opened["focus"]["content"] == body["text"]
    assert await found(http, "Tromso", user_id="bob") == []
    assert (await http.post("/v1/memory/episodes", json=body)).json() == done.json()
    await memory.remember()
    assert (await http.get("/v1/memory/stats", params={"kind": "episodic"})).json() == {"segments": 1, "tasks": 1}
    await store.call("HSET", TaskKeys(0, "default", hit["task_id"]).erased, "at", 1)
    assert (await http.post("/v1/memory/episodes", json=body)).status_code == 422, "erased, it stays so"


async def test_each_kind_is_found_and_cleared_by_itself(
    gateway: GatewayService, memory: Memory, http: httpx2.AsyncClient
) -> None:
    async with connect(gateway.address) as agent:
        await agent.memory.add("the ferry leaves at nine")
        known = await agent.memory.semantic.add("the ferry is blue", importance=0.8)
        await memory.remember()
        assert await found(http, "ferry", kind="semantic") == ["the ferry is blue"]
        assert await found(http, "ferry", kind="episodic") == ["the ferry leaves at nine"]
        assert [hit.id for hit in await agent.memory.semantic.retrieve("ferry")] == [known.id]
        assert {hit.kind for hit in await agent.memory.retrieve("ferry")} == {"episodic", "semantic"}
        assert await agent.memory.stats() == {
            "episodic": {"segments": 1, "tasks": 1}, "semantic": {"nodes": 1, "edges": 0, "names": 0}
        }  # fmt: skip
        assert await agent.memory.semantic.clear(importance_below=0.8) == 0
        assert await agent.memory.clear("semantic") == 1
        assert (await agent.memory.semantic.stats())["nodes"] == 0
        assert await found(http, "ferry") == ["the ferry leaves at nine"]
        assert await agent.memory.episodic.clear(user_id="ada") == 0
        assert await agent.memory.episodic.clear() == 1
        assert await found(http, "ferry") == []
        await memory.remember()
        assert await found(http, "ferry") == []
        with pytest.raises(Refused, match="name the conversation"):
            await agent.memory.working.stats()
        with pytest.raises(Refused, match="kind must be"):
            await agent.memory.add("x", "procedural")


async def test_the_terminal_adds_counts_and_searches_by_kind(
    gateway: GatewayService, memory: Memory, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    async def command(action: str, **given: Any) -> list[str]:
        nothing = dict.fromkeys(("limit", "user", "as_of", "kind", "session", "strategy", "depth"))
        args = argparse.Namespace(**nothing | {"url": None, "json": False, "action": action} | given)
        async with in_time():
            assert await asyncio.to_thread(memory_command.run, args, Settings(pentad_url=gateway.address)) == 0
        return capsys.readouterr().out.splitlines()

    await talk(store, "task-0-1", [("user", CAT, None)])
    assert len(await command("add", text="the ferry is blue", kind="semantic")) == 1
    [anchor] = await command("add", text="the ferry leaves at nine", kind="episodic")
    await memory.remember()
    assert anchor.startswith("a1.")
    assert await command("stats", session="s1") == [
        "working: 1 segments, 1 tasks", "episodic: 1 segments, 1 tasks", "semantic: 1 nodes, 0 edges, 0 names"
    ]  # fmt: skip
    assert (await command("search", question="ferry", kind="semantic"))[1::3] == ["  the ferry is blue"]
    assert (await command("search", question="cat", kind="working", session="s1"))[1] == f"  {CAT}"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"kind": "procedural"}, "kind must be one of working, episodic, semantic"),
        ({"kind": ""}, "kind must be"),
        ({"kind": "working"}, "session_id must name"),
        ({"kind": "working", "session_id": "a b"}, "session_id must"),
    ],
)
async def test_a_kind_that_there_is_not_is_refused_in_words(
    http: httpx2.AsyncClient, query: dict[str, str], named: str
) -> None:
    for path, more in (("search", {"q": "cat"}), ("stats", {})):
        refused = await http.get(f"/v1/memory/{path}", params=query | more)
        assert (refused.status_code, named in refused.json()["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "text"),
        ({"text": 7}, "text"),
        ({"text": " ?! "}, "text"),
        ({"text": "x" * 65_537}, "text"),
        ({"text": "x", "user_id": "a b"}, "user_id"),
        ({"text": "x", "user_id": ["a"]}, "user_id"),
        ({"text": "x", "at": "yesterday"}, "at"),
        ({"text": "x", "at": 7}, "at"),
        ({"text": "x", "at": "1969-12-31T00:00:00Z"}, "at"),
        ({"text": "x", "task_id": "task-0-1"}, "task_id"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_words(body: dict[str, Any], named: str) -> None:
    with pytest.raises(UnreadableError, match=named):
        read_episode(body)
