"""A Redis server in a container, for suites that should hold on the real thing.

Ask for ``container_redis_url``: the address of an empty server, one per test process. ``container_redis`` can be killed
as well. ``PENTAD_TEST_REDIS_IMAGE`` names the image. Without an engine or the image the tests are skipped and say so.
In a container with an engine of its own, testcontainers looks for published ports elsewhere: say
``TESTCONTAINERS_CONNECTION_MODE=docker_host TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1``.
"""

import asyncio
import contextlib
import gc
import os
import socket
import warnings
from collections.abc import Iterator

import docker  # type: ignore[import-untyped]
import pytest
from docker.errors import APIError, DockerException, ImageNotFound  # type: ignore[import-untyped]
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from tests.support.waiting import wait_until

IMAGE = os.environ.get(
    "PENTAD_TEST_REDIS_IMAGE",
    "redis:7.4.11-alpine@sha256:ff02b58f971e7d7d156a1267e283fcbbeee91773b6aa36c49dac28ecfe28eadf",
)
COMMAND = "redis-server --bind 0.0.0.0 --protected-mode no --save '' --appendonly yes --appendfsync always"
_PORT = 6379
_START_S = 20.0
_THIS_MACHINE = ("localhost", "127.0.0.1")
_LOOK_HERE = "TESTCONTAINERS_CONNECTION_MODE=docker_host TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1"


class ContainerRedis:
    """A server in a container that loses nothing when it is killed."""

    def __init__(self, container: DockerContainer) -> None:
        self._container = container

    @property
    def url(self) -> str:
        """Address of the server, which changes with `restart` because the engine chooses the port."""
        return "redis://{}:{}/0".format(*self._address())

    async def restart(self) -> None:
        """Kill the server's process at once and start the container again."""
        await asyncio.to_thread(self._container.get_wrapped_container().kill)
        await asyncio.to_thread(self._container.get_wrapped_container().start)
        await self.wait()

    async def wait(self) -> None:
        """Wait until the server answers. Raises ``AssertionError`` if it never does."""
        host, port = self._address()
        hint = "" if host in _THIS_MACHINE else f"; testcontainers looks there, which `{_LOOK_HERE}` changes"
        await wait_until(f"Redis in {IMAGE} at {host}:{port}{hint}", self.answers, _START_S)

    def answers(self) -> bool:
        try:
            return self.command("PING").startswith(b"+PONG")
        except OSError:
            return False

    def command(self, word: str) -> bytes:
        """Send a command of one word over a connection of its own; returns the start of the raw reply."""
        with socket.create_connection(self._address(), timeout=2) as wire:
            wire.sendall(word.encode() + b"\r\n")
            return wire.recv(65_536)

    def _address(self) -> tuple[str, int]:
        return self._container.get_container_host_ip(), int(self._container.get_exposed_port(_PORT))


def _need_image() -> None:
    """Skips unless an engine is there and has the image, or can fetch it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the client leaves its socket open when no engine answers
        problem = _problem()
        gc.collect()
    if problem:
        pytest.skip(problem)


def server_kinds() -> list[str]:
    """The servers that a suite can run on here: the wheel's, and the container's where an engine answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            with contextlib.closing(docker.from_env(timeout=5)) as client:
                client.ping()
        except (DockerException, OSError):
            return ["wheel"]
        finally:
            gc.collect()
    return ["wheel", "container"]


def _problem() -> str | None:
    try:
        client = docker.from_env(timeout=60)
        with contextlib.closing(client):
            return None if _has_image(client) else _pull(client)
    except (DockerException, OSError) as error:
        return f"no container engine: {error}"


def _has_image(client: docker.DockerClient) -> bool:
    try:
        client.images.get(IMAGE)
    except ImageNotFound:
        return False
    return True


def _pull(client: docker.DockerClient) -> str | None:
    try:
        client.images.pull(IMAGE)
    except (APIError, OSError) as error:
        return f"the image {IMAGE} is not here and cannot be fetched: {error}"
    return None


@pytest.fixture(scope="session")
def container_redis() -> Iterator[ContainerRedis]:
    """The server of this test process; what a test breaks it must mend before it ends."""
    _need_image()
    testcontainers_config.ryuk_disabled = True  # it would need a second image, to do what `with` does here
    with DockerContainer(IMAGE).with_exposed_ports(_PORT).with_command(COMMAND) as container:
        server = ContainerRedis(container)
        asyncio.run(server.wait())
        yield server


@pytest.fixture
def container_redis_url(container_redis: ContainerRedis) -> str:
    """The address of an empty Redis."""
    container_redis.command("FLUSHALL")
    return container_redis.url
