"""Calls of the memory over the bus: bounded in time and size, never for another tenant, dropped when nobody waits."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from pentad.contracts.commands import MemoryReply, MemoryRequest
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import DEAD, MEMORY_REPLY
from pentad.services.archiver.memory_server import MemoryServer
from pentad.shared import metrics
from pentad.shared.errors import MemoryOutageError, MemoryRefusedError
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.memory import archiver_client as client_bounds
from pentad.shared.memory.archiver_client import ArchiverVectors
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.memory.ranking import EmbeddedQuestion, MemoryQuestion
from pentad.shared.memory.remote_calls import QUESTIONS_AT_ONCE, tenant_of
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.selection import Selection, VectorQuery
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.entry import Entry
from tests.integration.memory.serving import KEY, archiver_graph, serving
from tests.support.graph_maker import node
from tests.support.point_maker import ACME, ADA, OTHER, near, point, saying
from tests.support.waiting import PATIENCE_S, wait_until

NOW_MS = 1_900_000_000_000
REPLY_TO = MEMORY_REPLY.key(0, reply="r")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[EdgeVectors]:
    made = EdgeVectors(tmp_path / "vectors")
    await made.prepare("memory", 3)
    yield made
    await made.aclose()


@pytest.fixture
async def asker(store: Store) -> AsyncIterator[ArchiverVectors]:
    made = ArchiverVectors(store, PATIENCE_S)
    yield made
    await made.aclose()


async def waiting(store: Store) -> MemoryRequest:
    """The one call that lies in the stream."""

    async def there() -> list[Any]:
        return list(await store.call("XRANGE", KEY, "-", "+"))

    ((_, fields),) = await wait_until("a call of the memory", there)
    return MemoryRequest.model_validate_json(fields[1])


async def gone(store: Store) -> None:
    """Wait until no call is left."""

    async def empty() -> bool:
        return not await store.call("XLEN", KEY)

    await wait_until("the call to be taken back", empty)


async def test_without_an_archiver_the_caller_is_told_in_time_and_the_call_is_taken_back(store: Store) -> None:
    asker = ArchiverVectors(store, 0.3)
    begun = monotonic()
    with pytest.raises(MemoryOutageError, match="no archiver answered for the memory"):
        await asker.count("memory", Selection(ADA))
    assert monotonic() - begun < PATIENCE_S
    await gone(store)
    await asker.aclose()


async def test_an_archiver_that_dies_at_work_answers_nobody_and_the_next_drops_the_late_call(
    store: Store, memory: EdgeVectors
) -> None:
    asker, begun = ArchiverVectors(store, 0.5), asyncio.Event()

    async def hang(entry: Entry) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with serving(store, hang):
        asking = asyncio.create_task(asker.upsert("memory", [point("a")]))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        with pytest.raises(MemoryOutageError, match="no archiver answered"):
            await asking
    await asker.aclose()
    late = MemoryRequest(request_id="late", at=rfc3339(await store.clock() - 2_000), call="count",
                         args=["memory", {"owner": {"tenant": "acme"}}], reply_to=REPLY_TO)  # fmt: skip
    await MemoryServer(store, memory).handle(Entry(KEY, "1-1", late.to_json()))
    assert not await store.call("EXISTS", REPLY_TO)


async def test_tenants_take_turns_at_an_archiver(
    store: Store, memory: EdgeVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: who asks much leaves room for who asks little, whoever came first."""
    begun, gate, real = list[str](), asyncio.Event(), memory.count

    async def gated(name: str, selection: Selection) -> int:
        begun.append(selection.owner.tenant)
        await gate.wait()
        return await real(name, selection)

    monkeypatch.setattr(memory, "count", gated)
    server, now = MemoryServer(store, memory), rfc3339(await store.clock())

    def asked(number: int, tenant: str) -> Entry:
        request = MemoryRequest(
            request_id=f"r{number}", call="count", args=["memory", {"owner": {"tenant": tenant}}],
            at=now, wait_ms=60_000, reply_to=REPLY_TO,
        )  # fmt: skip
        return Entry(KEY, f"{number}-1", request.to_json())

    calls = [asked(number, "greedy") for number in range(1, 31)] + [asked(31, "modest")]
    tasks = [asyncio.create_task(server.handle(call)) for call in calls]
    await wait_until("the modest tenant's call to run", lambda: "modest" in begun)
    assert begun.count("greedy") == 8, "of one tenant no more run at once"
    gate.set()
    await asyncio.gather(*tasks)
    assert len(begun) == len(calls)


