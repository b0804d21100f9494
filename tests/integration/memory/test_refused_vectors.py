"""While an endpoint of embeddings refuses everything, what has ended waits: it is an outage, and said."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.contracts.streams import DEAD, REMEMBER
from pentad.services.archiver.app import Archiver
from pentad.services.embedding.app import EmbeddingService
from pentad.shared.errors import MemoryOutageError
from pentad.shared.memory.points import SEGMENT_KIND
from pentad.shared.memory.stores import vectors_of
from pentad.shared.owners import Owner
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.dead_letters import letter_of_entry
from tests.integration.gateway.conftest import running as gateway_of
from tests.integration.memory.remembered import TASK, end
from tests.integration.memory.test_archiver_memory import SAID, WOKEN, ended, running
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import fail, say
from tests.support.waiting import PATIENCE_S, wait_until

WORDS = "this endpoint does nothing for you"


def settings_of(store: Store, folder: Path, endpoint: str, **more: Any) -> Settings:
    asks = {"embed_model_type": "openai", "embed_base_url": endpoint, "embed_model_name": "e"}
    given = {"redis_url": store.url, "pentad_data_dir": folder, "pentad_grace_s": 0, "pentad_lease_s": 0.5}
    return Settings.model_validate(given | asks | more)


@asynccontextmanager
async def both(store: Store, settings: Settings) -> AsyncIterator[tuple[Archiver, Vectors]]:
    """An archiver with the embedding service that it asks, and its memory."""
    embedding, vectors = EmbeddingService(settings), vectors_of(settings, store)
    await embedding.start()
    try:
        async with running(settings) as archiver:
            yield archiver, vectors
    finally:
        await embedding.stop()
        await vectors.aclose()


async def remembered(vectors: Vectors) -> list[str]:
    """What was said, as the memory has it."""
    found: list[str] = []
    with suppress(MemoryOutageError):  # nobody has it open yet
        for each in await vectors.collections():
            chosen = Selection(Owner(TASK.tenant), Whose.ALL, kinds=(SEGMENT_KIND,))
            found += [point.payload.text for point in (await vectors.scroll(each.name, chosen, 9)).points]
    return found


@pytest.mark.parametrize("status", [400, 401, 403, 404, 501])
async def test_an_ended_task_waits_for_an_endpoint_that_refuses_everything(
    store: Store, tmp_path: Path, status: int
) -> None:
    """Promise: no memory becomes a dead letter for a wrong key or model: readiness says why it waits, and what has
    ended is remembered once the endpoint is mended."""
    async with ScriptedModel(lambda _: say("")) as server:
        server.refuses = lambda _: fail(status, message=WORDS)
        settings = settings_of(store, tmp_path, server.base_url, pentad_max_attempts=1)
        async with both(store, settings) as (archiver, vectors):
            await ended(store)

            def told() -> bool:
                said = [archiver.checks()[name] or "" for name in ("memory", "archiving")]
                return all("the embedding model refuses every request" in each and WORDS in each for each in said)

            await wait_until("readiness to say what is waited for", told)
            assert await store.call("XLEN", DEAD.key(0)) == 0
            server.refuses = lambda _: None
            await wait_until("it to be remembered", lambda: remembered(vectors))
            assert await remembered(vectors) == [SAID[0][1]]
            await wait_until("it to be well", lambda: not any(archiver.checks().values()))


async def test_a_task_that_was_set_aside_for_that_is_remembered_when_it_is_redriven(
    store: Store, tmp_path: Path
) -> None:
    """Promise: the dead letters that earlier versions have made of such tasks bring their memory back."""
    letter = letter_of_entry(
        REMEMBER, REMEMBER.key(0), "1-1", [(b"data", WOKEN)], f"ModelRefused: {WORDS}", 5, "2030-01-31T12:00:00.000Z"
    )
    await store.call("XADD", DEAD.key(0), "5-1", "data", letter.to_json())
    await end(store, SAID, goal="g", remember_of="step-1")
    async with (
        ScriptedModel(lambda _: say("")) as server,
        gateway_of(store.url, pentad_data_dir=tmp_path) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        settings = settings_of(store, tmp_path, server.base_url)
        async with both(store, settings) as (_, vectors):
            redriven = await http.post("/v1/dead-letters/0-5-1/redrive")
            assert redriven.status_code == 202, redriven.text
            await wait_until("it to be remembered", lambda: remembered(vectors))
            assert await remembered(vectors) == [SAID[0][1]]
