"""The routes of approvals: calls that wait for a person's decision, and the decision."""

from typing import TYPE_CHECKING

from pentad.contracts.approvals import MAX_REASON
from pentad.contracts.ids import is_identifier
from pentad.services.gateway.domain.approval import read_decision
from pentad.services.gateway.edge.http import (
    answer,
    answer_with_page,
    caller_of,
    page_of,
    read_asked,
    scope_of,
    task_of,
)
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.edge.schemas import ANY_OBJECT, LIST, gives, json_body, page, path, ref
from pentad.services.gateway.tasks.approvals import Approvals, decider

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_DECISION = {
    "type": "object",
    "required": ["approved"],
    "additionalProperties": False,
    "properties": {
        "approved": {"type": "boolean"},
        "args": {**ANY_OBJECT, "description": "other arguments, with which the call is made instead"},
        "reason": {"type": "string", "maxLength": MAX_REASON, "description": "told to the model with a refusal"},
        "args_digest": {"type": "string", "description": "of the arguments that were seen; others are a 409"},
    },
}


class ApprovalRoutes:
    """Routes of tool calls that wait for a person."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    @operation(
        "GET",
        "/v1/approvals",
        "Tool calls that wait for a decision, the one with the most time left first. A page may hold fewer than "
        "`limit`: go on while `next` is there",
        *LIST,
        problems=(410, 422),
        _200=gives("", page(ref("PendingApproval"))),
        right="approve",
    )
    async def list_approvals(self, request: "Request") -> "Response":
        """Return the tenant's calls that wait for a decision; for a token those of its session."""
        limit, after = page_of(request)
        tenant, session = scope_of(request)
        return answer_with_page(await self._approvals.page(tenant, limit, after, session))

    @operation(
        "POST",
        "/v1/tasks/{task}/approvals/{tool_call_id}",
        "Allow or refuse a tool call that waits for it. The first decision is the only one: the same again is "
        "answered with it, another is a 409, as one is that comes too late",
        path("task"),
        path("tool_call_id"),
        body=json_body(_DECISION),
        problems=(400, 404, 409, 410, 413, 415, 422),
        _200=gives("the decision that counts", ref("ApprovalDecision")),
        right="approve",
    )
    async def decide(self, request: "Request") -> "Response":
        """Take a decision about a call."""
        task, (tenant, session) = task_of(request), scope_of(request)
        call: str = request.path_params["tool_call_id"]
        if not is_identifier(call):
            raise missing("there is no such call")
        asked = await read_asked(request, read_decision)
        decided = await self._approvals.decide(tenant, task, call, asked, decider(caller_of(request)), session)
        return answer(decided.model_dump(mode="json", exclude_none=True))
