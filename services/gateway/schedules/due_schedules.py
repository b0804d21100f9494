"""The loop that looks after schedules: what is due becomes messages, and runs are followed to their end.

Every gateway has it; one at a time has the turn (`pentad.shared.schedules.turn_loop`). What is promised does not depend
on that: each change compares what it has read, and the id of a run's message names its due time, so that the message is
accepted once however often it is sent.
"""

import asyncio
import logging

from pentad.contracts.ids import milliseconds, rfc3339
from pentad.contracts.schedules import RunStatus, ScheduleRun
from pentad.services.gateway.domain.schedule_plan import (
    next_move,
    planned,
    settled,
    wake_of,
    with_runs,
    working_runs,
)
from pentad.services.gateway.domain.waited_turn import WaitedTurn
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.schedules.schedules import message_of
from pentad.services.gateway.tasks.control import Control
from pentad.services.gateway.tasks.message_intake import MessageIntake
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared import metrics
from pentad.shared.actors.erased_marks import mark_at
from pentad.shared.errors import DamagedError, OutageError
from pentad.shared.keys import DEDUP_TTL_S, erased_user
from pentad.shared.schedules.schedule_state import ScheduleState
from pentad.shared.schedules.schedule_store import KeptSchedule, ScheduleStore
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

_MAX_LOOKS = 8
"""Schedules that are looked at side by side."""
_LOOK_AHEAD_S = 1.0
"""Seconds between two looks for schedules that were written before the clock stepped back."""
_UNREADABLE_MS = 60_000
_KNOWN_MS = DEDUP_TTL_S * 1000 // 2
"""Milliseconds for which a message may safely be sent again: for twice as long its id is remembered."""
_COUNTED: dict[RunStatus, str] = {status: status for status in ("skipped", "missed", "unknown")}
_COUNTED["sending"] = "sent"


