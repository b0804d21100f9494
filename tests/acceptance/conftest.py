"""Systems that acceptance tests share, one of each kind for a test process, started when a test first asks."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.processes.cluster import Cluster, cluster_in
from tests.support.processes.stage import Stage, echo_asks, stage

STEP_TIMEOUT_S = 3.0
"""Of the strict system: what is well is done in less, also where the machine is busy."""

_PIRATE = {"name": "pirate", "system_prompt": "Speak like a pirate.", "tools": []}
_GRADE: dict[str, Any] = {
    "name": "grade",
    "description": "Grades a text.",
    "system_prompt": "Grade it.",
    "tools": [],
    "output": "json",
    "output_schema": {
        "type": "object",
        "properties": {"grade": {"$ref": "#/$defs/Grade"}},
        "required": ["grade"],
        "$defs": {"Grade": {"enum": ["good", "bad"]}},
    },
}


@pytest.fixture(scope="session")
def pentad_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """``pentad up`` with its defaults; the test plays the model."""
    with stage(tmp_path_factory.mktemp("up")) as it:
        yield it


@pytest.fixture(scope="session")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A system for the protocols and clients: a person must allow each call of ``echo``, and webhooks may go to
    loopback; it has the instructions ``pirate`` and ``grade``, and its operator's key is ``the-operator``."""
    folder = tmp_path_factory.mktemp("asking")
    (folder / "instructions.json").write_text(json.dumps({"instructions": [_PIRATE, _GRADE]}))
    settings = {
        "PENTAD_INSTRUCTIONS": str(folder / "instructions.json"),
        "PENTAD_WEB_ALLOW": "127.0.0.1",
        "PENTAD_ADMIN_KEY": "the-operator",
        "PENTAD_EXTRACT": "never",  # the model of one test is not asked about tasks of another
    }
    with stage(folder / "up", echo_asks(folder) | settings) as it:
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
