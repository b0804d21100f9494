"""A Neo4j server that is away, refuses us or does not answer: told in words that help, without secrets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from neo4j import AsyncGraphDatabase
from neo4j.exceptions import TransientError

from pentad.shared.errors import MemoryOutageError, SettingsError
from pentad.shared.graph.knowledge import Tally
from pentad.shared.graph.neo4j_graph import Neo4jGraph
from pentad.shared.graph.neo4j_session import Neo4jSession, rows
from pentad.shared.owners import Owner
from tests.support.graph_maker import edge, node
from tests.support.neo4j.neo4j_server import PASSWORD, Neo4jServer
from tests.support.ports import free_port
from tests.support.redis.switch import Switch

SECRET = "a-very-secret-word"


@asynccontextmanager
async def connected(uri: str, password: str | None = None, timeout_s: float = 30) -> AsyncIterator[Neo4jGraph]:
    graph = Neo4jGraph(uri, "neo4j", password, timeout_s)
    try:
        yield graph
    finally:
        await graph.aclose()


async def test_a_server_with_a_password_is_used_with_it(neo4j_server: Neo4jServer, ours: Owner) -> None:
    async with connected(neo4j_server.password_uri, PASSWORD) as graph:
        await graph.prepare()
        await graph.prepare()
        await graph.upsert_nodes([node("a", ours), node("b", ours)])
        await graph.upsert_edges([edge("a", "b", ours)])
        assert await graph.tally(ours.tenant) == Tally(2, 1)


@pytest.mark.parametrize("password", [SECRET, None])
async def test_a_wrong_or_missing_password_is_told(neo4j_server: Neo4jServer, password: str | None) -> None:
    async with connected(neo4j_server.password_uri, password) as graph:
        with pytest.raises(MemoryOutageError, match="NEO4J_PASSWORD") as caught:
            await graph.prepare()
    assert SECRET not in str(caught.value)


@asynccontextmanager
async def user_of(server: Neo4jServer, change: str) -> AsyncIterator[str]:
    """The name of a user of its own, with the password ``first-word``."""
    name = f"u{uuid4().hex}"
    async with AsyncGraphDatabase.driver(server.password_uri, auth=("neo4j", PASSWORD)) as driver:
        made: Any = f"CREATE USER {name} SET PASSWORD 'first-word' CHANGE {change}"
        await driver.execute_query(made, database_="system")
        yield name
        gone: Any = f"DROP USER {name}"
        await driver.execute_query(gone, database_="system")


async def test_a_password_that_must_be_changed_is_told(neo4j_server: Neo4jServer) -> None:
    async with user_of(neo4j_server, "REQUIRED") as name:
        graph = Neo4jGraph(neo4j_server.password_uri, name, "first-word", 30)
        with pytest.raises(MemoryOutageError, match="ALTER CURRENT USER SET PASSWORD") as caught:
            await graph.tally("acme")
        await graph.aclose()
    assert "first-word" not in str(caught.value)


async def test_a_user_who_gave_wrong_passwords_too_often_is_told_to_look_at_the_password(
    neo4j_server: Neo4jServer,
) -> None:
    """By the server itself, which refuses the right one, too, for some seconds."""
    async with user_of(neo4j_server, "NOT REQUIRED") as name:
        for _ in range(3):
            graph = Neo4jGraph(neo4j_server.password_uri, name, SECRET, 30)
            with pytest.raises(MemoryOutageError, match="does not accept"):
                await graph.tally("acme")
            await graph.aclose()
        graph = Neo4jGraph(neo4j_server.password_uri, name, "first-word", 30)
        with pytest.raises(MemoryOutageError, match=r"refuses our user for some seconds.*NEO4J_PASSWORD"):
            await graph.tally("acme")
        await graph.aclose()


async def test_a_transaction_that_the_server_gives_up_is_repeated_soon_and_not_logged(
    neo4j_server: Neo4jServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver alone waits for a second, and writes a line each time."""
    session = Neo4jSession(neo4j_server.open_uri, None, None, 30)
    begun: list[float] = []

    async def work(tx: Any) -> None:
        begun.append(monotonic())
        if len(begun) < 4:
            raise TransientError

    await session.write(work)
    await session.aclose()
    assert (len(begun), begun[-1] - begun[0] < 0.8, caplog.messages) == (4, True, [])


