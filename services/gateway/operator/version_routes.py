"""The routes of versions: what entries of the registries were before, so that a change can be looked at and undone."""

from typing import TYPE_CHECKING, Any

from pentad.contracts.ids import is_identifier
from pentad.services.gateway.edge.http import admin_only, answer
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.schemas import ADMIN, ANY_OBJECT, TEXT, gives, object_of, page, path
from pentad.shared.registries.registrations import (
    REGISTERED_GRAPHS,
    REGISTERED_INSTRUCTIONS,
    REGISTERED_MODELS,
    REGISTERED_POLICIES,
    Registrations,
)
from pentad.shared.store.store import Store

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_VERSIONS = page(object_of(at=TEXT, entry={"anyOf": [ANY_OBJECT, {"type": "null"}]}))
"""Schema of versions: when each was registered, and the entry, null where it was removed."""
_SUMMARY = "The last ten versions of a registered {}, the newest first; `entry` is null where it was removed"


class VersionRoutes:
    """Routes of the versions of registered models, instructions, graphs and policies. Other names have none."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @operation("GET", "/v1/models/{name}/versions", _SUMMARY.format("model"), path("name"), _200=gives("", _VERSIONS))
    async def list_model_versions(self, request: "Request") -> "Response":
        """Return the versions of a model."""
        return await self._answer(request, REGISTERED_MODELS)

    @operation(
        "GET",
        "/v1/instructions/{name}/versions",
        _SUMMARY.format("instruction"),
        path("name"),
        _200=gives("", _VERSIONS),
    )
    async def list_instruction_versions(self, request: "Request") -> "Response":
        """Return the versions of an instruction."""
        return await self._answer(request, REGISTERED_INSTRUCTIONS)

    @operation("GET", "/v1/graphs/{name}/versions", _SUMMARY.format("graph"), path("name"), _200=gives("", _VERSIONS))
    async def list_graph_versions(self, request: "Request") -> "Response":
        """Return the versions of a graph."""
        return await self._answer(request, REGISTERED_GRAPHS)

    @operation(
        "GET",
        "/v1/approval-policies/{name}/versions",
        f"{_SUMMARY.format('approval policy')}; {ADMIN}",
        path("name"),
        _200=gives("", _VERSIONS),
    )
    async def list_policy_versions(self, request: "Request") -> "Response":
        """Return the versions of an approval policy."""
        admin_only(request)
        return await self._answer(request, REGISTERED_POLICIES)

    async def _answer(self, request: "Request", registry: Registrations[Any]) -> "Response":
        name = request.path_params["name"]
        items = await registry.versions(self._store, name) if is_identifier(name) else []
        return answer({"items": items, "next": None})
