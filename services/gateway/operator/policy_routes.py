"""The routes of approval policies, which are the operator's: they concern all tenants."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from pentad.contracts.ids import is_identifier
from pentad.contracts.tools import Effect, ToolSpec
from pentad.services.gateway.domain.frames import read_policy_question
from pentad.services.gateway.edge.http import admin_only, answer, read_asked, read_body
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.edge.schemas import ADMIN, gives, json_body, object_of, page, path, ref
from pentad.services.gateway.operator.policies import PolicyRegistry

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_POLICY = {"allOf": [ref("ApprovalRule"), object_of(source={"enum": ["file", "registered"]})]}
"""Schema of a policy with its source."""


class PolicyRoutes:
    """Routes of the approval policies of all tenants."""

    def __init__(self, policies: PolicyRegistry, tools: Callable[[], Awaitable[Mapping[str, ToolSpec]]]) -> None:
        """``tools``: returns the tools that workers have, by name."""
        self._policies, self._tools = policies, tools

    @operation(
        "GET",
        "/v1/approval-policies",
        f"The approval policies in the order in which they are asked; {ADMIN}",
        _200=gives("", page(_POLICY)),
    )
    async def list_policies(self, request: "Request") -> "Response":
        """Return all approval policies, each with its source."""
        admin_only(request)
        return answer({"items": await self._policies.listing(), "next": None})

    @operation(
        "POST",
        "/v1/approval-policies",
        "Register an approval policy, or replace the registered one with its name, which is made where it is left out. "
        f"All task-runners follow it within about a second; {ADMIN}",
        body=json_body(ref("ApprovalRule")),
        problems=(400, 409, 413, 415, 422),
        _200=gives("replaced", _POLICY),
        _201=gives("registered", _POLICY),
    )
    async def register_policy(self, request: "Request") -> "Response":
        """Add an approval policy, or replace a registered one."""
        admin_only(request)
        shown, new = await self._policies.register(await read_body(request))
        return answer(shown, 201 if new else 200)

    @operation(
        "POST",
        "/v1/approval-policies/try",
        f"What the policies say about a tool call, which is not made; {ADMIN}",
        body=json_body(ref("PolicyQuestion")),
        problems=(400, 413, 415, 422),
        _200=gives("", ref("PolicyAnswer")),
    )
    async def try_policies(self, request: "Request") -> "Response":
        """Return which policy decides about a tool call, and how."""
        admin_only(request)
        question = await read_asked(request, read_policy_question)
        known = (await self._tools()).get(question.tool)
        found = await self._policies.asked(question, Effect.UNSAFE if known is None else known.effect)
        return answer(found.model_dump(mode="json", exclude_none=True))

    @operation(
        "DELETE",
        "/v1/approval-policies/{policy}",
        f"Remove a registered approval policy; {ADMIN}",
        path("policy"),
        problems=(404, 409),
        _204=gives("removed"),
    )
    async def delete_policy(self, request: "Request") -> "Response":
        """Remove a registered approval policy."""
        from starlette.responses import Response

        admin_only(request)
        name: str = request.path_params["policy"]
        if not is_identifier(name):
            raise missing("there is no such policy")
        await self._policies.delete(name)
        return Response(status_code=204)
