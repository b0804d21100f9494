"""The six services on real servers of Redis, Qdrant and Neo4j: what the README tells, and a kill of each server."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pentad.client.agent import Agent, connect
from pentad.errors import ClientError
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import say
from tests.support.processes.crew import FIVE, Crew, crew
from tests.support.stores.neo4j import NEO4J, neo4j_kinds
from tests.support.stores.open_stores import OpenStores, open_stores
from tests.support.stores.qdrant import QDRANT, qdrant_kinds
from tests.support.stores.redis import REDIS
from tests.support.stores.servers import StoreServer
from tests.support.waiting import wait_until

__all__ = ["open_stores"]
pytestmark = pytest.mark.acceptance

CAT, FERRY, SECRET = "My cat is called Mimi.", "The ferry to Bergen leaves at nine.", "My locker code is swordfish."
ADMIN = "admin-key-for-tests"
KEYS = {"PENTAD_API_KEYS": "us-key:us,them-key:them", "PENTAD_ADMIN_KEY": ADMIN, "PENTAD_MEMORY_SCOPE": "tenant"}


@dataclass(frozen=True)
class Stores:
    """One server of each store."""

    redis: StoreServer
    qdrant: StoreServer
    neo4j: StoreServer

    @property
    def variables(self) -> dict[str, str]:
        """The settings of the services for them, but Redis."""
        found = {"QDRANT_URL": self.qdrant.url, "NEO4J_URI": self.neo4j.url}
        passwords = {"QDRANT_API_KEY": self.qdrant.password, "NEO4J_PASSWORD": self.neo4j.password}
        return found | {name: password for name, password in passwords.items() if password}

    def empty(self) -> None:
        for each in (self.redis, self.qdrant, self.neo4j):
            each.empty()


@pytest.fixture(params=["here", "containers"])
def stores(request: pytest.FixtureRequest, open_stores: OpenStores) -> Stores:
    """Empty servers: the best that there are here, which may be given ones; and all in containers."""
    kinds: Sequence[str] = ("container", "container", "container")
    best = REDIS.here(True)[0], qdrant_kinds()[0], neo4j_kinds()[0]
    if request.param == "here":
        kinds = best
    elif "given" in best:
        pytest.skip(f"servers are named, and used in place of containers: {best}")
    qdrant = open_stores.get(QDRANT, kinds[1])  # which is there most seldom
    made = Stores(open_stores.get(REDIS, kinds[0]), qdrant, open_stores.get(NEO4J, kinds[2]))
    made.empty()
    return made


@asynccontextmanager
async def served(stores: Stores, folder: Path, more: Mapping[str, str] | None = None) -> AsyncIterator[Crew]:
    """The six services on these stores."""
    settings = stores.variables | KEYS | {"PENTAD_DATA_DIR": str(folder / "data")} | dict(more or {})
    async with crew(stores.redis.url, folder / "logs", {"gateway": 1, **FIVE}, **settings) as team:
        yield team


def url_of(team: Crew) -> str:
    return team.named("gateway")[0].url


async def remembered(agent: Agent, tasks: int) -> None:
    """Wait until so many tasks are remembered and nothing waits to be remembered or learned from."""

    async def all_there() -> bool:
        try:
            stats = await agent.inspection.memory_stats()
        except ClientError:  # 503 while a store is away
            return False
        return (stats.tasks, stats.lag_s) == (tasks, 0) and bool(stats.nodes)

    await wait_until(f"{tasks} tasks in the memory and in the graph", all_there)


async def best(agent: Agent, question: str, user_id: str | None = None) -> str:
    return (await agent.inspection.search_memory(question, user_id=user_id))[0].content


async def test_a_conversation_is_remembered_found_by_its_own_alone_and_erased(stores: Stores, tmp_path: Path) -> None:
    async with served(stores, tmp_path) as team, connect(url_of(team), "us-key") as us:
        session = us.session("s1")
        assert "119" in await session.ask("what is (15+27)*3-42/6?")
        assert "238" in await session.ask("and times 2?")
        for said in (CAT, FERRY):
            await us.ask(said)
        await us.ask(SECRET, user_id="ada")
        await remembered(us, 4)
        assert await best(us, "What is my cat called?") == CAT
        assert CAT in await us.ask("what is my cat called?"), "a new task recalls it"
        hit = (await us.inspection.search_memory("When does the ferry to Bergen leave?"))[0]
        assert (await us.inspection.expand(hit.anchor)).focus.content == FERRY
        assert await best(us, "locker code", "ada") == SECRET
        seen = await us.inspection.search_memory("locker code swordfish", limit=100, user_id="bob")
        assert not any("swordfish" in hit.content for hit in seen)
        async with connect(url_of(team), "them-key") as them:
            assert await them.inspection.search_memory("my cat is called Mimi") == []
        await us.management.delete_user("ada")

        async def gone() -> bool:
            hits = await us.inspection.search_memory("locker code swordfish", limit=100, user_id="ada")
            return not any("swordfish" in hit.content for hit in hits)

        await wait_until("the secret to be erased", gone)
        await remembered(us, 4)
        assert await best(us, "What is my cat called?") == CAT
        assert not team.said("Traceback"), team.logs()


async def test_another_embedding_model_takes_over_what_was_remembered(stores: Stores, tmp_path: Path) -> None:
    async with served(stores, tmp_path / "before") as team, connect(url_of(team), "us-key") as us:
        for said in (CAT, FERRY):
            await us.ask(said)
        await remembered(us, 2)
    async with ScriptedModel(lambda _: say("")) as model:
        other = {"EMBED_MODEL_TYPE": "openai", "EMBED_BASE_URL": model.base_url, "EMBED_MODEL_NAME": "another"}
        other |= {"PENTAD_DATA_DIR": str(tmp_path / "before" / "data")}
        async with (
            served(stores, tmp_path / "after", other) as team,
            connect(url_of(team), "us-key") as us,
            connect(url_of(team), ADMIN) as admin,
        ):
            assert await best(us, "What is my cat called?") == CAT, "by its words, before it is embedded anew"
            await admin.management.reindex_left(queue=True)

            async def all_embedded() -> bool:
                return await admin.management.reindex_left() == 0

            await wait_until("all tasks to be embedded anew", all_embedded)
            used, kept = await admin.management.reindex_switch()
            assert ("another" in used, kept) == (True, None)
            await remembered(us, 2)
            assert await best(us, "When does the ferry to Bergen leave?") == FERRY


@pytest.mark.parametrize("name", ["redis", "qdrant", "neo4j"])
async def test_what_is_said_while_a_store_is_killed_is_remembered_when_it_is_back(
    stores: Stores, tmp_path: Path, name: str
) -> None:
    victim: StoreServer = getattr(stores, name)
    if victim.running.not_killed:
        pytest.skip(victim.running.not_killed)
    async with served(stores, tmp_path) as team, connect(url_of(team), "us-key") as us:
        await us.ask(CAT)
        await remembered(us, 1)
        await asyncio.to_thread(victim.running.kill)
        try:
            if name == "redis":
                await wait_until("the gateway to notice", lambda: _refused(us))
            else:
                await us.ask(FERRY)  # nothing waits for the memory
            if name == "neo4j":
                stats = await us.inspection.memory_stats()
                assert (stats.nodes, stats.segments > 0) == (None, True)
        finally:
            await asyncio.to_thread(victim.running.start)
        if name == "redis":
            await wait_until("the gateway to serve again", lambda: _answered(us))
            await us.ask(FERRY)
        await remembered(us, 2)
        assert await best(us, "What is my cat called?") == CAT
        assert await best(us, "When does the ferry to Bergen leave?") == FERRY


async def _answered(agent: Agent) -> bool:
    try:
        await agent.inspection.tasks()
    except ClientError:
        return False
    return True


async def _refused(agent: Agent) -> bool:
    return not await _answered(agent)
