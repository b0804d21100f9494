"""Requests to a Qdrant server: what one may carry, and where it goes."""

import random
from collections.abc import Sequence

import pytest

from pentad.shared.vectors.points import Point, Sparse, SparseVector
from pentad.shared.vectors.qdrant_calls import connected
from pentad.shared.vectors.qdrant_requests import parts_of, points
from tests.support.point_maker import point

TAKEN_BYTES = 32 << 20
"""Bytes that a server takes in one request unless it is told otherwise."""


def size(part: Sequence[Point]) -> int:
    return sum(len(each.model_dump_json()) for each in points(part))


def test_points_are_written_in_requests_that_a_server_takes_and_all_in_their_order() -> None:
    chance = random.Random(5)
    long = tuple(-chance.random() * 1e-200 for _ in range(4096))
    terms = SparseVector(tuple(range(1 << 31, (1 << 31) + 8192)), tuple(chance.random() for _ in range(8192)))
    given = [point(f"p{n}", dense=long, text="\u0001" * 60_000) for n in range(32)]
    given = [Point(p.id, p.payload, p.dense, dict.fromkeys(Sparse, terms)) for p in given] + [point("small")] * 224
    parts = list(parts_of(given))
    assert [each for part in parts for each in part] == given
    assert size(given) > TAKEN_BYTES / 2 > max(map(size, parts)), "half of it is left for what else a request has"
    assert len(parts) < 16


def test_texts_that_json_must_escape_are_counted_as_they_are_sent() -> None:
    given = [point(f"p{n}", text="\u0001" * 60_000) for n in range(256)]
    parts = list(parts_of(given))
    assert [each for part in parts for each in part] == given
    assert size(given) > TAKEN_BYTES > 2 * max(map(size, parts))


def test_small_points_are_written_in_one_request() -> None:
    assert list(parts_of([point(f"p{n}") for n in range(256)])) == [[point(f"p{n}") for n in range(256)]]
    assert list(parts_of([])) == []


def test_one_point_that_is_larger_than_a_request_should_be_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pentad.shared.vectors.qdrant_requests._MAX_REQUEST_BYTES", 10)
    assert list(parts_of([point("a"), point("b")])) == [[point("a")], [point("b")]]


@pytest.mark.parametrize(
    ("url", "goes_to"),
    [
        ("https://memory.example", "https://memory.example:443"),
        ("https://memory.example/qdrant", "https://memory.example:443/qdrant"),
        ("https://memory.example:6333", "https://memory.example:6333"),
        ("http://memory.example", "http://memory.example:6333"),
        ("http://memory.example:80", "http://memory.example:80"),
    ],
)
async def test_an_address_without_a_port_means_that_of_https_or_that_of_qdrant(url: str, goes_to: str) -> None:
    client = connected(url, None, 1)
    assert getattr(client._client, "rest_uri", None) == goes_to
    await client.close()


@pytest.mark.parametrize(("url", "kept"), [("http://memory.example", 0), ("https://memory.example", 64)])
async def test_connections_are_kept_with_tls_alone_however_the_server_is_called(url: str, kept: int) -> None:
    """On one that is kept a server without TLS answers some 40 ms later."""
    client = connected(url, None, 1)
    assert getattr(client._client, "_rest_args", {})["limits"].max_keepalive_connections == kept
    await client.close()
