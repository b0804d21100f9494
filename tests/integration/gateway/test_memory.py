"""Clients search what was said in finished tasks and open the place; another tenant's is not there."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

import pentad
from pentad.cli import memory as memory_command
from pentad.contracts.events import TaskUsage
from pentad.contracts.ids import shard_of
from pentad.contracts.records import Manifest, StepRecord, TaskRecord
from pentad.contracts.streams import LEARN, REMEMBER, Stream
from pentad.services.archiver.memory_server import MemoryServer
from pentad.services.gateway.app import GatewayService
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.embedder.vectors import Embedded, Requester
from pentad.shared.errors import MemoryOutageError
from pentad.shared.graph.knowledge import Tally
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.memory.archiver_client import ArchiverGraph
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.memory.forgetting import keep_undoable
from pentad.shared.memory.forgotten import FORGOTTEN, noted_segments
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.segments.anchors import anchor_of
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.vectors.selection import Selection, Whose
from tests.integration.gateway.conftest import running
from tests.integration.memory.serving import serving
from tests.support.remembering import COLLECTION, remember
from tests.support.waiting import PATIENCE_S, in_time
from tests.unit.segments.transcripts import AT, answered, said

KEYS = {"us-key": "us", "them-key": "them"}
US, THEM = ({"authorization": f"Bearer {key}"} for key in KEYS)
TASK = "task-0-cat"
TALK = [
    said("Hello there", user_id="ada"),
    answered("Good morning."),
    said("My cat is called Mimi.", user_id="ada", at="2030-01-31T12:00:07.000Z"),
    answered("I keep that in mind.", step=2),
]
SHARED = [said("The boat is painted green."), answered("Noted.")]


def kept(task: str, messages: list[dict[str, Any]]) -> TaskRecord:
    """A record of an archived task."""
    described: dict[str, Any] = {"task_id": task, "session_id": "s1", "status": "completed", "goal": "g", "steps": 1}
    described |= {"created_at": AT, "updated_at": AT, "archived_at": AT, "instruction": "executor"}
    described |= {"usage": {"input_tokens": 0, "output_tokens": 0}}
    return TaskRecord.model_validate({"tenant_id": "us", "task": described, "messages": messages, "steps": []})


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path) -> AsyncIterator[GatewayService]:
    settings = {"pentad_api_keys": "us-key:us,them-key:them", "pentad_records_url": str(tmp_path / "records")}
    async with running(redis_url, pentad_data_dir=tmp_path, **settings) as service:
        yield service


@pytest.fixture
async def memory(store: Store, tmp_path: Path) -> AsyncIterator[ChildVectors]:
    """What an archiver has written, and what it answers for."""
    vectors = ChildVectors(tmp_path / "vectors")
    for task, messages in ((TASK, TALK), ("task-0-boat", SHARED)):
        await Records(str(tmp_path / "records")).write(kept(task, messages))
        await remember(vectors, "us", task, messages)
    graph = SqliteGraph(tmp_path / "graph.db")
    async with serving(store, MemoryServer(store, vectors, graph).handle):
        yield vectors
    await vectors.aclose()
    await graph.aclose()


async def search(http: httpx2.AsyncClient, keys: dict[str, str] = US, /, **query: Any) -> httpx2.Response:
    return await http.get("/v1/memory/search", params=query, headers=keys)


async def expand(http: httpx2.AsyncClient, keys: dict[str, str] = US, /, **body: Any) -> httpx2.Response:
    return await http.post("/v1/memory/expand", json=body, headers=keys)


async def test_a_question_finds_the_sentence_and_its_anchor_opens_it(
    http: httpx2.AsyncClient, memory: ChildVectors
) -> None:
    found = await search(http, q="What is my cat called?", user_id="ada", limit=3)
    hits = found.json()["hits"]
    best = hits[0]
    assert (found.status_code, len(hits), list(found.json())) == (200, 3, ["hits"])
    shown = {"id", "kind", "type", "content", "score", "parts", "anchor", "task_id", "at", "importance"}
    assert (set(best), best["importance"]) == (shown, 0.7)
    assert (best["content"], best["type"], best["kind"]) == ("My cat is called Mimi.", "user_message", "episodic")
    assert (best["task_id"], best["at"]) == (TASK, "2030-01-31T12:00:07.000Z")
    assert 0 < hits[1]["score"] <= best["score"] <= 1
    assert best["parts"]["words"] > 0
    opened = (await expand(http, anchor=best["anchor"], window=1)).json()
    assert list(opened) == ["anchor", "focus", "before", "after", "place", "short"]
    assert (opened["focus"]["content"], opened["focus"]["id"]) == (best["content"], best["id"])
    assert [each["content"] for each in opened["before"]] == ["Good morning."]
    assert [each["content"] for each in opened["after"]] == ["I keep that in mind."]
    assert (await expand(http, anchor=opened["before"][0]["anchor"])).json()["focus"] == opened["before"][0]


async def test_the_fields_of_an_anchor_can_be_read_and_its_short_form_opens_the_same(
    http: httpx2.AsyncClient, memory: ChildVectors
) -> None:
    best = (await search(http, q="What is my cat called?", user_id="ada", limit=1)).json()["hits"][0]
    opened = (await expand(http, anchor=best["anchor"])).json()
    place = pentad.anchor_of(best["anchor"])
    assert opened["place"] == place.model_dump(mode="json")
    assert (place.task_id, place.position, place.step, place.type) == (TASK, 2, 1, "user_message")
    assert opened["short"] == place.short == f"{TASK}:2.0.0"
    assert (await expand(http, anchor=place.short)).json() == opened
    for wrong, status in ((f"{TASK}:9.0.0", 404), ("task-0-none:2.0.0", 404), (f"{TASK}:2.0", 422)):
        assert (await expand(http, anchor=wrong)).status_code == status, wrong
    assert (await expand(http, THEM, anchor=place.short)).status_code == 404
    assert (await expand(http, anchor=place.short, user_id="bob")).status_code == 404


async def test_an_anchor_opens_to_its_whole_task_on_demand(
    http: httpx2.AsyncClient, memory: ChildVectors, gateway: GatewayService, tmp_path: Path
) -> None:
    manifest = Manifest(messages=(0, 1), instruction="executor", tools="", model="m", digest="d")
    step = StepRecord(step=1, attempt=1, at=AT, finish_reason="stop", usage=TaskUsage(), manifest=manifest)
    await Records(str(tmp_path / "records")).write(kept(TASK, TALK).model_copy(update={"steps": [step]}))
    best = (await search(http, q="What is my cat called?", user_id="ada", limit=1)).json()["hits"][0]
    refused = await expand(http, anchor=best["anchor"], whole=True, user_id="ada")
    assert (refused.status_code, "user_id" in refused.json()["detail"]) == (422, True)
    assert (await expand(http, anchor=best["anchor"], whole="yes")).status_code == 422
    async with pentad.connect(gateway.address, "us-key") as agent:
        opened = await agent.inspection.expand(best["anchor"], whole=True)
        assert opened.whole is not None
        assert (opened.whole.task, opened.whole.next) == (await agent.inspection.task(TASK), None)
        assert opened.whole.steps == await agent.inspection.steps(TASK)
        assert [m["content"] for m in opened.whole.steps[0].messages] == ["Hello there", "Good morning."]
        assert (await agent.inspection.expand(best["anchor"])).whole is None


async def test_a_recall_has_the_tasks_themselves_that_are_the_readers(
    http: httpx2.AsyncClient, memory: ChildVectors, gateway: GatewayService, tmp_path: Path
) -> None:
    records = Records(str(tmp_path / "records"))
    cats = kept(TASK, TALK)
    await records.write(cats.model_copy(update={"task": cats.task.model_copy(update={"user_id": "ada"})}))
    question = "cat called Mimi, boat painted green"

    async def tasks(agent: pentad.Agent) -> dict[str, bool]:
        found = await agent.inspection.recall(question)
        return {each.task_id: each.task is not None and each.task.goal == "g" for each in found.tasks}

    async with pentad.connect(gateway.address, "us-key") as agent:
        assert await tasks(agent) == {"task-0-boat": True}, "who names nobody reads all of the tenant"
        assert await tasks(agent.session("s1", "ada")) == {TASK: True, "task-0-boat": True}
        assert await tasks(agent.session("s2", "ada")) == {TASK: True, "task-0-boat": False}
        assert await tasks(agent.session("s2", "bob")) == {"task-0-boat": False}
        bare = await agent.inspection.recall(question, tasks=False)
        assert [each.task for each in bare.tasks] == [None]
    shown = (await search(http, q=question, tasks="true")).json()
    assert shown["tasks"][0]["task"]["task_id"] == "task-0-boat"
    assert "task" not in (await search(http, q=question, strategy="auto")).json()["tasks"][0]
    assert (await search(http, q=question, tasks="yes")).status_code == 422


async def test_without_a_user_only_what_is_nobodys_is_found(http: httpx2.AsyncClient, memory: ChildVectors) -> None:
    for query in ({}, {"user_id": "bob"}):
        hits = (await search(http, q="cat called Mimi, boat", limit=100, **query)).json()["hits"]
        assert {hit["task_id"] for hit in hits} == {"task-0-boat"}


@pytest.mark.parametrize(
    ("who", "shared_with"), [({"user_id": "ada"}, "ada"), ({"session_id": "s1"}, "/s1"), ({}, "")], ids=str
)
async def test_a_question_s_vector_is_cached_for_who_asks(
    http: httpx2.AsyncClient,
    memory: ChildVectors,
    monkeypatch: pytest.MonkeyPatch,
    who: dict[str, str],
    shared_with: str,
) -> None:
    """Promise: the time of a search tells nobody what another user or session has asked or said."""
    asked: list[tuple[str, str | None]] = []
    embed = HashingEmbedder.embed

    async def recorded(self: HashingEmbedder, texts: Sequence[str], requester: Requester) -> Embedded:
        asked.append((requester.tenant, requester.cached_for))
        return await embed(self, texts, requester)

    monkeypatch.setattr(HashingEmbedder, "embed", recorded)
    found = await http.get("/v1/memory/search", params={"q": "cat", **who}, headers=US)
    assert (found.status_code, asked) == (200, [("us", shared_with)])


async def test_another_tenant_finds_nothing_and_opens_nothing(http: httpx2.AsyncClient, memory: ChildVectors) -> None:
    anchor = (await search(http, q="cat", user_id="ada")).json()["hits"][0]["anchor"]
    assert (await search(http, THEM, q="cat", user_id="ada")).json() == {"hits": []}
    refused = await expand(http, THEM, anchor=anchor)
    assert (refused.status_code, refused.headers["content-type"]) == (404, "application/problem+json")
    assert (await http.get("/v1/memory/stats", headers=THEM)).json() == {
        "segments": 0, "tasks": 0, "nodes": 0, "edges": 0, "lag_s": 0, "extraction": None
    }  # fmt: skip
    assert (await http.get("/v1/memory/stats", headers=US)).json() == {
        "segments": 6, "tasks": 2, "nodes": 0, "edges": 0, "lag_s": 0, "extraction": None
    }  # fmt: skip


async def test_while_the_graph_alone_is_away_the_other_figures_are_told(
    http: httpx2.AsyncClient, memory: ChildVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(self: ArchiverGraph, tenant: str) -> Tally:
        raise MemoryOutageError("Neo4j at bolt://h:7687 did not answer in 10 s: try again later")

    monkeypatch.setattr(ArchiverGraph, "tally", away)
    told = await http.get("/v1/memory/stats", headers=US)
    assert (told.status_code, told.json()) == (
        200,
        {"segments": 6, "tasks": 2, "nodes": None, "edges": None, "lag_s": 0, "extraction": None},
    )
    assert (await http.get("/v1/memory/stats?kind=semantic", headers=US)).status_code == 503


@pytest.mark.parametrize("stream", [REMEMBER, LEARN], ids=["to be remembered", "to be learned from"])
@pytest.mark.parametrize("state", ["nobody reads", "unread", "in work"])
async def test_the_figures_say_how_long_what_has_ended_waits(
    http: httpx2.AsyncClient, memory: ChildVectors, store: Store, state: str, stream: Stream
) -> None:
    key, group, before = stream.key(0), str(stream.group), await store.clock() - 60_000
    if state != "nobody reads":
        await store.call("XGROUP", "CREATE", key, group, "0", "MKSTREAM")
    await store.call("XADD", key, f"{before}-1", "data", "{}")
    newer = await store.call("XADD", key, "*", "data", "{}")
    if state == "in work":
        await store.call("XREADGROUP", "GROUP", group, "one", "COUNT", 2, "STREAMS", key, ">")
        await store.call("XACK", key, group, newer)

    async def lag_s() -> float:
        return float((await http.get("/v1/memory/stats", headers=US)).json()["lag_s"])

    assert 60 <= await lag_s() < 60 + PATIENCE_S
    if state == "in work":
        await store.call("XACK", key, group, f"{before}-1")
        assert await lag_s() == 0


async def test_words_that_are_gone_are_404(http: httpx2.AsyncClient, memory: ChildVectors, tmp_path: Path) -> None:
    anchor = (await search(http, q="cat", user_id="ada")).json()["hits"][0]["anchor"]
    moved = {"role": "exclusion", "positions": [2, 3], "to": "new", "to_task_id": "task-0-x", "at": AT}
    await Records(str(tmp_path / "records")).write(kept(TASK, [*TALK, moved]))
    gone = await expand(http, anchor=anchor)
    assert (gone.status_code, "not in task" in gone.json()["detail"]) == (404, True)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({}, "q must"),
        ({"q": ""}, "q must"),
        ({"q": "x" * 2001}, "q must"),
        ({"q": "?!"}, "letters or digits"),
        ({"q": "cat", "limit": "0"}, "limit"),
        ({"q": "cat", "limit": "101"}, "limit"),
        ({"q": "cat", "limit": "٣"}, "limit"),
        ({"q": "cat", "limit": "9" * 5000}, "limit"),
        ({"q": "cat", "user_id": ""}, "user_id"),
        ({"q": "cat", "user_id": "a b"}, "user_id"),
        ({"q": "cat", "as_of": ""}, "as_of"),
        ({"q": "cat", "as_of": "yesterday"}, "as_of"),
        ({"q": "cat", "as_of": "2030-13-01T00:00:00Z"}, "as_of"),
        ({"q": "cat", "as_of": "9" * 5000}, "as_of"),
        ({"q": "cat", "strategy": ""}, "strategy"),
        ({"q": "cat", "strategy": "dijkstra"}, "strategy"),
        ({"q": "cat", "strategy": "bfs", "depth": "7"}, "depth"),
        ({"q": "cat", "depth": "-1"}, "depth"),
    ],
)
async def test_a_wrong_search_is_refused_in_words(http: httpx2.AsyncClient, query: dict[str, str], named: str) -> None:
    refused = await search(http, **query)
    assert refused.status_code == 422
    assert named in refused.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({}, 422, "anchor"),
        ({"anchor": 7}, 422, "anchor"),
        ({"anchor": ""}, 422, "anchor"),
        ({"anchor": "a1." + "A" * 600}, 422, "no anchor"),
        ({"anchor": "a1.AAAA"}, 422, "damaged"),
        ({"anchor": "a9.AAAA"}, 422, "version"),
        ({"anchor": "a1.AAAA", "window": 51}, 422, "window"),
        ({"anchor": "a1.AAAA", "window": -1}, 422, "window"),
        ({"anchor": "a1.AAAA", "window": True}, 422, "window"),
        ({"anchor": "a1.AAAA", "window": "2"}, 422, "window"),
    ],
)
async def test_a_wrong_expansion_is_refused_in_words(
    http: httpx2.AsyncClient, body: dict[str, Any], status: int, named: str
) -> None:
    refused = await expand(http, **body)
    assert refused.status_code == status
    assert named in refused.json()["detail"]


async def test_a_memory_that_nobody_has_open_is_503_and_says_so(http: httpx2.AsyncClient) -> None:
    for response in (await search(http, q="cat"), await http.get("/v1/memory/stats", headers=US)):
        assert response.status_code == 503
        assert "archiver" in response.json()["detail"]
        assert int(response.headers["retry-after"]) >= 1


async def test_an_embedding_service_that_is_away_is_503_and_says_so(redis_url: str, tmp_path: Path) -> None:
    embedding = {"embed_model_type": "openai", "embed_base_url": "http://127.0.0.1:9/v1", "embed_model_name": "e"}
    async with (
        running(redis_url, pentad_data_dir=tmp_path, **embedding) as service,
        httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        for response in (await search(http, {}, q="cat"), await http.get("/v1/memory/stats")):
            assert response.status_code == 503
            assert "the embedding service did not answer" in response.json()["detail"]


async def test_hostile_questions_are_answered(http: httpx2.AsyncClient, memory: ChildVectors) -> None:
    for question in ("'; DROP TABLE", "\x00cat", "\u202ecat", "a" * 2000, "好" * 2000, "*" * 1999 + "x"):
        assert (await search(http, q=question)).status_code == 200
    assert anchor_of((await search(http, q="green")).json()["hits"][0]["anchor"]).task_id == "task-0-boat"


async def command(gateway: GatewayService, **given: Any) -> int:
    """`pentad memory` as the command line runs it, in a thread with a loop of its own."""
    nothing = dict.fromkeys(("url", "limit", "user", "window", "as_of", "strategy", "depth"))
    nothing |= dict.fromkeys(("kind", "session", "importance_below"))
    args = argparse.Namespace(**nothing | {"json": False} | given)
    settings = Settings(pentad_url=gateway.address, pentad_api_key=SecretStr("us-key"))
    async with in_time():
        return await asyncio.to_thread(memory_command.run, args, settings)


async def test_the_terminal_shows_hits_and_what_an_anchor_opens_to(
    gateway: GatewayService, memory: ChildVectors, http: httpx2.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    await remember(memory, "us", "task-0-boat", [said("The boat\x1b[31m is green.\nIt leaks.")])
    assert await command(gateway, action="search", question="which colour has the boat") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(" ago")
    assert "user_message · task-0-boat:0.0.0 · " in lines[0]
    assert lines[1:3] == ["  The boat[31m is green.", "  It leaks."]  # without what would colour it
    anchor = (await search(http, q="cat", user_id="ada", limit=1)).json()["hits"][0]["anchor"]
    assert await command(gateway, action="expand", anchor=anchor) == 0
    opened = capsys.readouterr().out.splitlines()
    marked = next(number for number, line in enumerate(opened) if line.startswith(">"))
    assert opened[marked].startswith(f"> ada  user_message · {TASK}:2.0.0 · ")
    assert opened[marked + 1] == "    My cat is called Mimi."
    assert "  agent  response" in opened[marked + 2]


async def test_what_was_said_later_is_not_found_as_of_before(
    gateway: GatewayService, memory: ChildVectors, http: httpx2.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    for at, number in (("2030-01-31T12:00:06.999Z", 0), ("2030-01-31T12:00:07.000Z", 1)):
        hits = (await search(http, q="Mimi cat", user_id="ada", as_of=at)).json()["hits"]
        assert [hit["content"] for hit in hits].count("My cat is called Mimi.") == number
    for at in ("9999-12-31T23:59:59.999Z", "1969-01-01T00:00:00Z"):
        assert (await search(http, q="boat", as_of=at)).status_code == 200
    assert await command(gateway, action="search", question="boat", as_of="2029-01-01T00:00:00Z") == 0
    assert capsys.readouterr().out == "nothing is remembered of that\n"


async def test_who_asks_for_a_walk_is_told_the_tasks_beside_the_hits(
    gateway: GatewayService, memory: ChildVectors, http: httpx2.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    told = (await search(http, q="which colour has the boat", strategy="none", limit=2)).json()
    assert [(each["task_id"], each["hits"]) for each in told["tasks"]] == [
        ("task-0-boat", [hit["id"] for hit in told["hits"]])
    ]
    assert await command(gateway, action="search", question="which colour has the boat", strategy="none") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("task task-0-boat  2 of these · ")


async def test_the_terminal_says_when_nothing_is_remembered(
    gateway: GatewayService, capsys: pytest.CaptureFixture[str], memory: ChildVectors
) -> None:
    await memory.drop(COLLECTION)
    assert await command(gateway, action="search", question="cat") == 0
    assert capsys.readouterr().out == "nothing is remembered of that\n"


async def test_a_hit_is_forgotten_over_rest_and_in_the_terminal(
    gateway: GatewayService, memory: ChildVectors, http: httpx2.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    await memory.prepare(FORGOTTEN, 1)  # to make a collection may take longer than a client waits for it
    hit = (await search(http, q="cat", user_id="ada", limit=1)).json()["hits"][0]
    for keys, forgotten in ((THEM, 0), (US, 1)):
        done = await http.post("/v1/memory/forget", json={"ids": [hit["id"]]}, headers=keys)
        assert (done.status_code, done.json()) == (202, {"forgotten": forgotten, "next": None})
    stats = (await http.get("/v1/memory/stats", headers=US)).json()
    assert stats.pop("lag_s") >= 0, "the task waits for an archiver that cuts it anew"
    assert stats == {
        "segments": 5,
        "tasks": 2,
        "nodes": 0,
        "edges": 0,
        "extraction": None,
    }
    assert (await http.post("/v1/memory/forget", json={}, headers=US)).status_code == 422
    assert await command(gateway, action="forget", ids=["task-0-boat"], since=None, until=None) == 0
    assert capsys.readouterr().out == "2 forgotten\n"
    assert await command(gateway, action="forget", ids=[], since=None, until="2031-01-01T00:00:00Z") == 0
    assert capsys.readouterr().out == "3 forgotten\n"
    assert (await search(http, q="cat", user_id="ada")).json() == {"hits": []}


async def test_what_a_model_had_forgotten_is_undone_over_rest_and_in_the_terminal(
    gateway: GatewayService,
    memory: ChildVectors,
    store: Store,
    http: httpx2.AsyncClient,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await memory.prepare(FORGOTTEN, 1)  # to make a collection may take longer than a client waits for it
    hit = (await search(http, q="cat", user_id="ada", limit=1)).json()["hits"][0]
    [point] = await memory.get(COLLECTION, Selection(Owner("us"), Whose.ALL, ids=(hit["id"],)))
    for keys, more, status in ((THEM, {}, 404), (US, {"user_id": "bob"}, 404), (US, {"user_id": "ada"}, 202)):
        await keep_undoable(store, "us", hit["anchor"], noted_segments([point]))
        done = await http.post("/v1/memory/unforget", json={"anchor": hit["anchor"]} | more, headers=keys)
        assert done.status_code == status, done.text
    assert done.json() == {"restored": 1}
    asked = [fields[1] for _, fields in await store.call("XRANGE", REMEMBER.key(shard_of("us", "s1", 1)), "-", "+")]
    assert len(asked) == 1, "an archiver is to write its task anew"
    for body in ({}, {"anchor": ""}, {"anchor": 3}, {"anchor": hit["anchor"], "user": "ada"}):
        assert (await http.post("/v1/memory/unforget", json=body, headers=US)).status_code == 422
    await keep_undoable(store, "us", hit["anchor"], noted_segments([point]))
    assert await command(gateway, action="unforget", anchor=hit["anchor"]) == 0
    assert capsys.readouterr().out == "1 found again\n"
