"""Endpoints of vectors that refuse requests: asked again in another form, which is remembered and told."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import pytest

from pentad.shared.models import learned_form
from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.models.openai_embedding import OpenAIEmbedding
from pentad.shared.models.ports import ModelRefused, ModelTooLong, ModelUnavailable
from tests.support.models.model_server import ScriptedModel
from tests.support.models.refusals import told
from tests.support.models.replies import Reply, fail, refuse, say

TEXTS = [f"text {number}" for number in range(64)]
SHORT = 2_000
"""Characters that an endpoint of short texts takes."""


def listed(body: dict[str, Any]) -> list[str]:
    """The texts of a request."""
    given = body["input"]
    return [given] if isinstance(given, str) else given


def fits(takes: str | int, body: dict[str, Any]) -> bool:
    """Whether an endpoint takes a request: ``takes`` is what it wants in the words of `refusals.json`."""
    if takes == "text":
        return isinstance(body["input"], str)
    if takes == "short":
        return max(map(len, listed(body))) <= SHORT
    if isinstance(takes, int):
        return len(listed(body)) <= takes
    return takes.removeprefix("without ") not in body


@pytest.fixture
async def server() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(lambda _: say("x"), dims=16) as scripted:
        yield scripted


def refusing(server: ScriptedModel, row: Any) -> None:
    """Let it refuse what it does not take, in the words of this server."""
    server.refuses = lambda body: None if fits(row["takes"], body) else refuse(row["status"], row["body"])


def rows(*kinds: type) -> list[Any]:
    return [row for row in told("texts") if isinstance(row.values[0]["takes"], kinds)]


@pytest.mark.parametrize("row", [row for row in rows(str) if row.values[0]["takes"].startswith("without ")])
async def test_vectors_are_asked_for_without_the_field_that_is_refused(server: ScriptedModel, row: Any) -> None:
    """Promise: `dimensions` and `encoding_format` that an endpoint does not know end nothing."""
    model = OpenAIEmbedding(server.base_url, None, "e", dimensions=8)
    if row["takes"] != "without dimensions":
        model = OpenAIEmbedding(server.base_url, None, "e")
    refusing(server, row)
    for _ in range(2):
        vectors = await model.embed(TEXTS)
        assert vectors == [server.embedding.vector(text) for text in TEXTS]
    assert [fits(row["takes"], each.body) for each in server.seen.requests] == [False, True, True]
    assert model.dimensions == 16
    await model.aclose()


@pytest.mark.parametrize("row", [row for row in rows(str) if row.values[0]["takes"] == "text"])
async def test_an_endpoint_without_lists_is_sent_one_text_at_a_time(server: ScriptedModel, row: Any) -> None:
    """Promise: an endpoint that takes a text and no list of them gets each text alone, from then on at once."""
    model = OpenAIEmbedding(server.base_url, None, "e")
    refusing(server, row)
    assert await model.embed(TEXTS[:3]) == [server.embedding.vector(text) for text in TEXTS[:3]]
    assert model.most_texts == 1
    await model.embed(["again"])
    assert [each.body["input"] for each in server.seen.requests] == [TEXTS[:3], *TEXTS[:3], "again"]
    await model.aclose()


@pytest.mark.parametrize("row", rows(int))
async def test_an_endpoint_that_takes_fewer_texts_is_sent_so_many(server: ScriptedModel, row: Any) -> None:
    """Promise: "too many inputs", in each server's words, makes requests that it takes, and then at once."""
    model = OpenAIEmbedding(server.base_url, None, "e")
    refusing(server, row)
    assert await model.embed(TEXTS) == [server.embedding.vector(text) for text in TEXTS]
    assert model.most_texts == row["takes"]
    asked = len(server.seen.requests)
    assert asked <= -(-len(TEXTS) // row["takes"]) + 1
    await model.embed(TEXTS[: row["takes"]])
    assert len(server.seen.requests) == asked + 1
    await model.aclose()


@pytest.mark.parametrize("row", [row for row in rows(str) if row.values[0]["takes"] == "short"])
async def test_of_a_text_that_is_too_long_the_beginning_counts(server: ScriptedModel, row: Any) -> None:
    """Promise: too long, in each endpoint's words, is told to whoever sends several, and cut where it stands alone."""
    model = OpenAIEmbedding(server.base_url, None, "e")
    refusing(server, row)
    long = "word " * 2_000
    with pytest.raises(ModelTooLong):
        await model.embed([long, "short"])
    assert await model.embed([long]) == [server.embedding.vector(long[:1_250])]
    assert model.learned == (), "another text may be shorter"
    await model.aclose()


async def test_what_is_learned_of_an_endpoint_is_said_once_and_told(
    server: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: an operator sees that vectors have another length than was configured, and why."""
    model = OpenAIEmbedding(server.base_url, "sk-secret-key", "e", dimensions=8)
    refusal = fail(400, message="This model does not support specifying dimensions, sk-secret-key")
    server.refuses = lambda body: refusal if "dimensions" in body else None
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await model.embed(["a"])
    [line] = [record.getMessage() for record in caplog.records if "dimensions" in record.getMessage()]
    assert f"model e at {server.base_url} has refused a request, so dimensions is not sent to it" in line
    [learned] = model.learned
    assert learned.startswith(
        "dimensions is not sent to it: it says 'This model does not support specifying dimensions, ***"
    )
    await model.aclose()


async def test_an_endpoint_that_is_mended_gives_vectors_of_the_configured_length_again(server: ScriptedModel) -> None:
    """Promise: vectors of another length than was asked for are taken only while the endpoint refuses to be asked."""
    model = OpenAIEmbedding(server.base_url, None, "e", dimensions=8)
    server.refuses = lambda body: fail(400, message="Unknown parameter: 'dimensions'") if "dimensions" in body else None
    assert len((await model.embed(["a"]))[0]) == 16
    model._forms.of("e")._clock = lambda: monotonic() + learned_form.LEARNED_S
    server.refuses = lambda _: None
    with pytest.raises(ModelRefused, match="length 16 instead of 8"):
        await model.embed(["a"])
    server.embedding = HashingEmbedding(8)
    assert len((await model.embed(["a"]))[0]) == 8
    assert model.learned == ()
    await model.aclose()


async def test_vectors_that_come_as_base64_unasked_are_read(server: ScriptedModel) -> None:
    """Promise: an endpoint that refuses `float` and sends what its own default is, is understood."""

    def script(body: dict[str, Any]) -> Reply | None:
        if body.get("encoding_format") == "float":
            return fail(400, message="Value 'float' supplied for argument 'encoding_format' is not valid")
        body["encoding_format"] = "base64"
        return None

    server.refuses = script
    model = OpenAIEmbedding(server.base_url, None, "e")
    [vector] = await model.embed(["a"])
    assert vector == pytest.approx(server.embedding.vector("a"), abs=1e-6)
    await model.aclose()


@pytest.mark.parametrize("status", [401, 402, 403, 404, 501, 400])
async def test_an_endpoint_that_refuses_each_form_has_taught_nothing(server: ScriptedModel, status: int) -> None:
    """Promise: a refusal of everything is bounded, and no form is kept."""
    server.refuses = lambda _: fail(status, message="dimensions, encoding_format, batch size: no")
    model = OpenAIEmbedding(server.base_url, None, "e", dimensions=8)
    with pytest.raises(ModelRefused):
        await model.embed(TEXTS)
    assert len(server.seen.requests) <= learned_form.MAX_REPEATS + 1
    assert (model.learned, model.most_texts) == ((), 64)
    await model.aclose()


async def test_a_rate_limit_teaches_nothing(server: ScriptedModel) -> None:
    """Promise: too many requests in a while are no list that is too long."""
    server.refuses = lambda _: fail(429, message="the number of inputs per minute is limited: at most 10 inputs")
    model = OpenAIEmbedding(server.base_url, None, "e")
    with pytest.raises(ModelUnavailable):
        await model.embed(TEXTS)
    assert (model.learned, model.most_texts) == ((), 64)
    assert all(len(each.body["input"]) == 64 for each in server.seen.requests)
    await model.aclose()
