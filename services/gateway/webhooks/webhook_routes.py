"""The routes of webhooks: a tenant registers addresses to which the events of its sessions are sent."""

from typing import TYPE_CHECKING

from pentad.contracts.receivers import MAX_URL_CHARS
from pentad.contracts.webhooks import ALL_EVENTS, WEBHOOK_EVENTS
from pentad.services.gateway.domain.webhooks import read_webhook
from pentad.services.gateway.edge.http import answer, read_asked, tenant_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.schemas import TEXT, gives, json_body, object_of, page, path, ref
from pentad.services.gateway.webhooks.webhook_registry import WebhookRegistry

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_TYPES = {"type": "array", "items": {"enum": [ALL_EVENTS, *sorted(WEBHOOK_EVENTS)]}, "minItems": 1}
_OR_NULL = {"type": ["string", "null"]}
_BODY = {
    "type": "object",
    "required": ["url", "events", "secret"],
    "additionalProperties": False,
    "properties": {
        "url": {**TEXT, "maxLength": MAX_URL_CHARS, "description": "address of http or https that takes a POST"},
        "events": {**_TYPES, "description": f"types of events; `{ALL_EVENTS}` for all"},
        "session": {**ref("ExternalId"), "description": "session whose events are sent; all sessions when missing"},
        "secret": {**TEXT, "description": "`whsec_` and 24 to 64 random bytes in base64; it is never shown"},
    },
}
_SHOWN = object_of(
    id=ref("Id"),
    url=TEXT,
    events=_TYPES,
    session_id=_OR_NULL,
    created_at=TEXT,
    disabled={**_OR_NULL, "description": "why nothing is sent any more"},
    waiting={"type": "integer", "description": "events that wait"},
    error={**_OR_NULL, "description": "why the last of them was not taken"},
)


class WebhookRoutes:
    """Routes of a tenant's webhooks."""

    def __init__(self, webhooks: WebhookRegistry) -> None:
        self._webhooks = webhooks

    @operation(
        "GET",
        "/v1/webhooks",
        "Your webhooks: how many events wait for each, and why",
        _200=gives("", page(_SHOWN)),
    )
    async def list_webhooks(self, request: "Request") -> "Response":
        """Return the tenant's webhooks."""
        return answer({"items": await self._webhooks.listing(tenant_of(request)), "next": None})

    @operation(
        "POST",
        "/v1/webhooks",
        "Have events of your sessions sent to an address, signed as Standard Webhooks says, at least once and in order "
        "for each task. One with the same address and session is replaced",
        body=json_body(_BODY),
        problems=(400, 409, 413, 415, 422),
        _200=gives("replaced", _SHOWN),
        _201=gives("registered", _SHOWN),
    )
    async def register_webhook(self, request: "Request") -> "Response":
        """Add a webhook, or replace one."""
        tenant = tenant_of(request)
        shown, new = await self._webhooks.register(tenant, await read_asked(request, read_webhook))
        return answer(shown, 201 if new else 200)

    @operation(
        "DELETE",
        "/v1/webhooks/{webhook}",
        "Remove a webhook, with all events that wait for it",
        path("webhook"),
        problems=(404,),
        _204=gives("removed"),
    )
    async def delete_webhook(self, request: "Request") -> "Response":
        """Remove a webhook."""
        from starlette.responses import Response

        await self._webhooks.delete(tenant_of(request), request.path_params["webhook"])
        return Response(status_code=204)
