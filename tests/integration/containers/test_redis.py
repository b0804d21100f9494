"""A Redis from its image is a Redis that Pentad can use."""

from collections.abc import AsyncIterator

import pytest

from pentad.shared.store.store import Store
from tests.support.stores.servers import StoreServer

pytestmark = pytest.mark.containers


@pytest.fixture
async def store(container_redis: StoreServer) -> AsyncIterator[Store]:
    store = Store(container_redis.url)
    yield store
    await store.close()


async def test_the_server_is_new_enough(store: Store) -> None:
    info = (await store.redis.info("server"))["redis_version"]
    assert int(info.split(".")[0]) >= 7


async def test_every_script_of_ours_is_one_that_the_server_accepts(store: Store) -> None:
    assert store.scripts
    for script in store.scripts.values():
        assert (await store.call("SCRIPT", "LOAD", script.body)).decode() == script.digest, script.name


async def test_a_group_and_what_it_has_not_acknowledged_survive_a_killed_server(
    store: Store, container_redis: StoreServer
) -> None:
    await store.call("XGROUP", "CREATE", "work", "workers", "0", "MKSTREAM")
    entry = await store.call("XADD", "work", "*", "data", "x")
    await store.call("XREADGROUP", "GROUP", "workers", "one", "STREAMS", "work", ">")
    container_redis.running.kill()
    container_redis.running.start()
    after = Store(container_redis.url)
    try:
        (pending,) = await after.redis.xpending_range("work", "workers", "-", "+", 10)
        (group,) = await after.redis.xinfo_groups("work")
    finally:
        await after.close()
    assert (pending["message_id"], pending["consumer"]) == (entry, b"one")
    assert group["lag"] == 0
