"""``GET /pentad.js``: the JavaScript client as one module, and its types. Pages need no key to load it."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from pentad.services.gateway.edge.operations import open_operation
from pentad.services.gateway.edge.schemas import TEXT, gives
from pentad.services.gateway.edge.static_files import StaticFile, static_file

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class ModuleRoutes:
    """Routes of the files of the JavaScript client."""

    @open_operation(
        "GET",
        "/pentad.js",
        "The JavaScript client, an ES module for browsers and Node: docs/javascript.md",
        _200=gives("", TEXT, "text/javascript"),
        _304=gives("it is the version that `If-None-Match` names"),
    )
    async def get_module(self, request: "Request") -> "Response":
        """Return the module of the JavaScript client."""
        return _file("pentad.js").answer(request)

    @open_operation(
        "GET",
        "/pentad.d.ts",
        "The types of the JavaScript client, for TypeScript",
        _200=gives("", TEXT, "text/plain"),
        _304=gives("it is the version that `If-None-Match` names"),
    )
    async def get_types(self, request: "Request") -> "Response":
        """Return the types of the JavaScript client."""
        return _file("pentad.d.ts").answer(request)


@cache
def _file(name: str) -> StaticFile:
    return static_file(files("pentad.services.gateway.javascript") / name)