async def test_a_reply_that_comes_late_is_dropped_and_the_next_call_gets_its_own(store: Store) -> None:
    hasty = ArchiverVectors(store, 0.3)
    asking = asyncio.create_task(hasty.count("memory", Selection(ADA)))
    first = await waiting(store)
    with pytest.raises(MemoryOutageError):
        await asking
    await gone(store)
    await hasty.aclose()
    asker = ArchiverVectors(store, PATIENCE_S)
    asking = asyncio.create_task(asker.count("memory", Selection(ADA)))
    second = await waiting(store)
    for request, result in ((first, 1), (second, 2)):
        reply = MemoryReply(request_id=request.request_id, result=result)
        await store.run("reply", [second.reply_to], [reply.to_json(), 60])
    assert await asking == 2
    await asker.aclose()


@pytest.mark.parametrize("result", [None, "many", [1], {"a": 1}, 1.5])
async def test_what_is_no_answer_to_the_call_is_an_outage(store: Store, asker: ArchiverVectors, result: Any) -> None:
    asking = asyncio.create_task(asker.count("memory", Selection(ADA)))
    request = await waiting(store)
    for data in (b"", b"\xff", b"[" * 5_000, b'{"type":"memory_reply"}'):
        await store.run("reply", [request.reply_to], [data, 60])
    reply = MemoryReply(request_id=request.request_id, result=result)
    await store.run("reply", [request.reply_to], [reply.to_json(), 60])
    with pytest.raises(MemoryOutageError, match="what is no answer to it"):
        await asking


async def test_a_hit_of_which_nothing_is_told_is_an_outage(store: Store, asker: ArchiverVectors) -> None:
    asking = asyncio.create_task(asker.search("memory", [near((1, 0, 0), Selection(ADA))]))
    request = await waiting(store)
    reply = MemoryReply(request_id=request.request_id, result={"payloads": {}, "found": [[["a", 1.0]]]})
    await store.run("reply", [request.reply_to], [reply.to_json(), 60])
    with pytest.raises(MemoryOutageError, match="told nothing"):
        await asking


