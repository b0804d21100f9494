"""A Redis that is recorded and put back is the same Redis, at another time."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from tests.support.redis.keyspace import absolute, put_back, read_keys, relative

NOW = 1_900_000_000_000
DAY_MS = 86_400_000


@pytest.fixture
def redis(server_url: str) -> Iterator[Any]:
    with Redis.from_url(server_url, protocol=2, decode_responses=True) as client:
        client.flushall()
        yield client


def _fill(redis: Any) -> None:
    redis.set("text", "x", ex=100)
    redis.hset("hash", mapping={"at": str(NOW - 5), "count": "7"})
    redis.rpush("list", f'{{"at":"2030-03-17T17:46:40.000Z","id":"{NOW + 1}-0"}}', "second")
    redis.zadd("zset", {f"seen {NOW - 9}": NOW + 9})
    redis.xgroup_create("work", "worker", mkstream=True)
    for n in range(4):
        redis.xadd("work", {"data": str(n)}, id=f"{NOW + n}-1")
    redis.xreadgroup("worker", "someone", {"work": ">"}, count=3)
    redis.xack("work", "worker", f"{NOW}-1", f"{NOW + 2}-1")


def _all(redis: Any) -> dict[str, Any]:
    return read_keys(redis, lambda key: key == "zset")


def test_what_was_recorded_is_put_back_with_its_pending_entries(redis: Any) -> None:
    _fill(redis)
    recorded = _all(redis)
    assert recorded["work"]["value"]["groups"]["worker"]["last"] == f"{NOW + 2}-1"
    assert list(recorded["work"]["value"]["entries"]) == [f"{NOW + 1}-1", f"{NOW + 3}-1"], (
        "what is done with is left out"
    )
    redis.flushall()
    put_back(redis, recorded)
    assert _all(redis) == recorded
    assert redis.xinfo_groups("work")[0] | {"consumers": 0} == {
        "name": "worker", "consumers": 0, "pending": 1, "last-delivered-id": f"{NOW + 2}-1", "entries-read": 1, "lag": 1
    }  # fmt: skip
    assert redis.xreadgroup("worker", "another", {"work": ">"}) == [["work", [(f"{NOW + 3}-1", {"data": "3"})]]]


def test_times_are_kept_relative_and_numbers_are_not_times(redis: Any) -> None:
    text = json.dumps({"at": "2030-03-17T17:46:40.000Z", "ids": [f"{NOW - 3}-0", "1-1", "task-0-1900000000000a"]})
    recorded = relative(text, NOW)
    assert json.loads(recorded) == {"at": "<at +0>", "ids": ["<ms -3>-0", "1-1", "task-0-1900000000000a"]}
    assert absolute(recorded, NOW) == text
    later = json.loads(absolute(recorded, NOW + DAY_MS))
    assert (later["at"], later["ids"][0]) == ("2030-03-18T17:46:40.000Z", f"{NOW + DAY_MS - 3}-0")
