"""A receiver of webhooks on loopback, which checks signatures as Standard Webhooks has them."""

import asyncio
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tests.support.outside.web_server import Answer, Received, WebServer, reply, web_server

SECRET = "whsec_" + b64encode(b"k" * 32).decode()
OTHER_SECRET = "whsec_" + b64encode(b"o" * 32).decode()
OK = reply(b"", "", "204 No Content")
BROKEN = reply(b"broken", "text/plain", "500 Internal Server Error")


def is_signed(request: Received, secret: str) -> bool:
    """Return whether a request is signed with this secret."""
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    key = b64decode(secret.removeprefix("whsec_"))
    wanted = "v1," + b64encode(hmac.digest(key, signed, sha256)).decode()
    return hmac.compare_digest(request.headers["webhook-signature"], wanted)


@dataclass
class Receiver:
    """What came to each path."""

    server: WebServer
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, it lets those answers go that were held."""

    def url(self, path: str = "hook") -> str:
        return f"{self.server.url}/{path}"

    @property
    def place(self) -> str:
        return self.server.place

    def answer(self, path: str, answer: Answer) -> None:
        """Answer a path in this way from now on."""
        self.server.answers[f"/{path}"] = answer

    def hold(self, path: str) -> None:
        """Answer a path only when `hanging` is set."""

        async def held(writer: asyncio.StreamWriter) -> None:
            await self.hanging.wait()
            writer.write(OK)
            await writer.drain()

        self.answer(path, held)

    def requests(self, path: str = "hook") -> list[Received]:
        return [each for each in self.server.received if each.path == f"/{path}"]

    def bodies(self, path: str = "hook") -> list[dict[str, Any]]:
        return [json.loads(each.body) for each in self.requests(path)]

    def events(self, path: str = "hook") -> list[dict[str, Any]]:
        """Return the events that came, each once, in the order of their first coming."""
        found: dict[str, dict[str, Any]] = {}
        for each in self.requests(path):
            found.setdefault(each.headers["webhook-id"], json.loads(each.body)["data"])
        return list(found.values())


@asynccontextmanager
async def webhook_receiver(**answers: Answer) -> AsyncIterator[Receiver]:
    """Run a receiver while the block runs; ``hook`` takes all if it is not given."""
    async with web_server(**({"hook": OK} | answers)) as server:
        receiver = Receiver(server)
        try:
            yield receiver
        finally:
            receiver.hanging.set()