class DueSchedules:
    """Looks after the schedules of all tenants."""

    def __init__(self, store: Store, intake: MessageIntake, queries: Queries, control: Control) -> None:
        self._store, self._schedules = store, ScheduleStore(store)
        self._intake, self._queries, self._control = intake, queries, control
        self._look_ahead_at = float("-inf")
        self._places = asyncio.Semaphore(_MAX_LOOKS)

    async def once(self) -> int:
        """Look at all schedules that are due now; return how many there were."""
        now, passed = await self._store.clock(), asyncio.get_running_loop().time()
        found = await self._schedules.due(now)
        if passed >= self._look_ahead_at:
            found += [each for each in await self._schedules.ahead(now) if each not in found]
            self._look_ahead_at = passed + _LOOK_AHEAD_S
        outcomes = await asyncio.gather(*(self._look(*each) for each in found), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return len(found)

    async def _look(self, tenant: str, name: str) -> None:
        async with self._places:
            now = await self._store.clock()
            try:
                kept = await self._schedules.read(tenant, name)
                if kept is None or await self._is_over(kept, now):
                    await self._schedules.remove(tenant, name)
                else:
                    await self._go_on(kept, now)
            except ValueError as error:  # of a newer version, damaged, or of a time zone that is not known here
                _say.warning(f"{tenant}/{name}", "schedule %s/%s waits: %s", tenant, name, error)
                await self._schedules.postpone(tenant, name, now + _UNREADABLE_MS)

    async def _is_over(self, kept: KeptSchedule, now: int) -> bool:
        """Return whether a schedule is to go: it ended long ago, or its session or user was erased since."""
        if kept.state.ended is not None:
            return (wake_of(kept.state, now) or 0) <= now
        marks = list[str]()
        if kept.spec.session_id is not None:
            marks.append(self._queries.session_keys(kept.tenant, kept.spec.session_id).erased)
        if kept.spec.user_id is not None:
            marks.append(erased_user(0, kept.tenant, kept.spec.user_id))
        found = [await mark_at(self._store, key) for key in marks]
        return any(mark is not None and mark.at >= kept.state.created for mark in found)

    async def _go_on(self, kept: KeptSchedule, now: int) -> None:
        """Take a schedule one move further: what is to be done is written first, and done by whoever has written it."""
        state = planned(kept.spec, kept.state, now)
        state = with_runs(state, *[await self._looked(kept, run, now) for run in working_runs(state)])
        move = next_move(kept.spec, state)
        sent = move.send and move.send.model_copy(update={"status": "sending", "sent_at": rfc3339(now)})
        state = with_runs(state, *move.skipped, *([sent] if sent else []))
        state = settled(state, now).model_copy(update={"set_at": now})
        if not await self._schedules.write(kept, state, wake_of(state, now)):
            return
        _count(kept.state, state)
        if sent is not None:
            await self._send(kept, sent)
        for run in move.cancel:
            await self._cancel(kept.tenant, run)

    async def _send(self, kept: KeptSchedule, run: ScheduleRun) -> bool:
        """Send the message of a run, like that of any client; one that is refused now is sent again later."""
        message = message_of(kept.spec, kept.tenant, run)
        try:
            await self._intake.accept(message, self._queries.session_keys(kept.tenant, run.session_id or ""))
        except ProblemError as problem:
            _say.warning(kept.tenant, "the run of %s of schedule %s waits: %s", run.due_at, kept.name, problem.detail)
            return False
        return True

    async def _cancel(self, tenant: str, run: ScheduleRun) -> None:
        """Cancel a run that the next one is not to wait for. One whose task is not known yet is asked again later."""
        if run.task_id is None:
            return
        try:
            await self._control.ask("cancel", tenant, run.task_id)
        except ProblemError as problem:
            _say.warning("cancel", "task %s is not cancelled: %s", run.task_id, problem.detail)

    async def _looked(self, kept: KeptSchedule, run: ScheduleRun, now: int) -> ScheduleRun:
        """Return a run as it stands now."""
        keys = self._queries.session_keys(kept.tenant, run.session_id or "")
        if run.status == "sending":
            if not await self._accepted(kept, run, now):
                return run if self._may_send(run, now) else _over(run, "unknown", _NOT_SEEN, now)
            run = run.model_copy(update={"status": "accepted"})
        turn = WaitedTurn(run.message_id or "")
        try:
            if run.task_id is None:
                turn = await self._queries.turn(keys, run.message_id or "")
            elif (task := await self._queries.task(kept.tenant, run.task_id)) is not None:
                turn.settle(task)
            else:
                return _over(run, "unknown", "its task is not there any more", now)
        except DamagedError as error:
            return _over(run, "unknown", f"its task cannot be read: {error}"[:300], now)
        return _after(run, turn, now)

    async def _accepted(self, kept: KeptSchedule, run: ScheduleRun, now: int) -> bool:
        """Return whether a message was accepted. One that a kill, a refusal or a failover has taken is sent again."""
        keys = self._queries.session_keys(kept.tenant, run.session_id or "")
        try:
            if await self._intake.was_accepted(keys, run.message_id or ""):
                return True
        except ProblemError as problem:
            raise OutageError(problem.detail) from None
        if self._may_send(run, now):
            await self._send(kept, run)
        return False

    def _may_send(self, run: ScheduleRun, now: int) -> bool:
        return now - milliseconds(run.sent_at or run.due_at) < _KNOWN_MS


_NOT_SEEN = "nobody looked after schedules for half a day since it was to be sent, and nothing of it is left to be seen"


def _over(run: ScheduleRun, status: RunStatus, reason: str, now: int) -> ScheduleRun:
    return run.model_copy(update={"status": status, "reason": reason, "ended_at": rfc3339(now)})


def _after(run: ScheduleRun, turn: WaitedTurn, now: int) -> ScheduleRun:
    """Return a run as its turn stands. One that waits for a decision goes on."""
    run = run.model_copy(update={"task_id": turn.task_id or run.task_id})
    if turn.end is None or turn.may_go_on:
        return run.model_copy(update={"status": "accepted" if run.task_id is None else "running"})
    return _over(run, turn.end.outcome, turn.end.why[:300], now)


def _count(before: ScheduleState, after: ScheduleState) -> None:
    known = {run.due_at: run.status for run in before.runs}
    for run in after.runs:
        outcome = _COUNTED.get(run.status)
        if outcome is not None and known.get(run.due_at) != run.status:
            metrics.schedule_runs.labels(outcome).inc()
