"""`POST /v1/tokens`: access tokens for web pages, which must not have an API key."""

from typing import TYPE_CHECKING

from pentad.services.gateway.domain.frames import read_token_request
from pentad.services.gateway.edge.access import Access
from pentad.services.gateway.edge.http import answer, caller_of, read_asked
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.schemas import gives, json_body, ref

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class TokenRoutes:
    """The route of access tokens."""

    def __init__(self, access: Access) -> None:
        self._access = access

    @operation(
        "POST",
        "/v1/tokens",
        "A token for a web page: opens one session for WebSocket, server-sent events and REST, for `ttl_s` seconds. "
        "`read`: its events, messages, tasks, transcripts and values; `send`: messages, and cancel, pause, resume "
        "and move; `approve`: the tool calls of the session that wait for a decision, and the decision",
        body=json_body(ref("TokenRequest")),
        problems=(400, 413, 415, 422),
        _200=gives("", ref("AccessToken")),
    )
    async def make_token(self, request: "Request") -> "Response":
        """Return a token for a session, signed with the key that asks for it."""
        asked = await read_asked(request, read_token_request)
        return answer(self._access.token(caller_of(request), asked).model_dump(mode="json"))