async def test_calls_and_answers_that_are_too_large_are_refused(
    store: Store, memory: EdgeVectors, asker: ArchiverVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.upsert("memory", [point("a", text="cat " * 2_000)])
    monkeypatch.setattr("pentad.services.archiver.memory_server.MOST_REPLY_BYTES", 4_000)
    async with serving(store, MemoryServer(store, memory).handle):
        with pytest.raises(MemoryRefusedError, match="4000 at most; ask for less"):
            await asker.scroll("memory", Selection(ADA), 10)
        monkeypatch.setattr(client_bounds, "MOST_REQUEST_BYTES", 4_000)
        with pytest.raises(MemoryRefusedError, match="4000 at most; ask for less"):
            await asker.upsert("memory", [point("b", text="x" * 5_000)])
        assert await asker.count("memory", Selection(ADA)) == 1


async def test_no_more_calls_wait_than_may(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_bounds, "_MAX_PENDING_CALLS", 1)
    asker = ArchiverVectors(store, 0.5)
    first = asyncio.create_task(asker.count("memory", Selection(ADA)))
    await waiting(store)
    with pytest.raises(MemoryOutageError, match="1 calls wait"):
        await asker.count("memory", Selection(ADA))
    with pytest.raises(MemoryOutageError, match="no archiver"):
        await first
    await asker.aclose()


@pytest.mark.parametrize(
    "args",
    [
        None,
        [],
        ["memory"],
        ["memory", {}],
        ["memory", {"owner": None}],
        ["memory", {"owner": {"user": "ada"}}],
        ["memory", {"owner": {"tenant": ""}}],
        ["memory", {"owner": {"tenant": "a:b"}}],
        ["memory", {"owner": {"tenant": "acme"}, "whose": "everybody"}],
        ["memory", {"owner": {"tenant": "acme"}, "ids": ["x"]}],
        ["../memory", {"owner": {"tenant": "acme"}}],
    ],
)
async def test_a_call_that_is_none_is_refused_and_no_tenant_is_guessed(
    store: Store, memory: EdgeVectors, args: Any
) -> None:
    await memory.upsert("memory", [point("a", ACME), point("b", OTHER)])
    assert "error" in (answer := await answered(store, memory, "count", args)), answer
    assert answer["refused"] is True


@pytest.mark.parametrize("call", ["aclose", "_do", "__class__", "", "open"])
async def test_only_calls_of_the_port_are_made(store: Store, memory: EdgeVectors, call: str) -> None:
    assert "has no call" in (await answered(store, memory, call, []))["error"]
    assert await memory.collections()


async def answered(store: Store, memory: Vectors, call: str, args: Any) -> dict[str, Any]:
    """What an archiver answers to somebody who writes to the stream."""
    asked = {"request_id": "x", "at": rfc3339(await store.clock()), "call": call, "args": args, "reply_to": REPLY_TO}
    await MemoryServer(store, memory).handle(Entry(KEY, "1-1", json.dumps(asked).encode()))
    ((_, fields),) = await store.call("XRANGE", REPLY_TO, "-", "+")
    said: dict[str, Any] = json.loads(fields[1])
    return said


async def test_who_wants_the_answer_elsewhere_is_set_aside(store: Store, memory: EdgeVectors) -> None:
    hostile = {"request_id": "x", "at": rfc3339(await store.clock()), "call": "collections", "args": []}
    async with serving(store, MemoryServer(store, memory).handle):
        for key in ("pentad:inbound", "pentad:{1}:memory:reply:r", ""):
            await store.call("XADD", KEY, "*", "data", json.dumps(hostile | {"reply_to": key}))
        await store.call("XADD", KEY, "*", "data", "no json")

        async def buried() -> bool:
            return bool(await store.call("XLEN", DEAD.key(0)) == 4)

        await wait_until("four dead letters", buried)
    assert not await store.call("EXISTS", "pentad:inbound", "pentad:{1}:memory:reply:r")


async def test_a_search_over_the_bus_finds_what_the_store_finds(
    store: Store, memory: EdgeVectors, asker: ArchiverVectors
) -> None:
    await memory.upsert("memory", [point(str(n), text=f"cat {n}") for n in range(40)])
    queries: list[VectorQuery] = [near((1, 0, 0), Selection(ADA), 40), saying("cat 7", Selection(ADA), 40)]
    async with serving(store, MemoryServer(store, memory).handle):
        assert await asker.search("memory", queries) == await memory.search("memory", queries)


async def test_many_calls_of_one_tenant_do_not_hold_up_anothers(store: Store) -> None:
    """Of the calls that an archiver has read, those of a tenant that has few of them are served between the others."""
    begun, ends = list[str](), list[asyncio.Event]()

    class Held:
        async def count(self, _: str, selection: Selection) -> int:
            end = asyncio.Event()
            ends.append(end)
            begun.append(selection.owner.tenant)
            await end.wait()
            return 0

    requests = MemoryServer(store, Held())  # type: ignore[arg-type]
    at = rfc3339(await store.clock())

    def call(owner: Owner, number: int) -> "asyncio.Task[None]":
        args = ["memory", {"owner": {"tenant": owner.tenant}}]
        about = MemoryRequest(request_id=f"{number}", at=at, wait_ms=60_000, call="count", args=args, reply_to=REPLY_TO)
        return asyncio.create_task(requests.handle(Entry(KEY, f"{number}-1", about.to_json())))

    tasks = [call(ACME, number) for number in range(32)]
    await wait_until("some of them", lambda: len(begun) == 8)
    tasks.append(call(OTHER, 32))
    await wait_until("the other's", lambda: len(begun) == 9)
    assert begun == [*[ACME.tenant] * 8, OTHER.tenant]
    for number in range(33):
        await wait_until("the next", lambda n=number: len(ends) > n)  # type: ignore[misc]
        ends[number].set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    ("args", "tenant"),
    [
        (["memory", {"owner": {"tenant": "acme"}}], "acme"),
        (["memory", {"question": {"owner": {"tenant": "acme"}, "text": "?"}, "vector": [1]}], "acme"),
        (["memory", [{"question": {"owner": {"tenant": "acme"}, "text": "?"}, "vector": [1]}]], "acme"),
        (["memory", [{"vector": [1], "selection": {"owner": {"tenant": "acme"}}}]], "acme"),
        (["memory", [{"id": "a", "payload": {"owner": {"tenant": "acme"}}}]], "acme"),
        ([{"tenant": "acme", "user": "ada"}, ["n1"]], "acme"),
        ([[{"id": "n", "owner": {"tenant": "acme"}}]], "acme"),
        (["memory"], ""),
        ([], ""),
        ([[], {}, None, 5, {"owner": "x"}, {"tenant": 5}], ""),
    ],
)
def test_whose_a_call_is_is_read_from_its_arguments(args: list[Any], tenant: str) -> None:
    assert tenant_of(args) == tenant


