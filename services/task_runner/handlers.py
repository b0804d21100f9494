"""A task's wake-up becomes one step: take, plan, carry out, commit."""

import asyncio
import logging
from dataclasses import replace

from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import DEAD, TASK_WAKE, DeadLetter
from pentad.services.task_runner.domain import WAIT_EXPIRED, Closed, End, Idle, Pause, Reopen, Think, plan, sort_mail
from pentad.services.task_runner.prompt import Known, TranscriptCache
from pentad.services.task_runner.step import Step, Steps, bare
from pentad.services.task_runner.thinking import Thinking
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.shared import metrics
from pentad.shared.actors.actors import Actors, Held, LeaseKeeper, Taken
from pentad.shared.actors.headers import task_header
from pentad.shared.errors import OutageError
from pentad.shared.keys import TaskKeys
from pentad.shared.models.ports import ChatModel
from pentad.shared.settings import Settings
from pentad.shared.store.store import guarded
from pentad.shared.work.entry import Done, Entry, printable, reason_of
from pentad.shared.work.handler import MAX_STARTS
from pentad.shared.work.wake_ups import WakeUps

log = logging.getLogger(__name__)
_BACKOFF_S = 0.2


class RunnerHandler(WakeUps[TaskKeys]):
    """Serves tasks' wake-ups: many at once, one task at a time by its lease. Between steps it keeps but a cache."""

    def __init__(
        self,
        actors: Actors,
        keeper: LeaseKeeper,
        model: ChatModel,
        tools: ToolCatalog,
        settings: Settings,
        shard: int,
    ) -> None:
        super().__init__(actors, keeper, shard)
        self._settings = settings
        self._cache = TranscriptCache()
        self._steps = Steps(actors, settings)
        self._thinking = Thinking(self._steps, model, tools, self._cache)
        self._running: set[Held] = set()
        self._stopping = False

    def keys_of(self, tenant: str, name: str) -> TaskKeys:
        return TaskKeys(self._shard, tenant, name)

    async def handle(self, entry: Entry) -> Done:
        keys = self.woken(entry)
        known = self._cache.get(keys.header)
        taken = await self._actors.take(keys, entry.id, known.start)
        if taken is None:
            return Done.LEFT
        with self._keeper.hold(keys, taken.lease) as held:
            self._running.add(held)
            try:
                await self._attempts(keys, taken, known, held)
            except OutageError:
                raise
            except Exception as error:
                log.exception("%s cannot be worked with", keys.actor)
                await self.give_up(keys, taken, reason_of(error))
            finally:
                self._running.discard(held)
        return Done.COMMITTED

    def interrupt(self) -> None:
        """Hand back every step that is under way: its model call is given up, and another runner begins it anew.

        What is taken from now on is handed back too.
        """
        self._stopping = True
        for held in list(self._running):
            held.interrupt("shutdown")

    async def _transcript(self, keys: TaskKeys, known: Known, taken: Taken) -> Known:
        """The committed transcript: what we knew and what has come since; read whole when it is another one."""
        grown = known.extended(taken.transcript)
        if grown is None:
            entries = await guarded("transcript", self._actors.store.call, "LRANGE", keys.log, 0, -1)
            grown = Known().extended(entries)
            assert grown is not None
        return grown

    # Attempts

    async def _attempts(self, keys: TaskKeys, taken: Taken, known: Known, held: Held) -> None:
        """Errors of our own back off and are counted; then the task ends, visibly."""
        header = task_header(keys.tenant, keys.task, taken.raw)
        if header is None:
            await self._actors.commit(self._steps.empty(keys), taken)
            return
        arrived = sort_mail(taken.mail, header.ended_mail)
        if taken.lease.starts > MAX_STARTS:
            reason = f"{MAX_STARTS} starts ended without an outcome"
            await self._give_up(Step(keys, taken, header, arrived, Known()), reason)
            return
        for attempt in range(1, self._settings.pentad_max_attempts + 1):
            try:
                transcript = await self._transcript(keys, known, taken)
                await self._serve(Step(keys, taken, header, arrived, transcript), held)
            except OutageError:
                raise
            except Exception as error:
                log.exception("a step of %s failed (attempt %d)", keys.actor, attempt)
                metrics.failed.labels(TASK_WAKE.name, "step").inc()
                if attempt == self._settings.pentad_max_attempts:
                    await self._give_up(Step(keys, taken, header, arrived, Known()), reason_of(error))
                    return
                await asyncio.sleep(_BACKOFF_S * 2**attempt)
            else:
                return

    async def _serve(self, step: Step, held: Held) -> None:
        """Plan and act; a plan that was overtaken is made again under the same lease."""
        while True:
            if held.interrupted == "lost":
                return
            if self._stopping:
                await self._actors.release(step.keys, step.taken.lease.wake_id, step.taken.lease.token)
                return
            if await self._act(step, held):
                return
            if held.interrupted != "lost":
                held.interrupted = ""
            again = await self._look_again(step)
            if again is None:
                return
            step = again

    async def _look_again(self, step: Step) -> Step | None:
        """Header and mailbox as they are now; None when the lease is lost. What this step has said so far is void."""
        taken = await self._actors.look(step.keys, step.taken)
        header = None if taken is None else task_header(step.keys.tenant, step.keys.task, taken.raw)
        if taken is None or header is None:
            return None
        return replace(step, taken=taken, task=header, arrived=sort_mail(taken.mail, header.ended_mail))

    async def _act(self, step: Step, held: Held) -> bool:
        """Carry out one plan. False when it was overtaken and must be made again."""
        decided = plan(step.task, step.arrived, step.taken.lease.now, self._steps.bounds)
        if isinstance(decided, Think):
            return await self._thinking.think(step, held, decided.closed)
        writer = self._steps.writer(step)
        if isinstance(decided, Idle):
            writer.idle(decided.spent)
        elif isinstance(decided, Reopen):
            writer.reopen(decided.deadline)
        elif isinstance(decided, Pause):
            writer.place_mail(decided.closed, await self._steps.kept_aside(step))
            writer.pause(decided.reason)
        elif isinstance(decided, End):
            writer.place_mail(decided.closed, await self._steps.kept_aside(step))
            writer.ended_without_answer()
            writer.end(decided.status, decided.reason)
            writer.commit.mode = "fail" if decided.reason in (ErrorCode.STEP_LIMIT, WAIT_EXPIRED) else "end"
        return await self._steps.commit(writer, step) != "again"

    async def give_up(self, keys: TaskKeys, taken: Taken, reason: str) -> None:
        step = bare(keys, taken)
        if step is None:
            await self._actors.commit(self._steps.empty(keys), taken)
        else:
            await self._give_up(step, reason)

    async def _give_up(self, step: Step, reason: str) -> None:
        """The task cannot be handled: a dead letter, an ``error``, and its end."""
        closed = tuple(Closed(c, "the task failed") for c in step.task.open if c.id not in step.arrived.results)
        letter = DeadLetter(
            stream=TASK_WAKE.key(self._shard),
            entry_id=step.taken.lease.wake_id,
            reason=reason,
            attempts=step.taken.lease.starts,
            at=rfc3339(step.taken.lease.now),
            fields={f"{m.number} {m.kind}": printable(m.body) for m in step.taken.mail},
            chain=[step.task.correlation, step.task.task],
        )
        writer = self._steps.writer(step)
        if step.task.ended:
            writer.restart()
        writer.place_mail(closed, await self._steps.kept_aside(step))
        writer.ended_without_answer()
        writer.commit.queue(DEAD, DEAD.key(self._shard), letter)
        writer.commit.tallies.count(metrics.dead.labels(TASK_WAKE.name, "step"))
        writer.failed(ErrorCode.INTERNAL, f"the task could not be continued: {reason}")
        writer.end("failed", ErrorCode.INTERNAL.value)
        writer.commit.mode = "fail"
        await self._steps.commit(writer, step)
