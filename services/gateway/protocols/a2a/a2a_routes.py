"""The routes of A2A 1.0. Its SDK is loaded when it is first needed: without it they say what to install."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pentad.contracts.webhooks import Webhook
from pentad.services.gateway.edge.http import answer, caller_of
from pentad.services.gateway.edge.operations import open_operation, operation
from pentad.services.gateway.edge.problems import ProblemError, bad
from pentad.services.gateway.edge.schemas import ANY_OBJECT, gives, json_body
from pentad.services.gateway.protocols.a2a.a2a_parts import A2aParts
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.settings import Settings

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pentad.services.gateway.protocols.a2a.dispatch import A2aDispatch

_HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_REFUSED: dict[str, Any] = {
    f"_{status}": gives("an error in A2A's form", ANY_OBJECT) for status in (400, 404, 405, 409, 413, 415, 429)
}
"""Refusals of A2A itself, by status; who may come in is refused with a problem document, as everywhere."""
_ANSWER = gives("as A2A 1.0 has it; a stream as server-sent events", ANY_OBJECT)
_DECLARED: dict[str, Any] = {"problems": (501,), "right": "read", "_200": _ANSWER, **_REFUSED}
_ABOUT = "docs/a2a.md. A token needs `read`, `send` for messages and cancels, and `approve` for decisions"
_REST = "/a2a/rest/{call:path}"
_PATH = {
    "name": "call",
    "in": "path",
    "required": True,
    "description": "an address of the HTTP+JSON binding, as message:send or tasks/ID",
    "schema": {"type": "string"},
}


class LatePushForm:
    """The form of A2A's push notifications, for which its SDK is loaded with the first of them."""

    def __init__(self, loaded: "Callable[[], Awaitable[A2aDispatch]]") -> None:
        self._loaded = loaded

    async def bodies(self, webhook: Webhook, event: Mapping[str, Any]) -> Sequence[bytes]:
        """Return the updates of a task that an event is sent as."""
        return await (await self._loaded()).pushed.bodies(webhook, event)


class A2aRoutes:
    """Routes of A2A 1.0. ``version``: of Pentad."""

    def __init__(
        self,
        parts: A2aParts,
        book: InstructionBook,
        settings: Settings,
        version: str,
    ) -> None:
        self._parts, self._book, self._version = parts, book, version
        self._public_url = settings.pentad_public_url
        self._needs_key = bool(settings.api_keys)
        self._dispatch: A2aDispatch | None = None
        self._loading = asyncio.Lock()
        self.push_form = LatePushForm(self._loaded)

    @open_operation(
        "GET",
        "/.well-known/agent-card.json",
        "The agent card of A2A: addresses, and as skills the instructions and graphs by name. docs/a2a.md",
        _200=gives("the card", ANY_OBJECT),
        _501=gives("the gateway lacks the SDK"),
    )
    async def card(self, request: "Request") -> "Response":
        """Return the agent card."""
        await self._loaded()
        from pentad.services.gateway.protocols.a2a.dispatch import card_document

        known = await self._book.runnables()
        return answer(card_document(known, self._address(request), self._version, needs_key=self._needs_key))

    @operation(
        "POST",
        "/a2a",
        f"A2A 1.0 in JSON-RPC, and 0.3 for clients that send no A2A-Version: {_ABOUT}",
        body=json_body(ANY_OBJECT),
        **_DECLARED,
    )
    async def rpc(self, request: "Request") -> Any:
        """Answer a request in JSON-RPC."""
        return await self._answered(request, "rpc")

    @operation(
        "GET", _REST, f"A2A 1.0 in REST: {_ABOUT}", _PATH, problems=(501,), right="read", **_REFUSED, _200=_ANSWER
    )
    async def rest_get(self, request: "Request") -> Any:
        """Answer a reading request in REST."""
        return await self._answered(request, "rest")

    @operation(
        "POST", _REST, f"A2A 1.0 in REST: {_ABOUT}", _PATH, problems=(501,), right="read", **_REFUSED, _200=_ANSWER
    )
    async def rest_post(self, request: "Request") -> Any:
        """Answer another request in REST."""
        return await self._answered(request, "rest")

    @operation(
        "DELETE", _REST, f"A2A 1.0 in REST: {_ABOUT}", _PATH, problems=(501,), right="read", **_REFUSED, _200=_ANSWER
    )
    async def rest_delete(self, request: "Request") -> Any:
        """Answer a removing request in REST."""
        return await self._answered(request, "rest")

    async def _answered(self, request: "Request", binding: str) -> Any:
        dispatch = await self._loaded()
        from pentad.services.gateway.protocols.a2a.a2a_call import A2aCall

        call = A2aCall(caller_of(request), self._address(request))
        return await (dispatch.rpc(request, call) if binding == "rpc" else dispatch.rest(request, call))

    def _address(self, request: "Request") -> str:
        """Return the address of this gateway as the client reaches it. Raises ``ProblemError`` (400)."""
        if self._public_url is not None:
            return self._public_url.rstrip("/")
        host = request.headers.get("host", "")
        if _HOST.fullmatch(host) is None:
            raise bad("the header Host is no name of a host: set PENTAD_PUBLIC_URL for this gateway")
        return f"{request.url.scheme}://{host}"

    async def _loaded(self) -> "A2aDispatch":
        """Return the bindings. Raises ``ProblemError`` (501) without the SDK."""
        async with self._loading:
            if self._dispatch is None:
                if find_spec("a2a") is None or find_spec("sse_starlette") is None:
                    raise ProblemError(501, "this gateway has no A2A: pip install 'pentad[a2a]', and start it again")
                self._dispatch = await asyncio.to_thread(self._make)
            return self._dispatch

    def _make(self) -> "A2aDispatch":
        """Make the bindings. Run this in a thread: loading the SDK takes most of a second."""
        from pentad.services.gateway.protocols.a2a.dispatch import A2aDispatch

        return A2aDispatch(self._parts)
