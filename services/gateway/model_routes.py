"""The routes of models: everybody with a key may look, the operator may change."""

from typing import TYPE_CHECKING

from pentad.contracts.ids import is_identifier
from pentad.services.gateway.edge.http import admin_only, answer, read_body
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.parts import Parts

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def list_models(parts: Parts, request: "Request") -> "Response":
    """Every model, with where its entry comes from and how it does."""
    return answer({"items": await parts.models.listing(), "next": None})


async def register_model(parts: Parts, request: "Request") -> "Response":
    """Add a model, or replace a registered one."""
    admin_only(request)
    shown, new = await parts.models.register(await read_body(request))
    return answer(shown, 201 if new else 200)


async def delete_model(parts: Parts, request: "Request") -> "Response":
    """Remove a registered model that nobody uses."""
    from starlette.responses import Response

    admin_only(request)
    model_id = request.path_params["model"]
    if not is_identifier(model_id):
        raise missing("there is no such model")
    await parts.models.delete(model_id)
    return Response(status_code=204)
