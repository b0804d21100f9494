"""A task's wake-up becomes one step: take, plan, think, commit."""

import asyncio
import logging
import random
from dataclasses import dataclass, replace
from time import perf_counter
from uuid import uuid4

from pydantic_core import to_json

from contracts.commands import WakeUp
from contracts.errors import ErrorCode
from contracts.ids import rfc3339
from contracts.streams import DEAD, TASK_WAKE, DeadLetter
from services.task_runner.deltas import DeltaWriter
from services.task_runner.domain import (
    Arrived,
    Closed,
    End,
    Idle,
    Pause,
    Think,
    after_model_error,
    plan,
    sort_mail,
)
from services.task_runner.prompt import Known, Toolbox, TranscriptCache
from services.task_runner.turn import Limits, TurnWriter
from shared import metrics
from shared.bus.consumer import MAX_STARTS, Handler
from shared.bus.entry import Done, Entry, printable, reason_of
from shared.errors import OutageError
from shared.instructions import EXECUTOR, INSTRUCTIONS
from shared.models.ports import (
    ChatModel,
    ChatRequest,
    ModelAnswer,
    ModelCutOff,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
)
from shared.settings import Settings
from shared.state.actors import Actors, Held, LeaseKeeper, Taken
from shared.state.commit import Commit
from shared.state.headers import TaskHeader, task_header
from shared.state.keys import SessionKeys, TaskKeys
from shared.state.store import guarded
from shared.state.tool_catalog import ToolCatalog

log = logging.getLogger(__name__)
_BACKOFF_S = 0.2


@dataclass(frozen=True, slots=True)
class Step:
    """Everything that one handling works on."""

    keys: TaskKeys
    taken: Taken
    task: TaskHeader
    arrived: Arrived
    transcript: Known
    """The committed transcript."""


