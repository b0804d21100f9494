"""The schedules of tenants, as clients make, pause, resume and remove them."""

import asyncio
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any

from pydantic import ValidationError

from pentad.contracts.commands import NEW_TASK, InboundMessage
from pentad.contracts.ids import decoded_id, encoded_id, is_identifier, rfc3339
from pentad.contracts.schedules import Schedule, ScheduleRun, ScheduleSpec
from pentad.services.gateway.domain.frames import complaints
from pentad.services.gateway.domain.schedule_plan import begun, paused, resumed, settled, shown, wake_of
from pentad.services.gateway.edge.pages import IndexEntry, Page
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.shared.schedules.due_times import DueTimes
from pentad.shared.schedules.schedule_state import ScheduleState
from pentad.shared.schedules.schedule_store import KeptSchedule, ScheduleStore, UnreadableScheduleError
from pentad.shared.store.store import Store

_MAX_ATTEMPTS = 5
"""How often a change is tried when others change the schedule at the same time."""
_LISTED_CHARS = 200
"""Characters of a message that the list of schedules shows."""
Change = Callable[[ScheduleSpec, ScheduleState, int], ScheduleState]


def message_of(spec: ScheduleSpec, tenant: str, run: ScheduleRun) -> InboundMessage:
    """Return the message of a run. It begins a task of its own, and decides about no tool call.

    Raises ``ValidationError``.
    """
    return InboundMessage(
        content=spec.content,
        session_id=run.session_id,
        message_id=run.message_id,
        task_id=NEW_TASK,
        user_id=spec.user_id,
        tenant_id=tenant,
        instruction=spec.instruction,
        metadata={"schedule_id": spec.schedule_id or "", "due_at": run.due_at},
        decides=False,
    )


def _paused(_spec: ScheduleSpec, state: ScheduleState, _now: int) -> ScheduleState:
    return paused(state)


class Schedules:
    """The schedules of all tenants. Raises ``ProblemError``, and ``OutageError`` if Redis is unavailable.

    ``limit``: schedules that a tenant may have. ``shortest_s``: seconds between two due times at least.
    """

    def __init__(self, store: Store, limit: int, shortest_s: float) -> None:
        self._store, self._schedules = store, ScheduleStore(store)
        self._limit, self._shortest_ms = limit, round(shortest_s * 1000)

    async def add(self, tenant: str, body: Mapping[str, Any]) -> tuple[Schedule, bool]:
        """Add a schedule; return it, and whether it is new. The same schedule asked for again stays as it is."""
        given = _spec(body)
        spec = given if given.schedule_id else given.model_copy(update={"schedule_id": f"sch-{token_hex(8)}"})
        now = await self._store.clock()
        try:
            first = await asyncio.to_thread(self._first_due, spec, now)  # up to 0.3 s where little is ever due
        except ValueError as error:
            raise invalid(str(error)) from None
        state = begun(first, now)
        outcome = await self._schedules.add(tenant, spec, state, self._limit)
        if outcome == "full":
            raise ProblemError(409, f"there are {self._limit} schedules already (PENTAD_SCHEDULES): remove one")
        if outcome == "added":
            return shown(spec, state), True
        kept = await self._kept(tenant, spec.schedule_id or "")
        if kept.spec != spec:
            raise ProblemError(409, f"schedule {spec.schedule_id} is another one: remove it first, or give another id")
        return shown(kept.spec, kept.state), False

    def _first_due(self, spec: ScheduleSpec, now: int) -> int:
        return DueTimes(spec, now).check(now, self._shortest_ms)

    async def listing(self, tenant: str) -> list[Schedule]:
        """Return a tenant's schedules, the newest first; of long messages only the beginning."""
        found = sorted(await self._schedules.of_tenant(tenant), key=lambda each: (each.state.created, each.name))
        return [_listed(each) for each in reversed(found)]

    async def of_all(self, limit: int, after: IndexEntry | None) -> Page:
        """Return a page of the schedules of all tenants that are not paused, the one that is due next first."""
        before = None if after is None else (after.score, decoded_id(after.member).replace("|", "/"))
        found = await self._schedules.going(limit, before)
        kept = await self._schedules.read_all([member for _, member in found])
        items = [
            _listed(each).model_copy(update={"tenant_id": each.tenant}).model_dump(mode="json", exclude_none=True)
            for each in kept
        ]
        score, member = found[-1] if found else (0, "")
        return Page(
            items, IndexEntry(score, encoded_id(member.replace("/", "|"))).cursor() if len(found) == limit else None
        )

    async def one(self, tenant: str, name: str) -> Schedule:
        """Return a schedule."""
        kept = await self._kept(tenant, name)
        return shown(kept.spec, kept.state)

    async def runs(self, tenant: str, name: str, limit: int) -> list[ScheduleRun]:
        """Return what has come of a schedule's due times, the latest first."""
        return list((await self._kept(tenant, name)).state.runs[::-1][:limit])

    async def pause(self, tenant: str, name: str) -> Schedule:
        """Pause a schedule: nothing is due until it is resumed. Runs that go on go on."""
        return await self._change(tenant, name, _paused)

    async def resume(self, tenant: str, name: str) -> Schedule:
        """Resume a paused schedule with the next due time."""
        return await self._change(tenant, name, resumed, only_if="paused")

    async def remove(self, tenant: str, name: str) -> None:
        """Remove a schedule with its history. Runs that go on go on."""
        if not is_identifier(name) or not await self._schedules.remove(tenant, name):
            raise missing("there is no such schedule")

    async def _change(self, tenant: str, name: str, change: Change, only_if: str | None = None) -> Schedule:
        for _ in range(_MAX_ATTEMPTS):
            kept, now = await self._kept(tenant, name), await self._store.clock()
            if kept.state.status == "ended":
                raise ProblemError(409, f"schedule {name} has ended: make a new one")
            if only_if is not None and kept.state.status != only_if:
                return shown(kept.spec, kept.state)
            state = settled(change(kept.spec, kept.state, now), now).model_copy(update={"set_at": now})
            if await self._schedules.write(kept, state, wake_of(state, now)):
                return shown(kept.spec, state)
        raise busy("the schedule is being changed by others at the same time: try again")

    async def _kept(self, tenant: str, name: str) -> KeptSchedule:
        """Return a schedule as it is kept. Raises ``ProblemError``: 404, and 410 for one that cannot be read."""
        try:
            kept = await self._schedules.read(tenant, name) if is_identifier(name) else None
        except UnreadableScheduleError as error:
            raise ProblemError(410, f"schedule {name}: {error}") from None
        if kept is None:
            raise missing("there is no such schedule")
        return kept


def _listed(kept: KeptSchedule) -> Schedule:
    """Return a schedule as lists show it."""
    return shown(kept.spec.model_copy(update={"content": kept.spec.content[:_LISTED_CHARS]}), kept.state)


def _spec(body: Mapping[str, Any]) -> ScheduleSpec:
    """Return what a body asks for. Raises ``ProblemError`` (422), also for a message that nobody could send."""
    try:
        spec = ScheduleSpec.model_validate({name: value for name, value in body.items() if value is not None})
        message_of(spec, "default", ScheduleRun(due_at=rfc3339(0), status="planned"))
    except ValidationError as error:
        raise invalid("; ".join(complaints(error))) from None
    return spec
