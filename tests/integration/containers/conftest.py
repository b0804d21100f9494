"""The Redis in a container."""

import pytest

from tests.support.stores.open_stores import OpenStores
from tests.support.stores.redis import REDIS
from tests.support.stores.servers import StoreServer


@pytest.fixture
def container_redis(open_stores: OpenStores) -> StoreServer:
    """An empty server; what a test breaks it must mend before it ends."""
    server = open_stores.get(REDIS, "container")
    server.empty()
    return server