class RunnerHandler(Handler):
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
        self._actors, self._keeper, self._model, self._tools = actors, keeper, model, tools
        self._settings, self._shard = settings, shard
        self._cache = TranscriptCache()
        self._limits = Limits(
            grace_ms=round(settings.pentad_grace_s * 1000), step_timeout_ms=round(settings.pentad_step_timeout_s * 1000)
        )
        self._running: set[Held] = set()
        self._stopping = False
        self._toolbox = Toolbox({})

    async def handle(self, entry: Entry) -> Done:
        tenant, _, task = entry.parse(WakeUp).actor.partition("/")
        keys = TaskKeys(self._shard, tenant, task)
        known = self._cache.get(keys.header)
        taken = await self._actors.take(keys, entry.id, known.start)
        if taken is None:
            return Done.COMMITTED
        with self._keeper.hold(keys, taken.lease) as held:
            self._running.add(held)
            begun = perf_counter()
            try:
                await self._attempts(keys, taken, known, held)
            except OutageError:
                raise
            except Exception as error:
                log.exception("%s cannot be worked with", keys.actor)
                await self._give_up(_bare(keys, taken), reason_of(error))
            finally:
                self._running.discard(held)
                metrics.step_seconds.labels(held.interrupted or "committed").observe(perf_counter() - begun)
        return Done.COMMITTED

    async def hand_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            tenant, _, task = entry.parse(WakeUp).actor.partition("/")
            await self._actors.release(TaskKeys(self._shard, tenant, task), entry.id)

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
            entries = await guarded("transcript", lambda: self._actors.store.call("LRANGE", keys.log, 0, -1))
            grown = Known().extended(entries)
            assert grown is not None
        return grown

    # Attempts

    async def _attempts(self, keys: TaskKeys, taken: Taken, known: Known, held: Held) -> None:
        """Errors of our own back off and are counted; then the task ends, visibly."""
        header = task_header(keys.tenant, keys.task, taken.raw)
        if header is None:
            await self._actors.commit(self._commit(keys), taken)
            return
        step = Step(keys, taken, header, sort_mail(taken.mail), Known())
        if taken.lease.starts > MAX_STARTS:
            await self._give_up(step, f"{MAX_STARTS} starts ended without an outcome")
            return
        for attempt in range(1, self._settings.pentad_max_attempts + 1):
            try:
                await self._serve(replace(step, transcript=await self._transcript(keys, known, taken)), held)
            except OutageError:
                raise
            except Exception as error:
                log.exception("a step of %s failed (attempt %d)", keys.actor, attempt)
                metrics.failed.labels(TASK_WAKE.name, "step").inc()
                if attempt == self._settings.pentad_max_attempts:
                    await self._give_up(step, reason_of(error))
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
        return replace(step, taken=taken, task=header, arrived=sort_mail(taken.mail))

    async def _act(self, step: Step, held: Held) -> bool:
        """Carry out one plan. False when it was overtaken and must be made again."""
        settings = self._settings
        decided = plan(
            step.task, step.arrived, step.taken.lease.now, settings.pentad_step_limit, self._limits.step_timeout_ms
        )
        if isinstance(decided, Think):
            return await self._think(step, held, decided)
        writer = self._writer(step)
        if isinstance(decided, Idle):
            writer.idle(decided.spent)
        elif isinstance(decided, Pause):
            writer.place_mail(decided.closed, await self._kept_aside(step))
            writer.pause(decided.reason)
        elif isinstance(decided, End):
            writer.place_mail(decided.closed, await self._kept_aside(step))
            writer.ended_without_answer()
            writer.end(decided.status, decided.reason)
            writer.commit.mode = "fail" if decided.reason == ErrorCode.STEP_LIMIT else "end"
        return await self._actors.commit(writer.commit, step.taken) != "again"

    # Thinking

    async def _think(self, step: Step, held: Held, think: Think) -> bool:
        toolbox = await self._offer()
        writer = self._writer(step)
        if think.restart:
            writer.restart()
        writer.place_mail(think.closed, await self._kept_aside(step))
        instruction = INSTRUCTIONS.get(self._instruction(step), EXECUTOR)
        system = to_json({"role": "system", "content": instruction.system_prompt})
        number = step.task.step + 1
        deltas = self._deltas(step, writer, number)
        request = ChatRequest(
            messages=[system, *step.transcript.messages, *writer.added],
            tools=toolbox.json,
            timeout_s=self._time_left(step),
        )
        work = asyncio.ensure_future(self._ask_model(request, deltas))
        held.watch(work)
        try:
            answer = await work
        except asyncio.CancelledError:
            deltas.stop()
            if not held.interrupted:
                work.cancel()
                raise
            return False
        except ModelRefused as error:
            deltas.stop()
            return await self._model_failed(step, think, str(error))
        except (ModelUnavailable, ModelCutOff) as error:
            deltas.stop()
            return await self._model_again(step, think, error)
        deltas.finish(writer.commit)
        writer.answered(answer, toolbox, system, number, step.transcript.messages)
        outcome = await self._actors.commit(writer.commit, step.taken)
        if outcome in ("ok", "open"):
            grown = Known((*step.transcript.messages, *writer.added), writer.last_entry)
            self._cache.keep(step.keys.header, grown)
        return outcome != "again"

    async def _ask_model(self, request: ChatRequest, deltas: DeltaWriter) -> ModelAnswer:
        begun, outcome = perf_counter(), "cancelled"
        try:
            answer = await self._model.stream(request, deltas.add)
            outcome = "ok"
        except ModelFailed as error:
            outcome = type(error).__name__
            raise
        finally:
            metrics.model_seconds.labels(self._model.name, outcome).observe(perf_counter() - begun)
        metrics.model_tokens.labels(self._model.name, "input").inc(answer.usage.input_tokens)
        metrics.model_tokens.labels(self._model.name, "output").inc(answer.usage.output_tokens)
        return answer

    def _instruction(self, step: Step) -> str:
        users = step.arrived.users
        return users[-1].message.instruction if users else step.task.instruction

    async def _offer(self) -> Toolbox:
        specs = await self._tools.specs()
        if specs is not self._toolbox.specs:
            self._toolbox = Toolbox(specs)
        return self._toolbox

    def _time_left(self, step: Step) -> float:
        limit = self._limits.step_timeout_ms
        if step.task.retry_since:
            limit -= step.taken.lease.now - step.task.retry_since
        return max(1.0, limit / 1000)

    def _deltas(self, step: Step, writer: TurnWriter, number: int) -> DeltaWriter:
        head = {k: v for k, v in writer.envelope().items() if v is not None and k not in ("budget", "deadline")}
        head |= {"version": 1, "step": number, "attempt": step.taken.lease.attempt}
        session = SessionKeys(step.keys.shard, step.keys.tenant, step.task.session)
        s = self._settings
        late = (step.taken.lease.now - writer.turn.at) / 1000
        begun = perf_counter()

        def first() -> None:
            if number == step.task.step + 1 and not step.task.turn_steps:
                metrics.first_delta_seconds.labels().observe(max(0.0, late + perf_counter() - begun))

        return DeltaWriter(self._actors.store, session, head, s.pentad_coalesce_ms, s.pentad_events_maxlen, first)

    async def _model_again(self, step: Step, think: Think, error: ModelUnavailable | ModelCutOff) -> bool:
        cut_off = isinstance(error, ModelCutOff)
        began = step.taken.lease.now
        again = after_model_error(
            replace(step.task, retry_since=step.task.retry_since or began),
            "cut_off" if cut_off else "unavailable",
            await guarded("clock", self._actors.store.clock),
            None if cut_off else getattr(error, "retry_after", None),
            random.random(),
            (self._settings.pentad_max_attempts, self._limits.step_timeout_ms),
        )
        if again is None:
            return await self._model_failed(step, think, str(error))
        log.warning("%s: %s; again in %d ms", step.keys.actor, error, again.delay_ms)
        writer = self._writer(step)
        writer.retry(again, str(error))
        return await self._actors.commit(writer.commit, step.taken) != "again"

    async def _model_failed(self, step: Step, think: Think, text: str) -> bool:
        """The model will not answer: the turn ends; what came since starts the next one."""
        writer = self._writer(step)
        if think.restart:
            writer.restart()
        writer.place_mail(think.closed, await self._kept_aside(step))
        writer.ended_without_answer()
        writer.failed(ErrorCode.MODEL_ERROR, text)
        writer.end("failed", ErrorCode.MODEL_ERROR.value)
        writer.commit.mode = "fail"
        return await self._actors.commit(writer.commit, step.taken) != "again"

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
        writer = self._writer(step)
        if step.task.ended:
            writer.restart()
        writer.place_mail(closed, await self._kept_aside(step))
        writer.ended_without_answer()
        writer.commit.queue(DEAD, DEAD.key(self._shard), letter)
        metrics.dead.labels(TASK_WAKE.name, "step").inc()
        writer.failed(ErrorCode.INTERNAL, f"the task could not be continued: {reason}")
        writer.end("failed", ErrorCode.INTERNAL.value)
        writer.commit.mode = "fail"
        await self._actors.commit(writer.commit, step.taken)

    # Parts

    def _commit(self, keys: TaskKeys) -> Commit:
        s = self._settings
        return Commit(keys, f"step-{uuid4().hex}", s.pentad_events_maxlen, s.pentad_events_ttl_s)

    def _writer(self, step: Step) -> TurnWriter:
        return TurnWriter(
            self._commit(step.keys),
            step.keys,
            step.task,
            step.taken.lease,
            step.arrived,
            self._limits,
            lambda: uuid4().hex[:20],
        )

    async def _kept_aside(self, step: Step) -> dict[str, str]:
        """Large results that their mail only refers to."""
        refs = [r.ref for r in step.arrived.results.values() if r.ref is not None]
        if not refs:
            return {}
        values = await guarded("results", lambda: self._actors.store.call("HMGET", step.keys.big, *refs))
        return {ref: (value or b"").decode() for ref, value in zip(refs, values, strict=True)}


_PLAIN = ("status", "session", "user", "goal", "open", "step", "log_length", "digest", "tools", "correlation")


def _bare(keys: TaskKeys, taken: Taken) -> Step:
    """A task whose header or mail nobody can work with: what is needed to end it, its mail all spent."""
    raw = {name: value for name, value in taken.raw.items() if name in _PLAIN}
    header = task_header(keys.tenant, keys.task, raw)
    assert header is not None
    spent = Arrived((), {}, frozenset(), (), (), tuple(m.number for m in taken.mail))
    return Step(keys, taken, header, spent, Known())
