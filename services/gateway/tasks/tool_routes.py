"""The routes of tools: which there are, and calls of them outside a conversation."""

from typing import TYPE_CHECKING, Any

from pentad.contracts.runs import ToolRun
from pentad.contracts.tools import FORMER_NAMES
from pentad.services.gateway.domain.tool_call import MAX_CALL_ID, MAX_TIMEOUT_S, MAX_WAIT_S, is_call_id, read_call
from pentad.services.gateway.edge.http import answer, read_asked, tenant_of, wait_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.edge.schemas import ANY_OBJECT, TEXT, gives, json_body, object_of, page, path, query, ref
from pentad.services.gateway.tasks.direct_calls import DirectCalls
from pentad.services.gateway.tasks.queries import Queries

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_TEXT_OR_NULL = {"type": ["string", "null"]}
_STATE: dict[str, Any] = {
    "seen_at": _TEXT_OR_NULL,
    "alive": {"type": "boolean"},
    "waiting": {
        "type": "integer",
        "description": "the tenant's calls that wait until a limit lets them run",
    },
    "refused": _TEXT_OR_NULL | {"description": "why calls of the tenant are refused: the tool keeps failing"},
    "refused_until": _TEXT_OR_NULL,
}
_TOOL = {
    "allOf": [
        ref("ToolSpec"),
        object_of(**_STATE),
        {
            "properties": {
                "endpoint": object_of(method=TEXT, place=TEXT, problem=_TEXT_OR_NULL)
                | {"description": "of a registered endpoint: what it asks, and why it is not offered"}
            }
        },
    ]
}
"""Schema of a tool with the time of the last report, whether a living worker has it, and how it does for the tenant."""
_CALL_BODY = {
    "type": "object",
    "properties": {
        "args": ANY_OBJECT,
        "call_id": TEXT
        | {
            "minLength": 1,
            "maxLength": MAX_CALL_ID,
            "description": "idempotency key: asked for again within 24 hours, the call runs once; made when missing",
        },
        "user_id": ref("ExternalId"),
        "wait": {"type": "number", "minimum": 0, "maximum": MAX_WAIT_S, "description": "seconds to wait for the end"},
        "timeout": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": MAX_TIMEOUT_S,
            "description": "seconds after which the call is given up, beside the tool's own limit",
        },
    },
    "additionalProperties": False,
}
_MOST_NAMED = 20
"""Tools that are named to a client that asks for an unknown one."""


class ToolRoutes:
    """Routes of the tools that workers have published."""

    def __init__(self, queries: Queries, calls: DirectCalls) -> None:
        self._queries, self._calls = queries, calls

    @operation(
        "GET", "/v1/tools", "Tools that workers have published, or that are registered", _200=gives("", page(_TOOL))
    )
    async def list_tools(self, request: "Request") -> "Response":
        """Return the tools that workers have published, and registered ones."""
        return answer({"items": await self._queries.tools(tenant_of(request)), "next": None})

    @operation(
        "POST",
        "/v1/tools/{tool}/call",
        "Call a tool outside a conversation: durably, once for its `call_id`, without a model",
        path("tool"),
        body=json_body(_CALL_BODY),
        problems=(400, 404, 409, 413, 415, 422, 429),
        _200=gives("the call at its end, `failed` ones too", ref("ToolRun")),
        _202=gives("it goes on: look at it with its `call_id`", ref("ToolRun")),
    )
    async def call_tool(self, request: "Request") -> "Response":
        """Return 202 with the call's id, or 200 with its outcome if it ends within ``wait``."""
        tenant, name = tenant_of(request), str(request.path_params["tool"])
        known = await self._queries.tool_names()
        name = name if name in known else FORMER_NAMES.get(name, name)
        asked = await read_asked(request, lambda body: read_call(body, name))
        if name not in known:
            listed = ", ".join(sorted(known)[:_MOST_NAMED])
            more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
            raise missing(
                f"there is no such tool; there are: {listed}{more}" if known else "no worker has any tool yet"
            )
        return _told(await self._calls.begin(tenant, asked))

    @operation(
        "GET",
        "/v1/tools/calls/{call}",
        "How far a tool call is, and its result at the end; calls stay known for a day at least",
        path("call"),
        query("wait", "number", "seconds to wait for the end; 600 at most are waited", minimum=0),
        problems=(404, 410, 422),
        _200=gives("it has ended", ref("ToolRun")),
        _202=gives("it goes on", ref("ToolRun")),
    )
    async def show_call(self, request: "Request") -> "Response":
        """Return 200 with the outcome of a call, or 202 while it goes on."""
        tenant, call_id, wait_s = tenant_of(request), str(request.path_params["call"]), wait_of(request)
        if not is_call_id(call_id):
            raise missing("there is no such call")
        return _told(await self._calls.state(tenant, call_id, wait_s or 0.0))


def _told(run: ToolRun) -> "Response":
    return answer(run.model_dump(mode="json"), 200 if run.ended else 202)
