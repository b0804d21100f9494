"""The routes of MCP servers and of the secrets that they need: the operator changes both, and nobody reads a secret."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pentad.contracts.ids import DEFAULT_TENANT, EXTERNAL_ID_RULE, ID_RULE, is_external_id, is_identifier
from pentad.services.gateway.edge.http import admin_only, answer, caller_of, read_body
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.edge.schemas import (
    ADMIN,
    ANY_OBJECT,
    TEXT,
    gives,
    json_body,
    object_of,
    page,
    path,
    query,
    ref,
)
from pentad.services.gateway.operator.tool_servers import ToolServerRegistry
from pentad.shared.secrets.secret_store import MAX_SECRET_BYTES, SecretOwner, SecretStore, is_secret_name

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_SHOWN = {
    "allOf": [
        ref("ServerReport"),
        object_of(workers={"type": "integer"}, ready={"type": "integer"}),
    ]
}
"""Schema of a server with the number of tool-workers that tell of it, and of those in which it is ready."""
_BODY = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": ref("Id"),
        "command": TEXT,
        "args": {"type": "array", "items": TEXT},
        "env": ANY_OBJECT,
        "cwd": TEXT,
        "url": TEXT,
        "type": {"enum": ["stdio", "http", "sse"]},
        "headers": ANY_OBJECT,
        "oauth": {**ANY_OBJECT, "description": "persons sign in: `client_id`, `client_secret`, `scope`, all optional"},
        "timeout": {"type": "number", "description": "seconds that a call may take"},
        "includeTools": {"type": "array", "items": TEXT},
        "excludeTools": {"type": "array", "items": TEXT},
        "list_as": {**TEXT, "description": "whose secrets read the list of tools: TENANT or TENANT/USER"},
    },
    "description": "an entry of `mcpServers` with its name; values of `env` and `headers` may hold {{secret:NAME}}",
}
_SECRET_BODY = {
    "type": "object",
    "required": ["name", "value"],
    "additionalProperties": False,
    "properties": {
        "name": {**TEXT, "minLength": 1, "maxLength": 64},
        "value": {**TEXT, "minLength": 1, "maxLength": MAX_SECRET_BYTES},
        "user_id": {**ref("ExternalId"), "description": "whose it is; of the whole tenant when missing"},
        "tenant_id": ref("Id"),
    },
}
_WHOSE = (
    query("user_id", "string", "whose it is; of the whole tenant when missing"),
    query("tenant_id", "string", "`default` when missing"),
)


class ToolServerRoutes:
    """Routes of the MCP servers of all tenants."""

    def __init__(self, servers: ToolServerRegistry) -> None:
        self._servers = servers

    @operation(
        "GET",
        "/v1/tools/servers",
        "The MCP servers whose tools are offered: how each does, and which of its tools are left out and why",
        _200=gives("", page(_SHOWN)),
    )
    async def list_servers(self, request: "Request") -> "Response":
        """Return all servers, by name."""
        found = await self._servers.listing(operator=caller_of(request).admin)
        return answer({"items": found, "next": None})

    @operation(
        "POST",
        "/v1/tools/servers",
        "Register an MCP server, or replace the registered one with its name. Tool-workers know it within two seconds; "
        + ADMIN,
        body=json_body(_BODY),
        problems=(400, 409, 413, 415, 422),
        _200=gives("replaced", _SHOWN),
        _201=gives("registered", _SHOWN),
    )
    async def register_server(self, request: "Request") -> "Response":
        """Add a server, or replace a registered one."""
        admin_only(request)
        shown, new = await self._servers.register(await read_body(request))
        return answer(shown, 201 if new else 200)

    @operation(
        "DELETE",
        "/v1/tools/servers/{server}",
        f"Remove a registered MCP server; {ADMIN}",
        path("server"),
        problems=(404, 409),
        _204=gives("removed"),
    )
    async def delete_server(self, request: "Request") -> "Response":
        """Remove a registered server."""
        from starlette.responses import Response

        admin_only(request)
        await self._servers.delete(request.path_params["server"])
        return Response(status_code=204)


class SecretRoutes:
    """Routes of secrets. No route gives one away, nor says which there are."""

    def __init__(self, secrets: SecretStore | None) -> None:
        self._secrets = secrets

    @operation(
        "POST",
        "/v1/secrets",
        f"Keep a secret of a user or of a whole tenant, in the place of one of its name; {ADMIN}",
        body=json_body(_SECRET_BODY),
        problems=(400, 409, 413, 415, 422),
        _204=gives("kept"),
    )
    async def keep_secret(self, request: "Request") -> "Response":
        """Keep a secret."""
        from starlette.responses import Response

        admin_only(request)
        body = await read_body(request)
        if strange := sorted(body.keys() - _SECRET_BODY["properties"].keys()):  # type: ignore[attr-defined]
            raise invalid(f"{strange[0][:64]!r} is not a field of a secret: there are name, value, user_id, tenant_id")
        value = body.get("value")
        if not isinstance(value, str) or not 0 < len(value.encode(errors="replace")) <= MAX_SECRET_BYTES:
            raise invalid(f"value must be a text of 1 to {MAX_SECRET_BYTES} bytes")
        if "\0" in value:
            raise invalid("value must not hold a character NUL")
        try:
            value.encode()
            await self._store().write(_owner(body), _name(body.get("name")), value)
        except ValueError as error:
            raise invalid("value is no text in UTF-8" if isinstance(error, UnicodeError) else str(error)) from None
        return Response(status_code=204)

    @operation(
        "DELETE",
        "/v1/secrets/{secret}",
        f"Remove a secret; {ADMIN}",
        path("secret"),
        *_WHOSE,
        problems=(404, 409, 422),
        _204=gives("removed"),
    )
    async def remove_secret(self, request: "Request") -> "Response":
        """Remove a secret."""
        from starlette.responses import Response

        admin_only(request)
        name, owner = _name(request.path_params["secret"]), _owner(request.query_params)
        if not await self._store().remove(owner, name):
            raise missing("there is no such secret")
        return Response(status_code=204)

    def _store(self) -> SecretStore:
        if self._secrets is None:
            raise ProblemError(
                409, "there is no place for secrets: set PENTAD_SECRETS for the gateway, task-runners and tool-workers"
            )
        return self._secrets


def _name(name: Any) -> str:
    if not isinstance(name, str) or not is_secret_name(name):
        raise invalid("name must have 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter or digit")
    return name


def _owner(given: Mapping[str, Any]) -> SecretOwner:
    tenant, user = given.get("tenant_id"), given.get("user_id")
    tenant = DEFAULT_TENANT if tenant is None else tenant
    if not isinstance(tenant, str) or not is_identifier(tenant):
        raise invalid(f"tenant_id has {ID_RULE}")
    if user is not None and (not isinstance(user, str) or not is_external_id(user)):
        raise invalid(f"user_id has {EXTERNAL_ID_RULE}")
    return SecretOwner(tenant, user)
