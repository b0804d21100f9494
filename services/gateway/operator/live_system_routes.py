"""The route of the live system: everything that an operator watches, in one document."""

from typing import TYPE_CHECKING

from pentad.services.gateway.edge.http import admin_only
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.schemas import ADMIN, gives, ref
from pentad.services.gateway.operator.live_system import LiveSystem

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class LiveSystemRoutes:
    """The route of the live system, which concerns all tenants."""

    def __init__(self, live: LiveSystem) -> None:
        self._live = live

    @operation(
        "GET",
        "/v1/operations",
        "The live system: streams with lag and pending, services, models, tools, active tasks of all tenants, "
        "approvals, dead letters, totals. Made once a second at most, whoever asks; `left_out` says of which lists it "
        f"had no room for more; {ADMIN}",
        _200=gives("", ref("Operations")),
    )
    async def show_operations(self, request: "Request") -> "Response":
        """Return the live system as it was within the last second."""
        from starlette.responses import Response

        admin_only(request)
        document = await self._live.document()
        return Response(document, 200, {"cache-control": "no-store"}, "application/json")
