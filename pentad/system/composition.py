"""The whole system on one loop, the archiver in a child process, with an embedded Redis unless ``REDIS_URL`` is set.

``pentad up`` runs it as a process of its own, ``pentad.start()`` beside a caller's own work.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import cast

from pentad.client.address import file_of, reachable
from pentad.contracts.streams import SERVICES, Service
from pentad.shared.embedded.embedded import EmbeddedRedis
from pentad.shared.embedded.redis_folder import write_atomically
from pentad.shared.errors import SettingsError
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.service.options import Options
from pentad.shared.service.process import Stop, StopAskedError, collections_deferred
from pentad.shared.service.run import Build, Ready, run_services, say_ready
from pentad.shared.service.runnable import RunnableService
from pentad.shared.settings import Settings
from pentad.system.reload import Reloader
from pentad.system.supervised import SupervisedService

Roots = Callable[[Service], Build]
"""Finds the composition root of a service."""


def composition_root(service: Service) -> Build:
    """``build`` of ``services.NAME.app``."""
    with collections_deferred():
        return cast(Build, import_module(_module_of(service)).build)


def _module_of(service: Service) -> str:
    return f"pentad.services.{service.replace('-', '_')}.app"


async def run_all(
    settings: Settings,
    options: Options,
    stop: Stop,
    *,
    roots: Roots | None = None,
    ready: Ready = say_ready,
    tools: Sequence[ToolDefinition] = (),
) -> int:
    """All six services until it is asked to stop; returns the exit code. The caller holds the ``DataDirLock``.

    The archiver runs in a child process; with ``roots`` given, all that they build run in this one. ``tools``: those
    that the program hands over, which run in this process. ``ready`` is called once all services are ready. Raises
    ``PentadError`` when it cannot start or a part dies.
    """
    try:
        async with archiver_apart() if roots is None else nullcontext(roots) as found, redis_of(settings, stop) as url:
            there = settings.on_one_machine().model_copy(update={"redis_url": url})
            return await run_services(build_all(there, options, found, tools), stop, ready=ready)
    except StopAskedError:
        return 0


@asynccontextmanager
async def archiver_apart(module: str = _module_of("archiver")) -> AsyncIterator[Roots]:
    """The composition roots of all, of which the archiver's is that of a child process until the block's end.

    The process is started at once: while Redis starts it imports ``module``, which has the composition root.
    """
    archiver = SupervisedService("archiver", module)
    try:
        await archiver.launch()

        def root(service: Service) -> Build:
            return archiver.build if service == "archiver" else composition_root(service)

        yield root
    finally:
        await archiver.close()


@asynccontextmanager
async def redis_of(settings: Settings, stop: Stop) -> AsyncIterator[str]:
    """The address of the Redis that is configured, else of one started here and stopped at the end.

    Raises ``StopAskedError`` when it is asked to end while the data is still being loaded.
    """
    if settings.redis_url is not None:
        yield settings.redis_url
        return
    if settings.pentad_redis_replicas:
        raise SettingsError(
            "PENTAD_REDIS_REPLICAS is set, and the Redis that is started here has no replica: set REDIS_URL to one that"
            " has, or leave PENTAD_REDIS_REPLICAS unset"
        )
    redis = EmbeddedRedis(settings.pentad_data_dir, settings.pentad_redis_fsync)
    try:
        yield await stop.unless_asked(redis.start())
    finally:
        await redis.stop()


def build_all(
    settings: Settings, options: Options, roots: Roots, tools: Sequence[ToolDefinition] = ()
) -> Sequence[RunnableService]:
    """All six, the gateway last: it opens its port when the others consume, and answers for their readiness.

    The tool-worker is told that no other need be asked what tools there are. The gateway alone has its keys.
    """
    own = settings.without_gateway_secrets()
    told = {"tool-worker": {"alone": True, "changing": options.reload, "tools": tools}}
    others = [roots(name)(own, **told.get(name, {})) for name in SERVICES if name != "gateway"]
    gateway = roots("gateway")(settings, options.host, options.port, others=others)
    announced = Announced(gateway, settings.pentad_data_dir)
    return [*others, announced, *([Reloader(settings, [*others, gateway])] if options.reload else [])]


class Announced:
    """A gateway whose address stands in ``gateway.url`` from when it listens until it is asked to stop.

    A killed one leaves the file behind: whoever then finds nobody at that address is told so.
    """

    address: str

    def __init__(self, gateway: RunnableService, data_dir: Path) -> None:
        self.name = gateway.name
        self._gateway = gateway
        self._file = file_of(data_dir)

    async def start(self) -> None:
        await self._gateway.start()
        self.address = getattr(self._gateway, "address", "")
        write_atomically(self._file, reachable(self.address))

    async def stop(self) -> None:
        self._file.unlink(missing_ok=True)
        await self._gateway.stop()

    def checks(self) -> Mapping[str, str | None]:
        return self._gateway.checks()

    def alive(self) -> bool:
        return self._gateway.alive()
