"""Handles the wake-up of a task as one step: take, plan, carry out, commit."""

import logging
from dataclasses import replace

from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import is_identifier
from pentad.contracts.streams import DEAD, TASK_WAKE
from pentad.services.task_runner.call_changes import AdvanceMaterials
from pentad.services.task_runner.domain.plan import (
    Advance,
    AskModel,
    CallAgain,
    End,
    Finish,
    GiveAway,
    Pause,
    Plan,
    give_up,
    mail_of_this_turn,
    plan,
)
from pentad.services.task_runner.domain.result_in_prompt import KeptResults
from pentad.services.task_runner.hooks import HookCalls
from pentad.services.task_runner.initial_recall import InitialRecall
from pentad.services.task_runner.inner_calls import InnerCalls
from pentad.services.task_runner.instructions import TaskInstructions
from pentad.services.task_runner.mail_writer import append_mail, use_redrives
from pentad.services.task_runner.model_step import ModelSteps
from pentad.services.task_runner.moves import Moves
from pentad.services.task_runner.plan_writer import WRITES, Materials
from pentad.services.task_runner.policies import PolicyBook
from pentad.services.task_runner.prompt import KnownTranscript, TranscriptCache
from pentad.services.task_runner.prompt_images import PromptImages
from pentad.services.task_runner.spoken_decisions import spoken_decision
from pentad.services.task_runner.status_writer import fail_task, restart_task
from pentad.services.task_runner.step import Step, Steps, bare
from pentad.services.task_runner.step_hooks import HookTrace, StepHookRunner
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.services.task_runner.toolboxes import Toolboxes
from pentad.shared import metrics
from pentad.shared.actors.actors import Actors, Taken
from pentad.shared.actors.leases import Held, LeaseKeeper
from pentad.shared.actors.targets import awaits_decision
from pentad.shared.errors import OutageError
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.task_recall import TaskRecall
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.settings import Settings
from pentad.shared.store.store import guarded
from pentad.shared.work.dead_letters import chain_of, make_letter
from pentad.shared.work.wake_ups import WakeUps

log = logging.getLogger(__name__)
NO_FILES = PromptImages(None)
"""The images of prompts where sessions have no files."""


