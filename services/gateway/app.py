"""Runs a gateway: what begins with it, what it says of itself, and in which order it ends."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from secrets import token_hex
from typing import Any

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.graphs import Runnable
from pentad.services.gateway.asgi import GatewayApp
from pentad.services.gateway.composition import GatewayParts
from pentad.services.gateway.edge.browsers import open_to
from pentad.services.gateway.edge.operations import routes_of
from pentad.shared.addresses import is_loopback
from pentad.shared.errors import OutageError, SettingsError
from pentad.shared.inbound.renewal import IdsWatch
from pentad.shared.models.configured_models import ConfiguredModels
from pentad.shared.presence.loop_holds import keep_telling_holds
from pentad.shared.presence.processes import ServiceWork, report_process
from pentad.shared.presence.sign_ins import keep_telling_address
from pentad.shared.service.background import Background, wait_for_redis
from pentad.shared.service.connections import ConnectionLimits
from pentad.shared.service.http import HttpServer, health_routes, lazily
from pentad.shared.service.process import cancel_and_wait
from pentad.shared.service.run import metrics_keys_of
from pentad.shared.service.runnable import DEFAULT_PORTS, RunnableService
from pentad.shared.settings import Settings
from pentad.shared.store.admission import agree, keep_watching
from pentad.shared.store.store import Store

_GRACE_S = 5
_ASK_EVERY_S = 1.0
_START_QUIETLY_S = 1.0


class GatewayService:
    """The gateway service: accepts messages, relays events and answers queries. It keeps no state of its own."""

    name = "gateway"

    def __init__(
        self, settings: Settings, host: str, port: int | None, others: Sequence[RunnableService], store: Store
    ) -> None:
        self._settings, self._store, self._host = settings, store, host
        self._process = f"{self.name}-{token_hex(6)}"
        self._parts = GatewayParts(settings, store, self._process)
        self._relay = self._parts.shared.relay
        self._ids = IdsWatch(store)
        self._metrics_keys = metrics_keys_of(settings, host)
        self._others = tuple(others)
        self._server = HttpServer(
            lazily(self._make_app),
            host,
            port,
            default_port=DEFAULT_PORTS["gateway"],
            grace_s=_GRACE_S,
            limits=ConnectionLimits(settings.pentad_connections, settings.pentad_connections_per_address),
        )
        self._background = Background()
        self._started = False

    def use_instructions(self, configured: Sequence[Runnable]) -> None:
        """Take other instructions and graphs of the file."""
        self._parts.shared.book.use_file(configured)
        self._parts.shared.known.use_file(configured)

    def use_policies(self, configured: Sequence[ApprovalRule]) -> None:
        """Take other approval policies of the file."""
        self._parts.shared.policies.use_file(configured)

    def use_models(self, configured: ConfiguredModels) -> None:
        """Take other chat models of the file."""
        self._parts.shared.models.use_configured(configured)

    def _make_app(self) -> Any:
        health = health_routes([self, *self._others], metrics_keys=self._metrics_keys)
        routes = [*health, *routes_of(*self._parts.groups)]
        app = GatewayApp(self._parts.tasks.access, self._parts.tasks.websockets, routes, self._unstarted)
        return open_to(app, self._settings.pentad_cors_origins)

    def _unstarted(self) -> str | None:
        """Return the reason why clients are not served yet; None once they are."""
        return None if self._started else self._store.trouble or "not all that it needs is there yet"

    @property
    def address(self) -> str:
        """Address of the gateway, ``http://HOST:PORT``, once the port is claimed."""
        return self._server.address

    async def start(self) -> None:
        """Claim the port, wait for Redis, start the relay, and serve. During a long wait, requests get its reason."""
        self._server.claim()
        serving = await self._reach_redis()
        for loop in self._loops():
            self._background.run(loop)
        await self._relay.start()
        if not serving:
            await self._server.start()
        self._started = True

    def _loops(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the loops that run as long as the gateway does."""
        store, parts = self._store, self._parts
        yield self._ask_redis()
        yield self._ids.run()
        yield parts.shared.book.follow()
        yield parts.schedules.run()
        yield keep_watching(store)
        yield keep_telling_holds(store)
        yield report_process(store, self.name, self._process, self._work)
        yield from parts.protocols.dispatch.loops()
        if self._settings.pentad_public_url is None and is_loopback(self._host):
            yield keep_telling_address(store, self.address)

    def _work(self) -> ServiceWork:
        return ServiceWork(self._parts.tasks.websockets.connections)

    async def _reach_redis(self) -> bool:
        """Wait for Redis, and return whether the server was started meanwhile.

        A claimed port without answers would look to probes like a process that hangs.
        """
        reaching = asyncio.create_task(self._agree())
        try:
            done, _ = await asyncio.wait({reaching}, timeout=_START_QUIETLY_S)
            if not done:
                await self._server.start()
            await reaching
        finally:
            await cancel_and_wait(reaching)
        return not done

    async def _agree(self) -> None:
        await wait_for_redis(self._store, self.name)
        await agree(self._store, self._settings.pentad_shards)

    async def stop(self) -> None:
        """Close WebSockets with 1012, end streams and waits, and let answers finish."""
        shared, tasks, memory = self._parts.shared, self._parts.tasks, self._parts.memory
        operator, protocols = self._parts.operator, self._parts.protocols
        tasks.streams.closing.set()
        await self._server.stop()
        await protocols.mcp.aclose()
        await self._relay.stop()
        await shared.watch.close()
        await shared.inbox.close()
        await memory.memories.aclose()
        await protocols.chats.aclose()
        await operator.calls.aclose()
        await operator.embedder.aclose()
        await memory.knowledge.aclose()
        await self._background.stop()
        await self._parts.schedules.release()
        await protocols.dispatch.stop()
        if tasks.cases is not None:
            tasks.cases.close()
        await self._store.close()

    async def _ask_redis(self) -> None:
        """Ping Redis regularly: an unready gateway gets no requests that would show that Redis is available again."""
        while True:
            with contextlib.suppress(OutageError):
                await self._store.call("PING")
            await asyncio.sleep(_ASK_EVERY_S)

    def checks(self) -> Mapping[str, str | None]:
        starting = {} if self._started else {"start": "still starting"}
        return {"redis": self._store.trouble, "relay": self._relay.trouble, "inbound": self._ids.full} | starting

    def notes(self) -> Mapping[str, str]:
        return {"inbound_ids": self._ids.early} if self._ids.early else {}

    def alive(self) -> bool:
        return not self._started or (self._relay.alive() and self._server.alive() and self._background.alive())


def build(
    settings: Settings, host: str, port: int | None = None, others: Sequence[RunnableService] = ()
) -> GatewayService:
    """Return the gateway, ready to start. ``others``: services of the same process whose health it reports.

    Raises ``SettingsError`` for an open gateway that other machines could reach.
    """
    if not settings.api_keys and not is_loopback(host):
        raise SettingsError(f"PENTAD_API_KEYS is not set: a gateway on {host} needs it, as key:tenant,...")
    return GatewayService(settings, host, port, others, Store(settings.redis()))
