"""The route by which clients send the results of tools that they run themselves."""

from typing import TYPE_CHECKING

from pentad.contracts.ids import is_identifier
from pentad.services.gateway.domain.client_result import read_client_result
from pentad.services.gateway.edge.http import answer, read_asked, scope_of, task_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.edge.schemas import TEXT, gives, json_body, object_of, path
from pentad.services.gateway.tasks.client_results import ClientResults

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_RESULT = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "maxProperties": 1,
    "properties": {
        "result": {"description": "a text, or any other JSON, which the model gets as text"},
        "error": TEXT | {"description": "why the call has failed; the model is told"},
    },
}


class ClientResultRoutes:
    """Routes of tool calls that clients make themselves."""

    def __init__(self, results: ClientResults) -> None:
        self._results = results

    @operation(
        "POST",
        "/v1/tasks/{task}/calls/{tool_call_id}/result",
        "Send the result of a tool that the client runs itself, which it has named in `tools` of its message. The "
        "first result is the only one: the same again changes nothing, another is a 409",
        path("task"),
        path("tool_call_id"),
        body=json_body(_RESULT),
        problems=(400, 404, 409, 410, 413, 415, 422),
        _200=gives("the call has its result", object_of(task_id=TEXT, tool_call_id=TEXT)),
        right="send",
    )
    async def send_result(self, request: "Request") -> "Response":
        """Take the result of a client's tool."""
        task, (tenant, session) = task_of(request), scope_of(request)
        call: str = request.path_params["tool_call_id"]
        if not is_identifier(call):
            raise missing("there is no such call")
        await self._results.accept(tenant, task, call, await read_asked(request, read_client_result), session)
        return answer({"task_id": task, "tool_call_id": call})
