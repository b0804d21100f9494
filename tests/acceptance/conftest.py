"""Systems that acceptance tests share, one of each kind for a test process, started when a test first asks."""

from collections.abc import Iterator

import pytest

from tests.support.processes.cluster import Cluster, cluster_in
from tests.support.processes.stage import Stage, stage

STEP_TIMEOUT_S = 3.0
"""Of the strict system: what is well is done in less, also where the machine is busy."""


@pytest.fixture(scope="session")
def pentad_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """``pentad up`` with its defaults; the test plays the model."""
    with stage(tmp_path_factory.mktemp("up")) as it:
        yield it


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """``pentad up`` with limits soon reached: 3 steps, 2 attempts, 3 s for a step, 100 events a session."""
    limits = {"PENTAD_STEP_LIMIT": "3", "PENTAD_MAX_ATTEMPTS": "2"}
    limits |= {"PENTAD_STEP_TIMEOUT_S": str(STEP_TIMEOUT_S), "PENTAD_EVENTS_MAXLEN": "100"}
    with stage(tmp_path_factory.mktemp("strict"), limits) as it:
        yield it


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three routers, two runners, two gateways and a tool-worker as processes of one Redis."""
    with cluster_in(tmp_path_factory.mktemp("cluster")) as it:
        yield it
