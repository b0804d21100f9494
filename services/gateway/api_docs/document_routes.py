"""The routes that need no key: a welcome page, and the documents of the interfaces."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from pentad.services.gateway.api_docs.welcome import as_data, as_page
from pentad.services.gateway.edge.http import answer
from pentad.services.gateway.edge.operations import open_operation
from pentad.services.gateway.edge.schemas import ANY_OBJECT, Json, gives

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class DocumentRoutes:
    """Routes of the documents about the gateway."""

    def __init__(self, openapi: Callable[[], Json]) -> None:
        """``openapi`` makes the OpenAPI document when it is first requested."""
        self._openapi = cache(openapi)

    @open_operation("GET", "/", "What this is, and where to go on; a page for browsers", _200=gives("", ANY_OBJECT))
    async def get_welcome(self, request: "Request") -> "Response":
        """Return a description of the gateway: a page for browsers, JSON for all other clients."""
        from starlette.responses import HTMLResponse

        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(as_page(), headers={"content-security-policy": "default-src 'none'"})
        return answer(as_data())

    @open_operation("GET", "/openapi.json", "This document", _200=gives("", ANY_OBJECT))
    async def get_openapi(self, request: "Request") -> "Response":
        """Return the OpenAPI document of the REST interface."""
        return answer(self._openapi())

    @open_operation("GET", "/asyncapi.json", "The streams behind", _200=gives("", ANY_OBJECT))
    async def get_asyncapi(self, request: "Request") -> "Response":
        """Return the AsyncAPI document of the streams."""
        from pentad.contracts.asyncapi import document as streams

        return answer(streams())
