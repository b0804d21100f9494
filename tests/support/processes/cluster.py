"""Several processes of each service on one Redis; the model is played by the test."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.models.model_server import Script, ScriptedModel
from tests.support.models.replies import MODEL
from tests.support.ports import free_port
from tests.support.processes.stage import PLUGINS
from tests.support.processes.system import System
from tests.support.redis.redis_server import RedisServer

COUNTS = {"router": 3, "task-runner": 2, "gateway": 2, "tool-worker": 1}


class Cluster:
    """The processes, and the addresses of the two gateways."""

    def __init__(self, system: System, model_port: int) -> None:
        self.system = system
        self.redis_url = system.redis_url
        self.gateways = [p.url for p in system.named("gateway")]
        self._model_port = model_port

    def model(self, script: Script) -> ScriptedModel:
        """The model, for ``async with``: it answers as the script says."""
        return ScriptedModel(script, port=self._model_port)

    async def kill_router(self, number: int) -> None:
        """``kill -9`` one of the routers, and start it again."""
        routers = self.system.named("router")
        await asyncio.to_thread(self.system.restart, routers[number % len(routers)])

    async def kill_routers(self) -> None:
        """``kill -9`` all routers in the same instant, and start them again."""
        routers = self.system.named("router")
        for process in routers:
            assert process.running is not None
            process.running.kill()
        for process in routers:
            await asyncio.to_thread(self.system.restart, process)

    async def all_ready(self) -> None:
        """Wait until every process serves."""
        await asyncio.gather(*(self.system.ready(p) for p in self.system.processes))


@contextmanager
def cluster_in(folder: Path) -> Iterator[Cluster]:
    """Start a cluster, and stop it at the end."""
    model_port = free_port()
    played = {"LLM_BASE_URL": f"http://127.0.0.1:{model_port}/v1", "LLM_MODEL_ID": MODEL, "PENTAD_PLUGINS": PLUGINS}
    with RedisServer(aof="everysec") as redis:
        system = System(redis.url, folder, COUNTS, played)
        try:
            asyncio.run(_started(system))
            yield Cluster(system, model_port)
        finally:
            system.stop()


async def _started(system: System) -> None:
    try:
        await system.__aenter__()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{system.logs()}") from None
