"""An endpoint of vectors that refuses every request is said once and waited for; one text that is refused is not."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

import pytest

from pentad.contracts.models import ModelHealth
from pentad.services.embedding import handlers
from pentad.services.embedding.app import EmbeddingService
from pentad.shared.embedder.embedding_client import EmbeddingClient
from pentad.shared.models.ports import ModelRefused, ModelUnavailable
from pentad.shared.presence.announcements import reported
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.integration.embedder.embedding import REQUESTER
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, fail, refuse, say
from tests.support.waiting import PATIENCE_S, wait_until


@asynccontextmanager
async def serving(store: Store) -> AsyncIterator[tuple[ScriptedModel, EmbeddingClient]]:
    """The service in front of an endpoint, and one who asks it."""
    async with ScriptedModel(lambda _: say("")) as server:
        given = {"redis_url": store.url, "embed_model_type": "openai", "embed_base_url": server.base_url}
        service = EmbeddingService(Settings.model_validate(given))
        await service.start()
        client = EmbeddingClient(store, PATIENCE_S)
        try:
            yield server, client
        finally:
            await client.aclose()
            await service.stop()


def always(reply: Reply) -> Callable[[dict[str, Any]], Reply | None]:
    return lambda _: reply


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}),
        (402, {"error": {"message": "Insufficient credits", "code": 402}}),
        (403, {"error": {"message": "Project has no access to model e", "code": "model_not_found"}}),
        (404, {"error": 'model "e" not found, try pulling it first'}),
        (501, {"error": {"code": 501, "message": "This server does not support embeddings. Use --embeddings"}}),
        (400, {"object": "error", "message": "The model does not support Embeddings API", "code": 400}),
        (429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}),
    ],
)  # fmt: skip
async def test_what_refuses_everything_is_waited_for_and_said_once(
    store: Store, caplog: pytest.LogCaptureFixture, status: int, body: Any
) -> None:
    """Promise: a wrong key makes no dead letters: whoever needs vectors is told to wait, and why, and goes on by itself
    once it is mended. The log says it once."""
    async with serving(store) as (server, client):
        server.refuses = always(refuse(status, body))
        words = body["message"] if "message" in body else body["error"]
        words = words if isinstance(words, str) else words["message"]
        with caplog.at_level(logging.ERROR):
            for number in range(3):
                with pytest.raises(ModelUnavailable, match="refuses every request") as failed:
                    await client.embed([f"{number} {each}" for each in range(20)], REQUESTER)
                assert words in str(failed.value)
        said = [record.getMessage() for record in caplog.records if "refuses every request" in record.getMessage()]
        assert len(said) == 1
        assert words in said[0]
        asked = [request.body["input"] for request in server.seen.requests]
        assert asked.count([handlers._HARMLESS]) == 1, "it is looked once in a while whether it refuses everything"
        assert len(asked) <= 3 * 3 + 1, "and each refusal costs the endpoint few requests"
        server.refuses = lambda _: None
        assert len((await client.embed(["after"], REQUESTER)).vectors) == 1


async def test_a_wrong_key_is_told_with_the_models_health(store: Store) -> None:
    """Promise: `pentad models` and the doctor show that the embedding model is refused, and what was learned of it."""
    async with serving(store) as (server, client):
        server.refuses = always(fail(401, message="Incorrect API key provided"))

        async def refused() -> bool:
            with pytest.raises(ModelUnavailable):
                await client.embed(["a"], REQUESTER)
            [told] = (await reported(store)).get("default-embedding", [None])
            return told is not None and told.refused and "Incorrect API key" in str(told.error)

        await wait_until("the refusal to be told", refused)
        server.refuses = lambda body: (
            fail(400, message="Unknown parameter: 'encoding_format'") if "encoding_format" in body else None
        )

        async def learned() -> bool:
            await client.embed(["a"], REQUESTER)
            [told] = (await reported(store))["default-embedding"]
            return not told.refused and any("encoding_format is not sent to it" in line for line in told.learned)

        await wait_until("what was learned to be told", learned)


async def test_a_refusal_that_says_nothing_of_the_model_is_told_as_failing(store: Store) -> None:
    """Promise: a plain 400 to everything is `failing` with its server's words, and no wrong key or model."""
    async with serving(store) as (server, client):
        server.refuses = always(fail(400, message="no"))

        async def failing() -> ModelHealth | None:
            with pytest.raises(ModelUnavailable, match="refuses every request"):
                await client.embed(["a"], REQUESTER)
            [told] = (await reported(store)).get("default-embedding", [None])
            return told if told is not None and told.state == "failing" else None

        told = await wait_until("the refusal to be told", failing)
        assert told is not None
        assert (told.refused, "answered 400: no" in str(told.error)) == (False, True)


@pytest.mark.parametrize("status", [400, 403])
async def test_one_text_that_is_refused_is_an_error_of_its_own(store: Store, status: int) -> None:
    """Promise: a text that the endpoint will never embed makes nobody wait for ever."""
    async with serving(store) as (server, client):
        flagged = fail(status, message="the input was flagged")
        server.refuses = lambda body: flagged if any("bad" in text for text in body["input"]) else None
        with pytest.raises(ModelRefused, match="was flagged"):
            await client.embed(["good", "bad"], REQUESTER)
        assert len((await client.embed(["good", "fine"], REQUESTER)).vectors) == 2


async def test_a_refused_text_is_told_apart_again_once_the_endpoint_is_mended(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: no text waits for ever, because its endpoint had refused everything once."""
    async with serving(store) as (server, client):
        server.refuses = always(fail(401, message="Incorrect API key provided"))
        with pytest.raises(ModelUnavailable, match="refuses every request"):
            await client.embed(["b"], REQUESTER)
        server.refuses = lambda body: fail(400, message="it was flagged") if "bad" in body["input"] else None
        with pytest.raises(ModelUnavailable, match="refuses every request"):
            await client.embed(["bad"], REQUESTER)
        now = monotonic()
        monkeypatch.setattr(handlers, "monotonic", lambda: now + handlers._PROBE_S)
        with pytest.raises(ModelRefused, match="it was flagged"):
            await client.embed(["bad"], REQUESTER)


async def test_an_endpoint_that_goes_away_while_it_is_looked_at_is_an_outage(store: Store) -> None:
    """Promise: what is not known to refuse everything is not said to."""
    async with serving(store) as (server, client):
        server.refuses = lambda body: fail(503) if body["input"] == ["a"] else fail(400, message="no")
        client._timeout_s = 0.5
        with pytest.raises(ModelUnavailable, match="did not answer"):
            await client.embed(["b"], REQUESTER)
        server.refuses = lambda _: None

        async def embedded() -> bool:
            with suppress(ModelUnavailable, ModelRefused):  # the request before may still be under way
                return len((await client.embed(["b"], REQUESTER)).vectors) == 1
            return False

        await wait_until("the text to be embedded", embedded)
