"""The routes that erase a task, a session or a user."""

from typing import TYPE_CHECKING

from pentad.services.gateway.edge.http import answer, session_of, task_of, tenant_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.schemas import gives, object_of, path, ref
from pentad.services.gateway.memory.erasures import Erasures

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class ErasureRoutes:
    """Routes that erase data of the caller's tenant everywhere."""

    def __init__(self, erasures: Erasures, shards: int) -> None:
        self._erasures, self._shards = erasures, shards

    @operation(
        "DELETE",
        "/v1/tasks/{task}",
        "Erase a task everywhere: its state, its events, its record, what is remembered of it. It is cancelled "
        "first if it goes on",
        path("task"),
        problems=(404,),
        _202=gives("marked, and being erased", object_of(task_id=ref("Id"), session_id=ref("ExternalId"))),
    )
    async def erase_task(self, request: "Request") -> "Response":
        """Erase a task everywhere."""
        return answer(await self._erasures.task(tenant_of(request), task_of(request)), 202)

    @operation(
        "DELETE",
        "/v1/sessions/{session}",
        "Erase a session everywhere, with its tasks. A message that is sent from now on begins it afresh",
        path("session"),
        problems=(400, 404),
        _202=gives("marked, and being erased", object_of(session_id=ref("ExternalId"))),
    )
    async def erase_session(self, request: "Request") -> "Response":
        """Erase a session everywhere, with its tasks."""
        return answer(await self._erasures.session(session_of(request, self._shards)), 202)

    @operation(
        "DELETE",
        "/v1/users/{user}",
        "Erase an end user everywhere: the tasks in which nobody else has spoken, and the memories that are "
        "theirs. 202 also when there is nothing of them",
        path("user"),
        problems=(422,),
        _202=gives(
            "marked, and being erased; also when there is nothing of them", object_of(user_id=ref("ExternalId"))
        ),
    )
    async def erase_user(self, request: "Request") -> "Response":
        """Erase a user everywhere."""
        return answer(await self._erasures.user(tenant_of(request), request.path_params["user"]), 202)