class RunnerHandler(WakeUps[TaskKeys]):
    """Handles wake-ups of tasks: many at once, each task by one runner, by its lease. Steps share only caches."""

    failing = "step"

    def __init__(
        self,
        actors: Actors,
        keeper: LeaseKeeper,
        models: ModelPool,
        book: InstructionBook,
        tools: ToolCatalog,
        settings: Settings,
        shard: int,
        recalling: TaskRecall,
        hooks: HookCalls,
        policies: PolicyBook,
        images: PromptImages = NO_FILES,
    ) -> None:
        super().__init__(actors, keeper, shard, settings.pentad_max_attempts)
        self._cache, self._policies = TranscriptCache(), policies
        self._steps = Steps(actors, settings)
        instructions = TaskInstructions(actors.store, book)
        self._hooks = StepHookRunner(hooks)
        self._steps.on_end = self._hooks.tell_end
        recall = InitialRecall(recalling)
        self._model_steps = ModelSteps(
            self._steps, models, instructions, tools, self._cache, recall, self._hooks, policies, images
        )
        self._inner_calls = InnerCalls(self._steps, instructions, Toolboxes(tools, models), self._hooks, policies)
        self._moves = Moves(self._steps, tools, instructions, self._results)
        self._running: set[Held] = set()
        self._stopping = False

    def keys_of(self, tenant: str, name: str) -> TaskKeys:
        if not is_identifier(name):
            raise ValueError(f"{name[:300]!r} is no actor: no task is called so")
        return TaskKeys(self._shard, tenant, name)

    def read_from(self, keys: TaskKeys) -> int:
        return self._cache.get(keys.header).start

    def interrupt(self) -> None:
        """Hand back every step that is under way: its model call is given up, and another runner begins it anew.

        What is taken from now on is handed back too.
        """
        self._stopping = True
        for held in list(self._running):
            held.interrupt("shutdown")

    async def serve(self, keys: TaskKeys, taken: Taken, held: Held) -> None:
        """Make one step of the task, or whatever else its mail asks for."""
        if not taken.raw.get("status"):  # there is no such task
            await self._actors.commit(self._steps.empty(keys), taken)
            return
        self._running.add(held)
        try:
            await self._go_on(self._steps.read(keys, taken, await self._transcript(keys, taken)), held)
        finally:
            self._running.discard(held)

    async def _transcript(self, keys: TaskKeys, taken: Taken) -> KnownTranscript:
        """The committed transcript: what we knew and what has come since; read whole when it is another one."""
        known = self._cache.get(keys.header)
        grown = known.extended(taken.transcript) if known.start == taken.start else None
        if grown is None:
            entries = await guarded("transcript", self._actors.store.call, "LRANGE", keys.log, 0, -1)
            grown = KnownTranscript().extended(entries)
            assert grown is not None
        return grown

    async def _go_on(self, step: Step, held: Held) -> None:
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
        if taken is None or not taken.raw.get("status"):
            return None
        return self._steps.read(step.keys, taken, step.transcript)

    async def _act(self, step: Step, held: Held) -> bool:
        """Carry out one plan. False when it was overtaken and must be made again."""
        if step.task.queues:
            step = replace(step, arrived=mail_of_this_turn(step.task, step.arrived))
        step = await self._with_spoken(step)
        decided = plan(step.task, step.arrived, step.taken.lease.now, self._steps.bounds)
        if isinstance(decided, AskModel | CallAgain):
            return await self._model_steps.make(step, held, decided)
        if isinstance(decided, GiveAway):
            return await self._moves.give_away(step, decided)
        writer = self._steps.writer(step)
        WRITES[type(decided)](writer, decided, await self._materials(step, decided))
        return await self._steps.commit(writer, step) != "overtaken"

    async def _with_spoken(self, step: Step) -> Step:
        """Read the messages that have come as the decision about the one call that waits for it, if they are one."""
        task, arrived = step.task, step.arrived
        if not arrived.users or task.paused:
            return step
        waiting = [call.id for call in task.open if awaits_decision(call) and call.id not in arrived.results]
        if len(waiting) != 1 or waiting[0] in arrived.decisions:
            return step
        (request,) = (await self._steps.requests(step, waiting)).values()
        said = spoken_decision(arrived.users, waiting[0], request)
        return step if said is None else replace(step, arrived=replace(arrived, decisions={waiting[0]: said}))

    async def _materials(self, step: Step, decided: Plan) -> Materials:
        """Read what this plan is written from."""
        if isinstance(decided, Advance):
            return Materials(advance=await self._advance_materials(step, decided))
        if not isinstance(decided, End | Finish | Pause):
            return Materials()
        results = await self._results(step)
        last = await self._steps.last_record(step) if isinstance(decided, Finish) else None
        return Materials(step.transcript.messages, results, last)

    async def _advance_materials(self, step: Step, plan: Advance) -> AdvanceMaterials:
        """Read what changes of open calls are written from."""
        requests = await self._steps.requests(step, plan.kept)
        inner = {
            call.id: await self._inner_calls.planned(step, need)
            for call, need in plan.suspended
            if need.suspension.needs == "calls"
        }
        goes_on = any(requests[call.id].needs == "calls" for call in plan.released)
        results = await self._results(step) if goes_on else {}
        return AdvanceMaterials(requests, inner, results, self._policies.denied(step.task, plan, requests))

    async def _results(self, step: Step) -> KeptResults:
        """The results that have come, as hooks let them through; one whose hook fails is withheld."""
        results, limit = await self._steps.results(step), self._steps.limits.result_bytes
        made, _ = await self._hooks.results(step, results, None, limit, HookTrace())
        return made

    async def give_up(self, keys: TaskKeys, taken: Taken, reason: str, attempts: int) -> None:
        """End a task that cannot be handled, with a dead letter and an ``error``."""
        step = bare(keys, taken)
        if step is None:
            await self._actors.commit(self._steps.empty(keys), taken)
            return
        try:
            await self._end(self._steps.read(keys, taken, KnownTranscript()), reason, attempts)
        except OutageError:
            raise
        except Exception:
            log.exception("%s is ended with its bare header", keys.actor)
            await self._end(step, reason, attempts)

    async def _end(self, step: Step, reason: str, attempts: int) -> None:
        missing = [call for call in step.task.open if call.id not in step.arrived.results]
        closed = give_up(missing, "the task failed")
        task, writer = step.task, self._steps.writer(step)
        letter = make_letter(
            "task_mail",
            TASK_WAKE.key(self._shard),
            step.taken.lease.wake_id,
            ((f"{m.number} {m.kind}", m.body) for m in step.taken.mail),
            reason=reason,
            attempts=attempts,
            at=await self._actors.store.now(),
            whom={"tenant_id": task.tenant, "session_id": task.session, "task_id": task.task_id},
            chain=chain_of(message=writer.turn.correlation, task=task.task_id),
        )
        if step.task.ended:
            restart_task(writer)
        append_mail(writer, closed, await self._results(step))
        use_redrives(writer)
        writer.commit.unmail(step.arrived.move_numbers)
        writer.set_header()
        writer.commit.queue(DEAD, DEAD.key(self._shard), letter)
        writer.commit.tallies.count(metrics.dead.labels(TASK_WAKE.name, "step"))
        fail_task(writer, ErrorCode.INTERNAL, f"the task could not be continued: {reason}")
        await self._steps.commit(writer, step)
