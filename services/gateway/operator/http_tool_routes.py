"""The routes of tools that are endpoints of HTTP: an operator registers and removes them while the system runs."""

from typing import TYPE_CHECKING

from pentad.services.gateway.edge.http import admin_only, answer, read_body
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.schemas import ADMIN, ANY_OBJECT, TEXT, gives, json_body, object_of, path
from pentad.services.gateway.operator.http_tools import HttpToolRegistry

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_EFFECT = {"enum": ["pure", "idempotent", "unsafe"]}
_SHARED = {
    "headers": {**ANY_OBJECT, "description": "headers of each request; values may hold {{secret:NAME}}"},
    "timeout_s": {"type": "number", "description": "seconds that a call may take"},
    "approval": {"enum": ["never", "always"]},
    "queue": TEXT,
}
_TOOL = {
    "type": "object",
    "required": ["name", "url"],
    "additionalProperties": False,
    "properties": {
        "name": {**TEXT, "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
        "description": TEXT,
        "parameters": {**ANY_OBJECT, "description": "JSON schema of the arguments"},
        "url": {**TEXT, "description": "{NAME} in its path or query stands for an argument"},
        "method": {"enum": ["GET", "POST", "PUT", "PATCH", "DELETE"]},
        "effect": {**_EFFECT, "description": "that of the method when missing"},
        "arguments": {**ANY_OBJECT, "description": "places of arguments: {NAME: {place, name, form}}"},
        **_SHARED,
    },
}
_API = {
    "type": "object",
    "required": ["openapi"],
    "additionalProperties": False,
    "properties": {
        "openapi": {"type": ["object", "string"], "description": "a document of OpenAPI 3 in JSON, or its address"},
        "url": {**TEXT, "description": "address of the API; the first server of the document when missing"},
        "operations": {"type": "array", "items": TEXT, "description": "ids of those that are wanted; all when missing"},
        "prefix": {**TEXT, "description": "begins the names of the tools"},
        "effects": {"type": "object", "additionalProperties": _EFFECT, "description": "effects by operation"},
        **_SHARED,
    },
}
_REGISTERED = object_of(
    items={
        "type": "array",
        "items": object_of(
            name=TEXT, method=TEXT, place=TEXT, effect=_EFFECT, secrets={"type": "array", "items": TEXT}
        ),
    },
    left_out={"type": "array", "items": object_of(operation=TEXT, why=TEXT)},
    left_out_count={"type": "integer"},
    warning={"type": ["string", "null"]},
)


class HttpToolRoutes:
    """Routes of the endpoints that are tools of all tenants."""

    def __init__(self, tools: HttpToolRegistry) -> None:
        self._tools = tools

    @operation(
        "POST",
        "/v1/tools",
        "Register an endpoint of HTTP as a tool, or the operations of an OpenAPI document, in the place of registered "
        f"ones of the same names. Tool-workers know them within two seconds; {ADMIN}",
        body=json_body({"oneOf": [_TOOL, _API]}),
        problems=(400, 409, 413, 415, 422),
        _200=gives("replaced", _REGISTERED),
        _201=gives("registered", _REGISTERED),
    )
    async def register_tools(self, request: "Request") -> "Response":
        """Add tools, or replace registered ones."""
        admin_only(request)
        told, new = await self._tools.register(await read_body(request))
        return answer(told, 201 if new else 200)

    @operation(
        "DELETE",
        "/v1/tools/{tool}",
        f"Remove a registered tool; {ADMIN}",
        path("tool"),
        problems=(404, 409),
        _204=gives("removed"),
    )
    async def delete_tool(self, request: "Request") -> "Response":
        """Remove a registered tool."""
        from starlette.responses import Response

        admin_only(request)
        await self._tools.delete(request.path_params["tool"])
        return Response(status_code=204)