async def test_nodes_that_many_ask_for_at_once_are_read_together_and_seen_by_their_own_alone(
    neo4j_server: Neo4jServer, ours: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = [ours, *(Owner(ours.tenant, f"user{n}") for n in range(8)), Owner(f"{ours.tenant}x")]
    asked: list[str] = []
    async with connected(neo4j_server.open_uri) as graph:
        for owner in owners:
            await graph.upsert_nodes(
                [node(f"of-{owner.holder}", owner), node(f"all-{owner.tenant}", Owner(owner.tenant))]
            )
        ask = graph._ask

        async def counted(query: str, **given: Any) -> list[dict[str, Any]]:
            asked.append(query)
            return await ask(query, **given)

        monkeypatch.setattr(graph, "_ask", counted)
        everything = [name for owner in owners for name in (f"of-{owner.holder}", f"all-{owner.tenant}")]
        found = await asyncio.gather(*(graph.nodes(owner, everything) for owner in owners), graph.nodes(ours, []))
    assert len(asked) == 1
    seen = [sorted({f"all-{owner.tenant}", f"of-{owner.holder}", "of-None"}) for owner in owners]
    assert [[one.id for one in nodes] for nodes in found] == [*seen, []]
    assert {one.owner.tenant for one in found[-2]} == {f"{ours.tenant}x"}


async def test_merging_writes_of_a_process_are_made_one_at_a_time(neo4j_server: Neo4jServer) -> None:
    session = Neo4jSession(neo4j_server.open_uri, None, None, 30)
    inside, most = 0, 0

    async def work(tx: Any) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await rows(tx, "RETURN 1")
        inside -= 1

    await asyncio.gather(*(session.merge(work) for _ in range(8)))
    await session.aclose()
    assert (inside, most) == (0, 1)


async def test_a_server_that_is_away_is_an_outage() -> None:
    async with connected(f"bolt://127.0.0.1:{free_port()}", SECRET, 2) as graph:
        with pytest.raises(MemoryOutageError, match="Neo4j at bolt://127") as caught:
            await graph.tally("acme")
    assert SECRET not in str(caught.value)


async def test_a_server_that_does_not_answer_is_not_waited_for_and_used_again_later(
    neo4j_server: Neo4jServer, ours: Owner
) -> None:
    switch = Switch(neo4j_server.open_port)
    switch.start()
    try:
        async with connected(f"bolt://127.0.0.1:{switch.port}", timeout_s=10) as graph:
            await graph.upsert_nodes([node("a", ours)])
            graph._session._timeout_s = 0.3
            switch.hold()
            with pytest.raises(MemoryOutageError, match=r"did not answer in 0\.3 s"):
                await graph.upsert_nodes([node("b", ours)])
            switch.cut()
            switch.release()
            graph._session._timeout_s = 30
            await graph.upsert_nodes([node("c", ours)])
            assert "c" in {one.id for one in await graph.node_page(ours.tenant, 9)}
    finally:
        switch.close()


async def test_a_connection_that_breaks_is_made_again_within_the_call(neo4j_server: Neo4jServer, ours: Owner) -> None:
    switch = Switch(neo4j_server.open_port)
    switch.start()
    try:
        async with connected(f"bolt://127.0.0.1:{switch.port}") as graph:
            await graph.upsert_nodes([node("a", ours)])
            switch.cut()
            await graph.upsert_nodes([node("b", ours)])
            assert await graph.tally(ours.tenant) == Tally(2, 0)
    finally:
        switch.close()


@pytest.mark.parametrize("uri", ["", "neo4j", "http://h", "bolt://", "bolt://h:x", f"redis://:{SECRET}@h"])
def test_what_is_no_address_is_refused_at_once(uri: str) -> None:
    with pytest.raises(SettingsError, match="NEO4J_URI") as caught:
        Neo4jGraph(uri, "neo4j", SECRET)
    assert SECRET not in str(caught.value)


async def test_it_says_which_store_it_is_and_how_much_it_has(neo4j_server: Neo4jServer, ours: Owner) -> None:
    """Whoever asks; one that was emptied of everything is another store."""
    async with connected(neo4j_server.open_uri) as graph:
        before = await graph.condition()
        await graph.upsert_nodes([node("a", ours)])
    async with connected(neo4j_server.open_uri) as graph:
        now = await graph.condition()
        assert (now.identity, now.written) == (before.identity, None)
        assert now.found > 0
        await graph._change("MATCH (s:MemoryStore) DELETE s")
        assert (await graph.condition()).identity != before.identity
