"""One ``pentad up`` for the whole tutorial: what ``PENTAD_PLUGINS=my_tools pentad up`` starts, in a folder of its own.

No model is configured, so the offline model answers: it knows sums, the time, and how to call a tool by its name.
Nothing is recalled, so that no chapter's prompt has what another has said.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import pentad
from tests.support.processes.up import Up


@dataclass
class Running:
    """Where things are."""

    url: str
    """The gateway: WebSocket, SSE and REST."""
    redis_url: str
    """The embedded Redis; written to ``redis.url`` in the data directory."""
    kitchen: Path
    """The working directory, where the tools of this tutorial look for their files."""


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The system, started once."""
    folder = tmp_path_factory.mktemp("pentad")
    with Up(folder, {"PENTAD_PLUGINS": "tests.fundamentals.my_tools", "PENTAD_RECALL_TOKENS": "0"}) as system:
        url = asyncio.run(system.ready())
        yield Running(url, system.redis_url, folder)


@pytest.fixture
async def agent(running: Running) -> AsyncIterator[pentad.Agent]:
    """A new conversation. In your program: ``pentad.connect("http://127.0.0.1:8080").session()``."""
    async with pentad.connect(running.url).session() as agent:
        yield agent
