"""The embedding service: requests of many callers become few calls of the endpoint, and no text is embedded twice."""

import asyncio
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pentad.shared.embedder.embedding_client import EmbeddingClient
from pentad.shared.embedder.vectors import Requester
from pentad.shared.metrics import embed_cache
from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.store.store import Store
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import say
from tests.support.processes.crew import crew
from tests.support.processes.eyes import metric
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.redis.switch import Switch
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

CALLERS = 100


def endpoint(model: ScriptedModel) -> dict[str, str]:
    return {"EMBED_MODEL_TYPE": "openai", "EMBED_BASE_URL": model.base_url, "EMBED_MODEL_NAME": "some-model"}


def behind(switch: Switch) -> dict[str, str]:
    """The variables of an endpoint that is reached through a switch."""
    return {"EMBED_MODEL_TYPE": "openai", "EMBED_BASE_URL": f"http://127.0.0.1:{switch.port}/v1"}


def embedded(model: ScriptedModel) -> list[list[str]]:
    """The texts of each request that the endpoint got."""
    return [request.body["input"] for request in model.seen.requests if request.path.endswith("/embeddings")]


async def test_requests_of_many_callers_are_batched_and_no_text_is_embedded_twice(tmp_path: Path) -> None:
    async with (
        RedisServer() as server,
        ScriptedModel(lambda _: say("")) as model,
        crew(server.url, tmp_path / "run", {"embedding": 1}, **endpoint(model)) as team,
        Bus(server.url) as bus,
    ):
        # Each caller wants a text of its own and one that all want.
        wanted = [[f"text {n}", "the same for all"] for n in range(CALLERS)]
        keys = await asyncio.gather(*(bus.ask_to_embed(texts, f"c{n}") for n, texts in enumerate(wanted)))
        answers = await asyncio.gather(*(bus.answer(key) for key in keys))
        first = embedded(model)
        again = await bus.answer(await bus.ask_to_embed(["the same for all", "text 7", "new"], "again"))
        second = embedded(model)[len(first) :]
        ttls = [await bus.redis.ttl(key) for key in [*keys, *await bus.redis.keys("pentad:{0}:vector:*")]]
        hits = await metric(team.processes[0], embed_cache.name, 'outcome="hit"')
    texts = [text for batch in first for text in batch]
    print(f"\n{CALLERS} callers with {2 * CALLERS} texts: {len(first)} requests for {len(texts)} texts; ", end="")
    print(f"later {hits:.0f} found in the cache")
    for answer, asked in zip([*answers, again], [*wanted, ["the same for all", "text 7", "new"]], strict=True):
        assert answer["error"] is None
        for text, vector in zip(asked, answer["vectors"], strict=True):
            assert vector == pytest.approx(model.embedding.vector(text), abs=1e-6)
    assert sorted(texts) == sorted({text for asked in wanted for text in asked})
    assert len(first) <= CALLERS // 4
    assert second == [["new"]]
    assert hits >= 2
    assert all(0 < ttl <= 7 * 86_400 for ttl in ttls)


async def test_dashscope_is_asked_for_ten_texts_at_a_time(tmp_path: Path) -> None:
    async with (
        RedisServer() as server,
        ScriptedModel(lambda _: say("")) as model,
        crew(
            server.url,
            tmp_path / "run",
            {"embedding": 1},
            EMBED_MODEL_TYPE="dashscope",
            EMBED_API_KEY="sk-x",
            EMBED_BASE_URL=model.base_url,
        ),
        Bus(server.url) as bus,
    ):
        texts = [f"text {number}" for number in range(35)]
        answer = await bus.answer(await bus.ask_to_embed(texts, "r"))
    assert (answer["model"], answer["error"]) == ("text-embedding-v4", None)
    assert [len(batch) for batch in embedded(model)] == [10, 10, 10, 5]
    for text, vector in zip(texts, answer["vectors"], strict=True):
        assert vector == pytest.approx(model.embedding.vector(text), abs=1e-6)


async def test_without_an_endpoint_texts_are_hashed(tmp_path: Path) -> None:
    async with (
        RedisServer() as server,
        crew(server.url, tmp_path / "run", {"embedding": 1}),
        Bus(server.url) as bus,
    ):
        answer = await bus.answer(await bus.ask_to_embed(["one text", "another"], "r"))
        refused = await bus.answer(await bus.ask_to_embed(["", "x" * 10], "empty"))
    hashing = HashingEmbedding()
    assert answer["model"] == hashing.name
    assert [len(vector) for vector in answer["vectors"]] == [hashing.dimensions] * 2
    assert answer["vectors"][0] == pytest.approx(hashing.vector("one text"), abs=1e-6)
    assert len(refused["vectors"]) == 2
    print(f"\n{answer['model']}: {hashing.dimensions} dimensions")


async def test_a_refusal_is_an_answer(tmp_path: Path) -> None:
    async with (
        RedisServer() as server,
        ScriptedModel(lambda _: say("")) as model,
        crew(server.url, tmp_path / "run", {"embedding": 1}, **endpoint(model)),
        Bus(server.url) as bus,
    ):
        before = await bus.answer(await bus.ask_to_embed(["a text"], "before"))
        model.embedding = HashingEmbedding(32)  # another model under the same name
        answer = await bus.answer(await bus.ask_to_embed(["another text"], "after"))
        letters = await bus.letters("pentad:{0}:dead")
    print(f"\nrefused: {answer['error']}")
    assert before["error"] is None
    assert "32" in answer["error"]
    assert answer["vectors"] == []
    assert letters == []


async def test_a_service_that_is_killed_over_a_request_costs_its_caller_some_time_only(tmp_path: Path) -> None:
    async with (
        RedisServer() as server,
        ScriptedModel(lambda _: say("")) as model,
        Switch(urlsplit(model.base_url).port or 0) as switch,
        crew(server.url, tmp_path / "run", {"embedding": 1}, PENTAD_LEASE_S="0.5", **behind(switch)) as team,
        Bus(server.url) as bus,
    ):
        store = Store(server.url)
        client = EmbeddingClient(store, 60.0)
        switch.hold()
        asking = asyncio.create_task(client.embed(["one text"], Requester(0, "default", "s1")))
        await wait_until("the request in its hands", lambda: bus.holder("pentad:{0}:embed", "embedding"))
        team.kill(team.processes[0])
        switch.release()
        begun = time.monotonic()
        await team.add("embedding")
        answer = await asking
        seconds = time.monotonic() - begun
        await client.aclose()
        await store.close()
    print(f"\nanswered {seconds:.1f} s after the kill, the start of another service included")
    assert answer.vectors[0] == pytest.approx(model.embedding.vector("one text"), abs=1e-6)
