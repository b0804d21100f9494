"""A served MCP server as the client that the official conformance suite tests: docs/mcp.md says how it is run.

python -m tests.support.mcp.conformance URL

It connects, and calls each tool that the suite's server has. Where a call asks a person to sign in, it is the person:
the suite's page to sign in needs none.
"""

import asyncio
import json
import os
import sys
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

import httpx2
from pydantic import SecretStr

from pentad.contracts.suspensions import Resumption
from pentad.contracts.tool_servers import ServerSignIn, ToolServer
from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.servers.served import ServedServer, ServerParts
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.embedded.embedded import EmbeddedRedis
from pentad.shared.plugins.context import ToolContext
from pentad.shared.presence.sign_ins import CameBack, SignIns
from pentad.shared.secrets.user_secrets import UserSecrets
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.mcp.sign_in_server import page_in

_ARGUMENTS: dict[str, dict[str, object]] = {"add_numbers": {"a": 5, "b": 3}}
_MAX_ROUNDS = 4
"""How often one call may ask to sign in."""
_KNOWN_S = 10.0
"""Seconds until the server must be known."""
_SIGN_IN = "suite__sign_in"


class Suite:
    """The server of the suite, and a person who uses it."""

    def __init__(self, served: ServedServer, store: Store) -> None:
        self._served, self._sign_ins = served, SignIns(store)

    async def use(self) -> bool:
        """Connect to the server and call its tools; returns whether all went well."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_KNOWN_S):
                await self._served.tried()
                while not self._served.offered.specs and self._served.report().condition in ("connecting", "failing"):
                    await asyncio.sleep(0.05)
        outcomes = [await self._call(_SIGN_IN)] if _SIGN_IN in self._served.offered.specs else []
        while self._served.report().condition == "connecting":
            await asyncio.sleep(0.05)
        outcomes += [await self._call(tool) for tool in self._served.offered.own_names]
        print(self._served.report(), *outcomes, sep="\n")
        return self._served.report().condition == "ready" and all(outcome.ok for outcome in outcomes)

    async def _call(self, tool: str) -> ToolOutcome:
        args, resumed = _ARGUMENTS.get(self._served.offered.own_names.get(tool, ""), {}), None
        context = ToolContext(tenant_id="default", user_id="alice", task_id="t", tool_call_id=tool)
        for _ in range(_MAX_ROUNDS):
            invocation = ToolInvocation(tool, args, 20, context, resumed=resumed)
            outcome = await self._served.call(invocation, lambda _, __: None)
            if outcome.suspension is None:
                return outcome
            await self._sign_in(outcome.suspension.message)
            resumed = Resumption(needs="input", content={}, state=outcome.suspension.state)
        return ToolOutcome("error", f"{tool} asked {_MAX_ROUNDS} times to sign in")

    async def _sign_in(self, message: str) -> None:
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(page_in(message))
        given = parse_qs(urlsplit(answer.headers["location"]).query)
        back = CameBack(code=given["code"][0], issuer=given.get("iss", [None])[0])
        await self._sign_ins.came_back(given["state"][0], back)


def _client() -> ServerSignIn | None:
    """Return the client that the suite has registered, if it has."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    if "client_id" not in context:
        return None
    return ServerSignIn(client_id=context["client_id"], client_secret=context.get("client_secret"))


async def connect(url: str) -> bool:
    """Use the server at an address, with a Redis and a place for tokens of its own."""
    with TemporaryDirectory() as folder:
        redis = EmbeddedRedis(Path(folder))
        store = Store(await redis.start())
        settings = Settings(
            pentad_secrets=f"{folder}/secrets",
            pentad_secret_key=SecretStr(b64encode(bytes(32)).decode()),
            pentad_public_url="http://localhost:9",
        )
        server = ToolServer(name="suite", url=url, oauth=_client())
        served = ServedServer(server, "file", ServerParts(UserSecrets(None), None, settings, store), lambda: None)
        served.start()
        try:
            return await Suite(served, store).use()
        finally:
            await served.stop()
            await store.close()
            await redis.stop()


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(connect(sys.argv[1])) else 1)
