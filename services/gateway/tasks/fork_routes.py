"""The routes of forks: a task is forked at one of its steps, and two tasks are compared."""

from typing import TYPE_CHECKING

from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import is_identifier
from pentad.services.gateway.domain.fork import read_fork
from pentad.services.gateway.edge.http import answer, read_asked, task_of, tenant_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.edge.schemas import FORK, TEXT, gives, json_body, object_of, path, ref
from pentad.services.gateway.tasks.comparisons import Comparisons
from pentad.services.gateway.tasks.forks import Forks
from pentad.services.gateway.tasks.message_intake import new_message_id

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_EFFECT = object_of(tool_call_id=TEXT, tool=TEXT, effect={"enum": ["idempotent", "unsafe"]})
_FORKED = object_of(
    task_id=ref("Id"),
    session_id=ref("ExternalId"),
    message_id=ref("ExternalId"),
    effects={"type": "array", "items": _EFFECT},
)


class ForkRoutes:
    """Forks and compares tasks of the caller's tenant."""

    def __init__(self, forks: Forks, comparisons: Comparisons) -> None:
        self._forks, self._comparisons = forks, comparisons

    @operation(
        "POST",
        "/v1/tasks/{task}/fork",
        "Begin a new task in a session of its own that shares the past of this one up to a step. `effects` are calls "
        "after that step whose effects may have happened: the fork does not repeat them by itself. With a `message_id` "
        "of the caller's, however often it is asked for, it begins once",
        path("task"),
        body=json_body(FORK),
        problems=(400, 404, 409, 410, 413, 415, 422, 429),
        _202=gives("begun", _FORKED),
    )
    async def fork_task(self, request: "Request") -> "Response":
        """Fork a task at one of its steps."""
        tenant, task, named = tenant_of(request), task_of(request), new_message_id()
        asked = await read_asked(request, lambda body: read_fork(body, named))
        begun = await self._forks.fork(tenant, task, asked)
        told = {"task_id": begun.task_id, "session_id": begun.session_id, "message_id": begun.message_id}
        return answer(told | {"effects": [each.model_dump(mode="json") for each in begun.effects]}, 202)

    @operation(
        "GET",
        "/v1/tasks/{task}/compare/{other}",
        "Where two tasks part: their steps side by side, with what differs. Ids of tool calls are not compared",
        path("task"),
        path("other"),
        problems=(404, 410),
        _200=gives("", ref("TaskComparison")),
    )
    async def compare_tasks(self, request: "Request") -> "Response":
        """Compare two tasks step by step."""
        other = request.path_params["other"]
        if not is_identifier(other):
            raise missing("there is no such task", ErrorCode.UNKNOWN_TASK)
        found = await self._comparisons.compare(tenant_of(request), task_of(request), other)
        return answer(found.model_dump(mode="json", exclude_none=True))
