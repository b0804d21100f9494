"""A real Redis server for tests, see `servers`: the wheel's, one that is named, or one in a container.

``PENTAD_TEST_REDIS_URL`` names a server that runs already and the database in it that is used;
``PENTAD_TEST_REDIS_IMAGE`` names another image. None of them loses anything when it is killed.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import redis

from tests.support.redis.redis_server import RedisServer
from tests.support.stores.containers import ServerContainer
from tests.support.stores.servers import StoreKinds, StoreServer, given_server

IMAGE = os.environ.get(
    "PENTAD_TEST_REDIS_IMAGE",
    "redis:7.4.11-alpine@sha256:ff02b58f971e7d7d156a1267e283fcbbeee91773b6aa36c49dac28ecfe28eadf",
)
COMMAND = "redis-server --bind 0.0.0.0 --protected-mode no --save '' --appendonly yes --appendfsync always"
_GIVEN = "PENTAD_TEST_REDIS_URL"
_PORT = 6379


def _emptying(url: str) -> Callable[[], None]:
    def empty() -> None:
        with redis.Redis.from_url(url) as client:
            client.flushdb()

    return empty


@contextmanager
def _given() -> Iterator[StoreServer]:
    url = os.environ[_GIVEN]

    def size() -> int:
        with redis.Redis.from_url(url) as client:
            return int(client.dbsize())

    server = StoreServer(url, given_server(_GIVEN, urlsplit(url).netloc, size), _emptying(url))
    yield server
    server.empty()


class RedisProcess:
    """The wheel's server."""

    not_killed: str | None = None

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    @property
    def place(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.port}"

    def kill(self) -> None:
        self._server.kill9()

    def start(self) -> None:
        self._server.start()


@contextmanager
def _process() -> Iterator[StoreServer]:
    with RedisServer(aof="always") as server:
        yield StoreServer(server.url, RedisProcess(server), _emptying(server.url))


@contextmanager
def _container() -> Iterator[StoreServer]:
    with ServerContainer(IMAGE, _PORT, answers, command=COMMAND) as container:
        url = f"redis://{container.place}/0"
        yield StoreServer(url, container, _emptying(url))


def answers(place: str) -> bool:
    """Whether a Redis answers there."""
    try:
        with redis.Redis.from_url(f"redis://{place}/0", socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


REDIS = StoreKinds(_GIVEN, _given, _process, _container)
