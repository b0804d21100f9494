"""What comes to the stream of answers is taken for one only when it is."""

import asyncio

import pytest

from pentad.shared.embedder import vectors as bounds
from pentad.shared.embedder.embedding_client import EmbeddingClient
from pentad.shared.models.ports import ModelRefused, ModelUnavailable
from pentad.shared.store.store import Store
from tests.integration.embedder.embedding import REQUESTER, asked, reply_to, write
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.mark.parametrize(
    ("vectors", "complaint"),
    [
        ([], "0 vectors for 2 texts"),
        ([[1.0]], "1 vectors for 2 texts"),
        ([[1.0]] * 3, "3 vectors for 2 texts"),
        ([[1.0], [1.0, 2.0]], "unlike ones"),
        ([[], []], "unlike ones"),
        ([[0.0] * 4097] * 2, "unlike ones"),
        ([[1.0], [1e39]], "too large"),
    ],
)
async def test_what_are_not_the_vectors_asked_for_is_refused(
    store: Store, vectors: list[list[float]], complaint: str
) -> None:
    client = EmbeddingClient(store, PATIENCE_S)
    asking = asyncio.create_task(client.embed(["a", "b"], REQUESTER))
    command = await asked(store)
    await write(store, command, reply_to(command, vectors).to_json())
    with pytest.raises(ModelRefused, match=complaint):
        await asking
    await client.aclose()


async def test_the_models_refusal_reaches_the_caller(store: Store) -> None:
    client = EmbeddingClient(store, PATIENCE_S)
    asking = asyncio.create_task(client.embed(["a"], REQUESTER))
    command = await asked(store)
    await write(store, command, reply_to(command, [], "the text is too long").to_json())
    with pytest.raises(ModelRefused, match="the text is too long"):
        await asking
    await client.aclose()


async def test_what_nobody_can_read_or_has_asked_for_is_dropped_and_the_answer_behind_it_is_taken(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_REPLY_BYTES", 10_000)
    client = EmbeddingClient(store, PATIENCE_S)
    asking = asyncio.create_task(client.embed(["a"], REQUESTER))
    command = await asked(store)
    good = reply_to(command, [[1.0, 2.0]])
    hostile = [
        b"",
        b"\xff\xfe",
        b"not json",
        b"[" * 5_000,
        good.to_json().replace(b"1.0", b"NaN"),
        good.to_json().replace(b"1.0", b"1e999"),
        good.to_json().replace(b"1.0", b'"x"'),
        good.to_json()[:-2],
        good.model_copy(update={"model": "m" * 10_000}).to_json(),
        good.model_copy(update={"causation_id": "another"}).to_json(),
        good.model_copy(update={"causation_id": None}).to_json(),
    ]
    for data in hostile:
        await write(store, command, data)
    await store.call("XADD", command.reply_to, "*", "another", "field", "data", "x")
    assert not asking.done()
    await write(store, command, good.to_json())
    await write(store, command, reply_to(command, [[9.0, 9.0]]).to_json())  # a service that answers twice
    assert (await asking).vectors == [[1.0, 2.0]]
    await client.aclose()


async def test_an_answer_that_comes_late_reaches_nobody_and_ends_by_itself(store: Store) -> None:
    client = EmbeddingClient(store, 0.2)
    late = asyncio.create_task(client.embed(["a"], REQUESTER))
    command = await asked(store)
    with pytest.raises(ModelUnavailable, match="did not answer"):
        await late
    await wait_until("the end of the reading", lambda: client._shards[0]._reader is None)
    await write(store, command, reply_to(command, [[1.0]]).to_json())
    asking = asyncio.create_task(client.embed(["b"], REQUESTER))
    again = await asked(store)
    assert again.reply_to != command.reply_to
    await write(store, again, reply_to(again, [[2.0]]).to_json())
    assert (await asking).vectors == [[2.0]]
    assert 0 < await store.call("TTL", command.reply_to) <= 60
    await client.aclose()


async def test_answers_that_were_read_are_cut_while_others_are_waited_for(store: Store) -> None:
    client = EmbeddingClient(store, PATIENCE_S)
    waiting = asyncio.create_task(client.embed(["never"], REQUESTER))
    await asked(store)
    for n in range(20):
        asking = asyncio.create_task(client.embed([str(n)], REQUESTER))
        command = await asked(store, 2 + n)
        await write(store, command, reply_to(command, [[float(n)]]).to_json())
        assert (await asking).vectors == [[float(n)]]

    async def short() -> bool:
        return int(await store.call("XLEN", command.reply_to)) <= 1

    await wait_until("a short stream", short)
    waiting.cancel()
    await client.aclose()
