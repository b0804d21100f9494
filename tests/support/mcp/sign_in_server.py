"""An MCP server to which persons sign in, with its own authorization server: both over HTTP, on the loop of the test.

Codes are good once and bound to their challenge (PKCE); a refresh token is good once, and a new one comes with each new
token. The page to sign in needs no person: who asks for it says as whom.
"""

import asyncio
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from pentad.shared.service.http import HttpServer
from tests.support.mcp.server import make


class SignInServer:
    """Both servers, and what has come to them. A test sets what they do."""

    def __init__(self, folder: Path) -> None:
        self.lives_s: int | None = 3600
        """Seconds that a token lives."""
        self.refreshes, self.exchanged = list[str](), list[str]()
        """Refresh tokens and codes that were used."""
        self.registered = list[dict[str, Any]]()
        """Clients that were registered."""
        self.open_list = False
        """Whether everything but calls is answered without a token."""
        self.metadata, self.resource_metadata = dict[str, Any](), dict[str, Any]()
        """Fields of both kinds of metadata in the place of the true ones."""
        self.rotates = True
        self.gives_refresh = True
        self.token_status = 200
        """Status of the answers to requests for tokens; another than 200 refuses all."""
        self.hold_refresh: asyncio.Event | None = None
        """Holds requests to refresh until it is set."""
        self.hold_registration: asyncio.Event | None = None
        """Holds registrations likewise."""
        self.wanted_scope = ""
        """Scope that calls need."""
        self.scope_of: dict[str, str] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, str] = {}
        """Users by their access tokens that are good."""
        self.refresh: dict[str, str] = {}
        self._number = count(1)
        self._mcp: Any = make(folder).streamable_http_app()
        self.port = 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def revoke(self, user: str) -> None:
        """Take all tokens of a user back."""
        self.access = {token: each for token, each in self.access.items() if each != user}
        self.refresh = {token: each for token, each in self.refresh.items() if each != user}

    def end_access(self, user: str) -> None:
        """End the access tokens of a user; refresh tokens stay good."""
        self.access = {token: each for token, each in self.access.items() if each != user}

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator["SignInServer"]:
        """Serve both."""
        app = Starlette(
            routes=[
                Route("/.well-known/oauth-protected-resource/mcp", self._of_resource),
                Route("/.well-known/oauth-authorization-server", self._of_server),
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Mount("/", self._guarded),
            ]
        )
        server = HttpServer(app, "127.0.0.1", port)
        server.claim()
        self.port = int(server.address.rpartition(":")[2])
        begun, over = asyncio.Event(), asyncio.Event()

        async def live() -> None:  # what the SDK opens must be closed by the task that opened it
            async with self._mcp.router.lifespan_context(self._mcp):
                begun.set()
                await over.wait()

        living = asyncio.create_task(live())
        await begun.wait()
        await server.start()
        try:
            yield self
        finally:
            await server.stop()
            over.set()
            await living

    # The MCP server

    async def _guarded(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        given = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        is_call = b'"tools/call"' in body
        if given not in self.access and (is_call or not self.open_list or given):
            told = f'Bearer resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
            await Response(status_code=401, headers={"www-authenticate": told})(scope, receive, send)
            return
        if is_call and self.wanted_scope and self.wanted_scope not in self.scope_of.get(given, "").split():
            told = f'Bearer error="insufficient_scope", scope="{self.wanted_scope}"'
            await Response(status_code=403, headers={"www-authenticate": told})(scope, receive, send)
            return
        whole = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Any:
            return next(whole, None) or await receive()

        await self._mcp(scope, again, send)

    async def _of_resource(self, request: Request) -> Response:
        found = {"resource": self.url, "authorization_servers": [self.origin], "scopes_supported": ["read"]}
        return _json(found, self.resource_metadata)

    # The authorization server

    async def _of_server(self, request: Request) -> Response:
        found = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            "authorization_response_iss_parameter_supported": True,
        }
        return _json(found, self.metadata)

    async def _register(self, request: Request) -> Response:
        if self.hold_registration is not None:
            await self.hold_registration.wait()
        asked = await request.json()
        self.registered.append(asked)
        return JSONResponse({**asked, "client_id": f"client-{len(self.registered)}"}, 201)

    async def _authorize(self, request: Request) -> Response:
        given = dict(request.query_params)
        assert given["response_type"] == "code", given
        assert given["code_challenge_method"] == "S256", given
        if given["user"] == "nobody":
            back = {"error": "access_denied"}
        else:
            code = f"code-{next(self._number)}-of-{given['user']}"
            self.codes[code] = given
            back = {"code": code}
        back |= {"state": given["state"], "iss": self.origin}
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode(back)}", 302)

    async def _token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        if self.token_status != 200:
            return JSONResponse({"error": "server_error"}, self.token_status)
        if form["resource"] != self.url:
            return _refused("invalid_target")
        if form["grant_type"] == "refresh_token":
            self.refreshes.append(form["refresh_token"])
            if self.hold_refresh is not None:
                await self.hold_refresh.wait()
            user = self.refresh.get(form["refresh_token"])
            if user is None:
                return _refused("invalid_grant")
            if self.rotates:
                del self.refresh[form["refresh_token"]]
            return self._given(user, "")
        self.exchanged.append(form["code"])
        asked = self.codes.pop(form["code"], None)
        proof = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        same = asked is not None and asked["redirect_uri"] == form["redirect_uri"]
        if asked is None or not same or asked["code_challenge"] != proof or asked["client_id"] != form["client_id"]:
            return _refused("invalid_grant")
        if "secret" in asked["client_id"]:
            pair = b64encode(f"{asked['client_id']}:hunter2".encode()).decode()
            if request.headers.get("authorization") != f"Basic {pair}":
                return _refused("invalid_client", 401)
        return self._given(asked["user"], asked.get("scope", ""))

    def _given(self, user: str, scope: str) -> Response:
        number = next(self._number)
        access, refresh = f"{user}-access-{number:06}", f"{user}-refresh-{number:06}"
        self.access[access], self.scope_of[access] = user, scope
        found: dict[str, Any] = {"access_token": access, "token_type": "Bearer", "scope": scope}
        if self.gives_refresh:
            self.refresh[refresh] = user
            found["refresh_token"] = refresh
        if self.lives_s is not None:
            found["expires_in"] = self.lives_s
        return JSONResponse(found)


def page_in(message: str) -> str:
    """Return the address that a question asks a person to open."""
    return message.partition("(open ")[2].partition(", then go on)")[0]


async def redirect_of(message: str, user: str) -> str:
    """Sign in as a user at the page of a question; return the address to which the page sends the browser."""
    async with httpx2.AsyncClient() as browser:
        answer = await browser.get(f"{page_in(message)}&user={user}")
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


def _json(found: dict[str, Any], instead: dict[str, Any]) -> Response:
    if "body" in instead:
        return Response(instead["body"], instead.get("status", 200), instead.get("headers"), "application/json")
    return JSONResponse({name: value for name, value in {**found, **instead}.items() if value is not None})


def _refused(error: str, status: int = 400) -> Response:
    return JSONResponse({"error": error}, status)
