"""Endpoints of HTTP as a source of a worker's tools: those that are registered, taken up while the worker runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from pentad.contracts.http_tools import HttpTool
from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.plugins.errors import PluginError
from pentad.shared.registries.registrations import REGISTERED_HTTP_TOOLS
from pentad.shared.secrets.user_secrets import secrets_of
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store

if TYPE_CHECKING:
    from pentad.services.tool_worker.endpoints.endpoint import ToolEndpoint
    from pentad.shared.outbound.outside_client import OutsideClient

log = logging.getLogger(__name__)


class EndpointTools:
    """A source of tools. The HTTP client is imported with the first endpoint: most workers have none."""

    quick = False

    def __init__(self, settings: Settings, store: Store) -> None:
        """Raises ``SettingsError`` for secrets that cannot be used."""
        self._settings, self._store = settings, store
        self._secrets = secrets_of(settings)
        self._endpoints: Mapping[str, ToolEndpoint] = {}
        self.tools: Mapping[str, ToolSpec] = MappingProxyType({})
        self._client: OutsideClient | None = None
        self._changed: Callable[[], None] = lambda: None
        self._registered: Sequence[HttpTool] = ()
        self._wanted = asyncio.Event()

    async def start(self, changed: Callable[[], None]) -> None:
        """Make ready: the endpoints are known a moment later, from `follow`."""
        self._changed = changed

    async def stop(self, grace_s: float) -> None:
        """Close the connections. Calls have ended by then."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def follow(self) -> None:
        """Take up the endpoints that are registered, and each change. Runs for ever, between start and stop."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(REGISTERED_HTTP_TOOLS.keep_following(self._store, self._note))
            tasks.create_task(self._keep_taking())

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        """Make one attempt of a call. Every failure is an outcome; cancelling it closes its connection."""
        endpoint = self._endpoints.get(invocation.tool)
        if endpoint is None:
            return ToolOutcome("error", f"{invocation.tool} is registered no more")
        return await endpoint.call(invocation, self._opened(), self._secrets)

    def _note(self, registered: Sequence[HttpTool]) -> None:
        self._registered = registered
        self._wanted.set()

    async def _keep_taking(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._take(self._registered)

    async def _take(self, registered: Sequence[HttpTool]) -> None:
        """Have these endpoints; one that is as before stays, and one that cannot be used here is left out."""
        taken: dict[str, ToolEndpoint] = {}
        for tool in registered:
            known = self._endpoints.get(tool.name)
            if known is not None and known.tool == tool:
                taken[tool.name] = known
                continue
            try:
                taken[tool.name] = self._made(tool)
            except PluginError as error:
                log.warning("the registered tool %r is left out: %s", tool.name, error)
            await asyncio.sleep(0)  # to compile a large schema takes milliseconds, and there may be hundreds
        self._endpoints = taken
        specs = {name: each.spec for name, each in sorted(taken.items())}
        if specs != self.tools:
            self.tools = MappingProxyType(specs)
            self._changed()

    @staticmethod
    def _made(tool: HttpTool) -> ToolEndpoint:
        from pentad.services.tool_worker.endpoints.endpoint import ToolEndpoint

        return ToolEndpoint(tool)

    def _opened(self) -> OutsideClient:
        from pentad.shared.outbound.outside_client import OutsideClient

        if self._client is None:
            settings = self._settings
            self._client = OutsideClient(settings.pentad_web_allow, at_once=settings.pentad_tool_concurrency)
        return self._client
