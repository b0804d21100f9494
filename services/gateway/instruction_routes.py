"""The routes of instructions: everybody with a key may look and run, the operator may change."""

from typing import TYPE_CHECKING

from pentad.contracts.ids import is_identifier
from pentad.services.gateway.edge.http import admin_only, answer, read_body
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.parts import Parts

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def list_instructions(parts: Parts, request: "Request") -> "Response":
    """Every instruction that counts, with where it comes from."""
    return answer({"items": await parts.instructions.listing(), "next": None})


async def register_instruction(parts: Parts, request: "Request") -> "Response":
    """Add an instruction, or replace a registered one."""
    admin_only(request)
    shown, new = await parts.instructions.register(await read_body(request))
    return answer(shown, 201 if new else 200)


async def delete_instruction(parts: Parts, request: "Request") -> "Response":
    """Remove a registered instruction."""
    from starlette.responses import Response

    admin_only(request)
    await parts.instructions.delete(name_of(request))
    return Response(status_code=204)


def name_of(request: "Request") -> str:
    """The name in the path; what cannot be one is unknown. Raises ``ProblemError`` (404)."""
    name: str = request.path_params["instruction"]
    if not is_identifier(name):
        raise missing("there is no such instruction")
    return name
