"""What holds on a Qdrant server alone: its indexes, and what one request to it may carry."""

import random
from dataclasses import replace
from typing import Any

import pytest

from pentad.shared.vectors.points import KEYWORD_FIELDS, NUMBER_FIELDS, Dense
from pentad.shared.vectors.qdrant_vectors import QdrantVectors
from pentad.shared.vectors.selection import Selection
from tests.support.point_maker import ADA, near, point


async def test_an_index_is_asked_for_once(on_server: QdrantVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = await on_server._opened()
    client, asked = calls._client, list[str]()
    create = client.create_payload_index

    async def counted(name: str, field: str, **more: Any) -> object:
        asked.append(field)
        return await create(name, field, **more)

    monkeypatch.setattr(client, "create_payload_index", counted)
    for _ in range(3):
        await on_server.prepare("memory", 3)
    assert asked == [*KEYWORD_FIELDS, *NUMBER_FIELDS]
    await client.delete_payload_index("memory", "session")
    await on_server.prepare("memory", 3)
    assert asked[-1] == "session", "one that somebody has removed is made again"


async def test_the_most_points_with_the_longest_vectors_are_written_and_found(on_server: QdrantVectors) -> None:
    chance = random.Random(3)
    vectors = [tuple(chance.uniform(-1, 1) for _ in range(4096)) for _ in range(4)]
    given = [point(f"p{n}", dense=vectors[n % 4], text=f"p{n} " + "\u0001" * 10_000) for n in range(256)]
    given = [replace(each, dense=dict.fromkeys(Dense, each.dense[Dense.TEXT])) for each in given]
    await on_server.prepare("long", 4096)
    on_server._timeout_s = 120  # 256 times the most
    await on_server.upsert("long", given)
    assert await on_server.count("long", Selection(ADA)) == 256
    [hits] = await on_server.search("long", [near(vectors[1], Selection(ADA), 64)])
    assert {hit.id for hit in hits} == {each.id for each in given[1::4]}
