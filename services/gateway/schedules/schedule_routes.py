"""The routes of schedules: messages that a tenant has sent at times that are told beforehand."""

from typing import TYPE_CHECKING

from pentad.services.gateway.edge.http import (
    answer,
    answer_with_page,
    asked_scope_of,
    caller_of,
    limit_of,
    page_of,
    read_body,
    tenant_of,
)
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.schemas import LIST, OF_TENANT, gives, json_body, page, path, query, ref
from pentad.services.gateway.schedules.schedules import Schedules

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class ScheduleRoutes:
    """Routes of the schedules of the caller's tenant."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    @operation(
        "GET",
        "/v1/schedules",
        "The schedules, the newest first, each with its next due time and its latest run; of long messages only the "
        "beginning. One that has ended is listed for thirty days. With the admin key those of all tenants that are not "
        "paused, the next due one first, each with its `tenant_id`",
        OF_TENANT,
        *LIST,
        problems=(422,),
        _200=gives("", page(ref("Schedule"))),
    )
    async def list_schedules(self, request: "Request") -> "Response":
        """Return the tenant's schedules; for operators those of all tenants, or of one."""
        (limit, after), is_named = page_of(request), "tenant" in request.query_params
        if caller_of(request).tenant is None and not is_named:
            return answer_with_page(await self._schedules.of_all(limit, after))
        found = await self._schedules.listing(asked_scope_of(request)[0] if is_named else tenant_of(request))
        return answer({"items": [each.model_dump(mode="json", exclude_none=True) for each in found], "next": None})

    @operation(
        "POST",
        "/v1/schedules",
        "Have a message sent at due times: by `cron`, `every` so many seconds, or once `at` a time. Each due time is "
        "one run, a task of its own. With a `schedule_id` it may be asked for again: it is one schedule",
        body=json_body(ref("ScheduleSpec")),
        problems=(400, 409, 413, 415, 422),
        _200=gives("there already", ref("Schedule")),
        _201=gives("added", ref("Schedule")),
    )
    async def add_schedule(self, request: "Request") -> "Response":
        """Add a schedule."""
        schedule, new = await self._schedules.add(tenant_of(request), await read_body(request))
        return answer(schedule.model_dump(mode="json", exclude_none=True), 201 if new else 200)

    @operation(
        "GET",
        "/v1/schedules/{schedule}",
        "One schedule",
        path("schedule"),
        problems=(404, 410),
        _200=gives("", ref("Schedule")),
    )
    async def get_schedule(self, request: "Request") -> "Response":
        """Return a schedule."""
        schedule = await self._schedules.one(tenant_of(request), request.path_params["schedule"])
        return answer(schedule.model_dump(mode="json", exclude_none=True))

    @operation(
        "DELETE",
        "/v1/schedules/{schedule}",
        "Remove a schedule with its history. Its runs that go on go on",
        path("schedule"),
        problems=(404,),
        _204=gives("removed"),
    )
    async def remove_schedule(self, request: "Request") -> "Response":
        """Remove a schedule."""
        from starlette.responses import Response

        await self._schedules.remove(tenant_of(request), request.path_params["schedule"])
        return Response(status_code=204)

    @operation(
        "POST",
        "/v1/schedules/{schedule}/pause",
        "Pause a schedule: until it is resumed nothing is due, and nothing of that is made up for",
        path("schedule"),
        problems=(404, 409, 410),
        _200=gives("paused", ref("Schedule")),
    )
    async def pause_schedule(self, request: "Request") -> "Response":
        """Pause a schedule."""
        schedule = await self._schedules.pause(tenant_of(request), request.path_params["schedule"])
        return answer(schedule.model_dump(mode="json", exclude_none=True))

    @operation(
        "POST",
        "/v1/schedules/{schedule}/resume",
        "Resume a paused schedule, with the next due time from now on",
        path("schedule"),
        problems=(404, 409, 410),
        _200=gives("resumed", ref("Schedule")),
    )
    async def resume_schedule(self, request: "Request") -> "Response":
        """Resume a schedule."""
        schedule = await self._schedules.resume(tenant_of(request), request.path_params["schedule"])
        return answer(schedule.model_dump(mode="json", exclude_none=True))

    @operation(
        "GET",
        "/v1/schedules/{schedule}/runs",
        "What has come of the latest due times, the latest first: a hundred that have ended, and all that have not. "
        "`GET /v1/runs/{message_id}` tells a run's answer",
        path("schedule"),
        query("limit", "integer", "runs that are answered; 50 when missing", minimum=1, maximum=500),
        problems=(404, 410, 422),
        _200=gives("", page(ref("ScheduleRun"))),
    )
    async def list_runs(self, request: "Request") -> "Response":
        """Return the history of a schedule."""
        name, limit = request.path_params["schedule"], limit_of(request)
        found = await self._schedules.runs(tenant_of(request), name, limit)
        return answer({"items": [each.model_dump(mode="json", exclude_none=True) for each in found], "next": None})
