"""A Qdrant server in a container, for the suite of the stores of vectors; skipped with the reason where there is none.

``PENTAD_TEST_QDRANT_IMAGE`` names the image.
"""

import contextlib
import gc
import os
import warnings
from collections.abc import Iterator

import docker  # type: ignore[import-untyped]
import pytest
from docker.errors import APIError, DockerException, ImageNotFound  # type: ignore[import-untyped]
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

IMAGE = os.environ.get(
    "PENTAD_TEST_QDRANT_IMAGE",
    "qdrant/qdrant:v1.19.0@sha256:057ee3a8da769fe7310dd3537b4dc7583bf87a95ce8ac43c0af5a46bc580d1fc",
)
API_KEY = "only-for-tests"
_PORT = 6333


@pytest.fixture(scope="session")
def qdrant_url() -> Iterator[str]:
    """The address of an empty server of this test process, which wants `API_KEY`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the client leaves its socket open when no engine answers
        problem = _problem()
        gc.collect()
    if problem:
        pytest.skip(problem)
    testcontainers_config.ryuk_disabled = True
    container = DockerContainer(IMAGE).with_exposed_ports(_PORT).with_env("QDRANT__SERVICE__API_KEY", API_KEY)
    with container.waiting_for(HttpWaitStrategy(_PORT, "/readyz").with_startup_timeout(30)) as server:
        yield f"http://{server.get_container_host_ip()}:{server.get_exposed_port(_PORT)}"


def _problem() -> str | None:
    """Why there is no such server here; None when there can be one."""
    try:
        with contextlib.closing(docker.from_env(timeout=60)) as client:
            return _without_image(client)
    except (DockerException, OSError) as error:
        return f"no container engine: {error}"


def _without_image(client: docker.DockerClient) -> str | None:
    with contextlib.suppress(ImageNotFound):
        client.images.get(IMAGE)
        return None
    try:
        client.images.pull(IMAGE)
    except (APIError, OSError) as error:
        return f"the image {IMAGE} is not here and cannot be fetched: {error}"
    return None
