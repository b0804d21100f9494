"""Servers in containers: whether an engine and an image are here, and a server that can be killed and started again.

In a container with an engine of its own, testcontainers looks for published ports elsewhere: say
``TESTCONTAINERS_CONNECTION_MODE=docker_host TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1``.
"""

import contextlib
import functools
import gc
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType

import docker  # type: ignore[import-untyped]
import pytest
from docker.errors import APIError, DockerException, ImageNotFound  # type: ignore[import-untyped]
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from tests.support.ports import free_port

_ENGINE_S = 5
_PULL_S = 60
_START_S = 60.0


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The client leaves its socket open when no engine answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@functools.cache
def engine_problem() -> str | None:
    """Return why there is no container engine here; None: it answers."""
    with _quiet():
        try:
            with contextlib.closing(docker.from_env(timeout=_ENGINE_S)) as client:
                client.ping()
        except (DockerException, OSError) as error:
            return f"no container engine: {error}"
    return None


@functools.cache
def image_problem(image: str) -> str | None:
    """Return why there can be no container of this image; None: there can."""
    if problem := engine_problem():
        return problem
    with _quiet(), contextlib.closing(docker.from_env(timeout=_PULL_S)) as client:
        with contextlib.suppress(ImageNotFound):
            client.images.get(image)
            return None
        try:
            client.images.pull(image)
        except (APIError, OSError) as error:
            return f"the image {image} is not here and cannot be fetched: {error}"
    return None


def need_image(image: str) -> None:
    """Skip unless an engine is there and has the image, or can fetch it."""
    if problem := image_problem(image):
        pytest.skip(problem)
    testcontainers_config.ryuk_disabled = True  # it would need a second image, to do what `with` does here


class ServerContainer:
    """A server in a container, always at the same port of this machine."""

    not_killed: str | None = None

    def __init__(
        self,
        image: str,
        port: int,
        answers: Callable[[str], bool],
        environment: Mapping[str, str] | None = None,
        command: str = "",
    ) -> None:
        """Skip where there can be none. ``port``: inside; ``answers`` says of an address ``host:port`` whether the
        server there answers."""
        need_image(image)
        self._image, self._answers = image, answers
        outside = free_port()
        self._container = DockerContainer(image).with_bind_ports(port, outside)
        for name, value in (environment or {}).items():
            self._container.with_env(name, value)
        if command:
            self._container.with_command(command)
        self._port = outside

    @property
    def place(self) -> str:
        """Host and port."""
        return f"{self._container.get_container_host_ip()}:{self._port}"

    def kill(self) -> None:
        """Kill the server's process at once."""
        self._container.get_wrapped_container().kill()

    def start(self) -> None:
        """Start the killed container again and wait until it answers."""
        self._container.get_wrapped_container().start()
        self._wait()

    def _wait(self) -> None:
        limit = time.monotonic() + _START_S
        while not self._answers(self.place):
            if time.monotonic() > limit:
                raise AssertionError(f"nothing answers at {self.place}, where {self._image} should; see {__doc__}")
            time.sleep(0.05)

    def __enter__(self) -> "ServerContainer":
        self._container.start()
        try:
            self._wait()
        except BaseException:
            self._container.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._container.stop()