async def test_many_nodes_are_asked_for_in_several_calls_and_come_in_the_order_of_their_ids(
    redis_url: str, tmp_path: Path
) -> None:
    """Promise: no answer has so many nodes that to write and to read it holds an event loop."""
    answers = metrics.published.labels(MEMORY_REPLY.name, MemoryReply.__name__)
    async with archiver_graph(redis_url, SqliteGraph(tmp_path / "graph.db")) as graph:
        names = [f"n{n:02}" for n in range(60)]
        before = answers.value
        await graph.upsert_nodes([node(name, ACME) for name in names])
        await wait_until("the answer to be counted, behind its sending", lambda: answers.value - before == 1)
        found = await graph.nodes(ACME, [*reversed(names), "n00", "nobody"])
        assert [each.id for each in found] == names
        await wait_until("the answers to be counted, behind their sending", lambda: answers.value - before == 4)
        with pytest.raises(MemoryRefusedError, match="nodes asked for"):
            await graph.nodes(ACME, ["n"] * 5_001)


async def test_questions_that_come_while_one_is_answered_go_together_also_to_an_archiver_that_cannot(
    store: Store, asker: ArchiverVectors, tmp_path: Path
) -> None:
    """An archiver of an earlier version refuses several questions: then each is asked alone."""
    child = ChildVectors(tmp_path / "child")
    await child.prepare("memory", 3)
    await child.upsert("memory", [point("a", ADA, "cat")])
    calls: list[str] = []
    earlier = False

    async def answer(entry: Entry) -> None:
        request = entry.parse(MemoryRequest)
        calls.append(request.call)
        if earlier and request.call == "rank_each":
            request = request.model_copy(update={"call": "rank_some"})
        await server.handle(Entry(entry.stream, entry.id, request.to_json()))

    def question(owner: Owner) -> EmbeddedQuestion:
        return EmbeddedQuestion(MemoryQuestion(owner, "Where is the cat?", 5, NOW_MS), (1.0, 0.0, 0.0), "model")

    server = MemoryServer(store, child)
    async with serving(store, answer):
        for earlier in (False, True):
            calls.clear()
            owners = [ADA, OTHER, ADA, Owner("acme", "bob")]
            found = await asyncio.gather(*(asker.rank("memory", question(owner)) for owner in owners))
            assert [len(hits) for hits in found] == [1, 0, 1, 0]
            assert sorted(calls) == ["rank", *(["rank"] * 3 if earlier else []), "rank_each"]
        with pytest.raises(MemoryRefusedError, match="no collection"):
            await asyncio.gather(*(asker.rank("nowhere", question(owner)) for owner in (ADA, ADA)))
    await child.aclose()


@pytest.mark.parametrize("question", [None, {"question": {"owner": {"tenant": "acme"}, "text": "?"}, "vector": [1]}])
async def test_more_questions_than_go_together_are_refused_before_they_are_read(
    store: Store, tmp_path: Path, question: Any
) -> None:
    child = ChildVectors(tmp_path / "child")
    answer = await answered(store, child, "rank_each", ["memory", [question] * (QUESTIONS_AT_ONCE + 1)])
    assert child.process_id is None, "it was not asked"
    await child.aclose()
    assert answer["error"] == "17 questions at once: 16 at most; ask the others later"
    assert answer["refused"] is True


async def test_an_answer_to_another_number_of_questions_is_an_outage(store: Store, asker: ArchiverVectors) -> None:
    async def answer(entry: Entry) -> None:
        request = entry.parse(MemoryRequest)
        reply = MemoryReply(request_id=request.request_id, result=[[]])
        await store.run("reply", [request.reply_to], [reply.to_json(), 60])

    question = EmbeddedQuestion(MemoryQuestion(ADA, "Where is the cat?", 5, NOW_MS), (1.0,), "model")
    async with serving(store, answer):
        with pytest.raises(MemoryOutageError, match="answered 1 of 2 questions"):
            await asyncio.gather(*(asker.rank("memory", question) for _ in range(2)))
