"""The routes of models: everybody with a key may list them, the operator may change them."""

from typing import TYPE_CHECKING, get_args

from pentad.contracts.ids import is_identifier
from pentad.contracts.models import ModelState
from pentad.services.gateway.edge.http import admin_only, answer, read_body
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.edge.schemas import ADMIN, TEXT, gives, json_body, object_of, page, path, ref
from pentad.services.gateway.operator.models import ModelRegistry

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_MAYBE = {"type": ["string", "null"]}
_HEALTH = object_of(
    state={"enum": [*get_args(ModelState), "unknown"]},
    since=_MAYBE | {"description": "When it came into this state; null where no process tells"},
    error=_MAYBE | {"description": "Why the last failed call failed"},
    refused={"type": "boolean", "description": "Refused for a reason that only a person can mend: key, id, credit"},
    learned={
        "type": "array",
        "items": TEXT,
        "description": "How it is asked otherwise than others, because its server has refused a request, and the words",
    },
    context_tokens={
        "type": ["integer", "null"],
        "description": "Tokens that it takes in all, by its entry or a refusal of its server; null where neither says",
    },
    processes={"type": "integer", "description": "How many processes tell"},
)
_MODEL = {"allOf": [ref("ModelEntry"), object_of(source=TEXT, health=_HEALTH)]}
"""Schema of a model's entry with its source (``file``, ``registered`` or ``environment``) and its health."""


class ModelRoutes:
    """Routes of the models of all tenants."""

    def __init__(self, models: ModelRegistry) -> None:
        self._models = models

    @operation(
        "GET",
        "/v1/models",
        "Every model: of the file, registered, and of the environment, with how it does",
        _200=gives("", page(_MODEL)),
    )
    async def list_models(self, request: "Request") -> "Response":
        """Return all models, each with its source and its health."""
        return answer({"items": await self._models.listing(), "next": None})

    @operation(
        "GET",
        "/v1/models/{model}",
        "One model: its entry, where that comes from, and how it does",
        path("model"),
        problems=(404,),
        _200=gives("", _MODEL),
    )
    async def show_model(self, request: "Request") -> "Response":
        """Return one model, with its source and its health."""
        return answer(await self._models.one(_id_of(request)))

    @operation(
        "POST",
        "/v1/models",
        "Register a model, or replace the registered one with its id. All services know it within two seconds; "
        + ADMIN,
        body=json_body(ref("ModelEntry")),
        problems=(400, 409, 413, 415, 422),
        _200=gives("replaced", _MODEL),
        _201=gives("registered", _MODEL),
    )
    async def register_model(self, request: "Request") -> "Response":
        """Add a model, or replace a registered one."""
        admin_only(request)
        shown, new = await self._models.register(await read_body(request))
        return answer(shown, 201 if new else 200)

    @operation(
        "DELETE",
        "/v1/models/{model}",
        f"Remove a registered model that nobody uses; {ADMIN}",
        path("model"),
        problems=(404, 409),
        _204=gives("removed"),
    )
    async def delete_model(self, request: "Request") -> "Response":
        """Remove a registered model that nobody uses."""
        from starlette.responses import Response

        admin_only(request)
        await self._models.delete(_id_of(request))
        return Response(status_code=204)


def _id_of(request: "Request") -> str:
    model_id: str = request.path_params["model"]
    if not is_identifier(model_id):
        raise missing("there is no such model")
    return model_id
