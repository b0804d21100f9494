"""A source of tools of MCP servers, beside a Redis."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from pentad.contracts.suspensions import Resumption
from pentad.contracts.tool_servers import ServerReport, ToolServer
from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.servers.server_tools import ServerTools
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.plugins.context import ToolContext
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.mcp.entries import file_entry
from tests.support.waiting import wait_until


class Offering:
    """A running source, and what it has told."""

    def __init__(self, source: ServerTools) -> None:
        self.source = source
        self.changes = 0
        self.progress: list[tuple[str, float | None]] = []

    def changed(self) -> None:
        self.changes += 1

    @property
    def names(self) -> set[str]:
        return set(self.source.tools)

    def report(self, server: str) -> ServerReport:
        return next(each for each in self.source.reports() if each.name == server)

    async def call(
        self,
        tool: str,
        timeout_s: float = 30,
        user: str | None = None,
        resumed: Resumption | None = None,
        **args: Any,
    ) -> ToolOutcome:
        context = ToolContext(tenant_id="default", user_id=user)
        invocation = ToolInvocation(tool, args, timeout_s, context, resumed=resumed)
        return await self.source.run(invocation, lambda text, fraction: self.progress.append((text, fraction)))

    async def until(self, server: str, condition: str) -> ServerReport:
        def reached() -> ServerReport | None:
            return found if (found := self.report(server)).condition == condition else None

        found = await wait_until(f"{server} is {condition}", reached)
        assert found is not None
        return found


Offer = Callable[..., AbstractAsyncContextManager[Offering]]


@pytest.fixture
def offer(store: Store, tmp_path: Path) -> Offer:
    """Offer the tools of servers, named by a file: ``async with offer(server, ..., pentad_web_allow=...)``."""

    @asynccontextmanager
    async def offered(*servers: ToolServer, **settings: Any) -> AsyncIterator[Offering]:
        if servers:
            path = tmp_path / "mcp.json"
            path.write_bytes(to_json({"mcpServers": _entries(servers)}))
            settings["pentad_mcp"] = path
        offering = Offering(ServerTools(Settings(**settings), store))
        await offering.source.start(offering.changed)
        following = asyncio.create_task(offering.source.follow())
        try:
            yield offering
        finally:
            following.cancel()
            await asyncio.wait({following})
            await offering.source.stop(0)

    return offered


def _entries(servers: Sequence[ToolServer]) -> dict[str, Any]:
    return {each.name: file_entry(each) | ({"type": "sse"} if each.sse else {}) for each in servers}
