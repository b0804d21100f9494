"""The server of a web page that talks to an agent: serves the page, and gives it tokens for its visitor's session.

    PENTAD_CORS_ORIGINS=http://127.0.0.1:8090 make run
    .venv/bin/python examples/web/server.py http://127.0.0.1:8080 8090

The API key (PENTAD_API_KEY) stays here; the page gets what opens one session for some minutes.
"""

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

import pentad

FOLDER = Path(__file__).parent
VISITOR = re.compile(r"[0-9a-f]{32}")


def app_for(url: str) -> Starlette:
    """Return the page's server for the gateway at this address."""
    agent = pentad.connect(url)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with agent:
            yield

    async def make_token(request: Request) -> Response:
        """Give a token for the visitor's own session. Where your users log in, take the user from the login."""
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":  # browsers say it, pages cannot
            # Browsers withhold the cookie from it, so the answer would make the visitor somebody else.
            return PlainTextResponse("another site asks for a token: ask from this server's own page", 403)
        known = request.cookies.get("visitor", "")
        visitor = known if VISITOR.fullmatch(known) else token_hex(16)
        session = agent.session(f"web-{visitor}", user_id=f"visitor-{visitor}")
        try:
            token = await session.token(may=("read", "send", "approve"), ttl_s=900)
        except pentad.ClientError as error:
            return PlainTextResponse(str(error), 503)
        answer = JSONResponse({"url": url, "session_id": session.session_id, **token.model_dump()})
        answer.headers["cache-control"] = "no-store"
        answer.set_cookie("visitor", visitor, httponly=True, samesite="strict", max_age=30 * 86_400)
        return answer

    async def page(request: Request) -> Response:
        return FileResponse(FOLDER / "index.html")

    async def module(request: Request) -> Response:
        return FileResponse(FOLDER / "chat.mjs", media_type="text/javascript")

    async def client(request: Request) -> Response:
        return RedirectResponse(f"{url}/pentad.js")  # of the version that the gateway speaks

    routes = [Route("/", page), Route("/chat.mjs", module), Route("/pentad.js", client)]
    return Starlette(routes=[*routes, Route("/token", make_token, methods=["POST"])], lifespan=lifespan)


if __name__ == "__main__":
    gateway, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8090
    print(f"open http://127.0.0.1:{port}", flush=True)
    uvicorn.run(app_for(gateway), host="127.0.0.1", port=port, log_level="warning", access_log=False)
