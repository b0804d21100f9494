"""Asks the model for a step: builds the prompt, writes deltas meanwhile, and handles failures."""

import asyncio
import logging
import random
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal

from pydantic_core import to_json

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import INTERRUPTED, TaskStatusEvent
from pentad.contracts.records import NodeEntry
from pentad.services.task_runner.answer_writer import Asked, Following, ModelQuestion, write_answer
from pentad.services.task_runner.compacting import Compacting, TooLong
from pentad.services.task_runner.compaction_writer import write_compaction, write_summary_step
from pentad.services.task_runner.domain.after_answer import (
    REDRIVEN,
    CallTools,
    CheckedJson,
    Fail,
    NothingSaid,
    is_to_be_checked,
)
from pentad.services.task_runner.domain.graph_strategy import GraphWork
from pentad.services.task_runner.domain.plan import AskModel, CallAgain, Closed, mail_of_this_turn
from pentad.services.task_runner.domain.retry import (
    Retry,
    RetryLimits,
    RetryReason,
    after_model_error,
    too_long_to_wait,
)
from pentad.services.task_runner.domain.strategy import (
    AskTheModel,
    Effect,
    FailRun,
    GoOn,
    KeepNothing,
    ModelAnswered,
    ModelCut,
    ModelGaveUp,
    Noted,
    StartChildren,
    TurnReady,
)
from pentad.services.task_runner.graph_writer import write_boundary
from pentad.services.task_runner.hooks import HookFailedError
from pentad.services.task_runner.initial_recall import InitialRecall
from pentad.services.task_runner.instructions import Chosen, TaskInstructions
from pentad.services.task_runner.mail_writer import append_mail, use_redrives
from pentad.services.task_runner.policies import PolicyBook
from pentad.services.task_runner.prompt import Toolbox, TranscriptCache
from pentad.services.task_runner.prompt_images import NO_IMAGES, PromptImages
from pentad.services.task_runner.questions import Questions
from pentad.services.task_runner.status_writer import fail_task
from pentad.services.task_runner.step import Step, Steps
from pentad.services.task_runner.step_hooks import HookTrace, StepHookRunner
from pentad.services.task_runner.step_writer import StepWriter
from pentad.services.task_runner.text_calls import read_text_answer, split_deltas
from pentad.services.task_runner.tool_calls import report_unserved_calls
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.shared import metrics
from pentad.shared.actors.compaction import asks_for_summary
from pentad.shared.actors.leases import Held, StoppedWorkError
from pentad.shared.agent_graphs.state import written
from pentad.shared.event_loop import LARGE_VALUE, turn_after
from pentad.shared.instructions.schema_check import WrongOutput
from pentad.shared.json_schema import WrongSchema
from pentad.shared.kinds import USER
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import (
    ChatRequest,
    DeltaSink,
    ModelAnswer,
    ModelBusy,
    ModelCutOff,
    ModelFailed,
    ModelTooLong,
    ModelUnavailable,
    ToolCallDraft,
    Usage,
)
from pentad.shared.store.store import guarded
from pentad.shared.text_protocol.request import as_text

log = logging.getLogger(__name__)

_MAX_NAME_CHARS = 64
"""Characters of a tool's name in the log: a model may make up any."""
_NO_ANSWER = ModelAnswer("", "", (), "stop", Usage(0, 0), "nobody")
"""Stands for an answer where a strategy goes on without asking a model."""
_NO_TOOLS = Toolbox({})


StepOutcome = Literal["committed", "overtaken", "interrupted", "failed", "lost"]


class ModelSteps:
    """Asks the model for steps, and commits what it answers."""

    def __init__(
        self,
        steps: Steps,
        models: ModelPool,
        instructions: TaskInstructions,
        tools: ToolCatalog,
        cache: TranscriptCache,
        initial_recall: InitialRecall,
        hooks: StepHookRunner,
        policies: PolicyBook,
        images: PromptImages,
    ) -> None:
        self._steps, self._models, self._instructions, self._images = steps, models, instructions, images
        self._tools, self._cache, self._initial_recall, self._hooks = tools, cache, initial_recall, hooks
        self._compacting = Compacting(models, instructions, steps.settings.pentad_compact_share)
        self._questions = Questions(steps, models, instructions, tools, hooks, policies)

    async def make(self, step: Step, held: Held, planned: AskModel | CallAgain) -> bool:
        """Make one step. False when it was overtaken and must be planned again."""
        begun = perf_counter()
        outcome = await self._step(step, held, planned)
        metrics.step_seconds.labels(outcome).observe(perf_counter() - begun)
        return outcome not in ("overtaken", "interrupted")

    async def _step(self, step: Step, held: Held, planned: AskModel | CallAgain) -> StepOutcome:
        closed = planned.closed
        work = await self._questions.work(step)
        if isinstance(work, str):
            return "failed" if await self._failed(step, closed, ErrorCode.INTERNAL, work) else "overtaken"
        chosen = work.chosen
        if chosen.instruction.on_message == "queue" and not step.arrived.queues:  # no step has told the header yet
            step = replace(step, arrived=mail_of_this_turn(step.task, step.arrived))
        recall = await self._initial_recall.recalled(step, held, chosen, planned)
        asking, problem = await self._questions.make(step, held, work, closed, recall)
        try:
            await self._hooks.begin(step, asking.writer, asking.instruction)
        except HookFailedError as failed:
            problem = str(failed)
        if problem:  # of a hook
            return await self._hook_failed(asking, closed, problem)
        if isinstance(planned, AskModel):
            effect = asking.strategy.next(asking.rules, _ready(asking))
            if work.problem:
                effect = asking.strategy.next(asking.rules, self._gave_up(asking, ErrorCode.GRAPH_ERROR, work.problem))
            if not isinstance(effect, AskTheModel):
                return await self._effect(asking, closed, _NO_ANSWER, effect)
            if (too_long := await self._compacting.due(asking)) is not None:
                return await self._compact(asking, too_long, held, closed)
        held.known = step.taken.newest if asking.heeds_messages else None
        try:
            answer = await held.run(await self._hooked(asking, planned, held))
        except asyncio.CancelledError:
            asking.deltas.stop()
            raise
        except HookFailedError as failed:
            return await self._hook_failed(asking, closed, str(failed))
        except StoppedWorkError:
            asking.deltas.stop()
            if held.interrupted == USER and asking.cut:
                try:
                    said = await self._hooks.answer(step, asking.instruction, asking.cut[0], asking.asked.trace)
                except HookFailedError as failed:
                    return await self._hook_failed(asking, closed, str(failed), asking.cut[0])
                effect = asking.strategy.next(asking.rules, ModelCut(said))
                return await self._effect(asking, closed, replace(said, finish_reason=INTERRUPTED), effect)
            return "lost" if held.interrupted == "lost" else "interrupted"
        if isinstance(answer, ModelFailed):
            asking.deltas.stop()
            if isinstance(answer, ModelTooLong) and (too_long := await self._compacting.due(asking)) is not None:
                return await self._compact(asking, too_long, held, closed)
            return "failed" if await self._without_answer(asking, closed, answer) else "overtaken"
        if self._has_learned_text_calls(asking):
            asking.deltas.stop()
            return await self._cost_alone(asking, answer)
        try:
            answer, effect = await self._after(asking, answer)
        except HookFailedError as failed:
            return await self._hook_failed(asking, closed, str(failed), answer)
        return await self._effect(asking, closed, answer, effect, redriven=isinstance(planned, CallAgain))

    async def _after(self, asking: ModelQuestion, answer: ModelAnswer) -> tuple[ModelAnswer, Effect]:
        """An answer, read where it is text, as hooks make it, and its effect. Raises ``HookFailedError``."""
        answer, malformed = read_text_answer(answer) if asking.asked.text_calls else (answer, "")
        if answer.model != REDRIVEN:
            answer = await self._hooks.answer(asking.step, asking.instruction, answer, asking.asked.trace)
        return await _after(asking, answer, malformed)

    async def _effect(
        self,
        asking: ModelQuestion,
        closed: Sequence[Closed],
        answer: ModelAnswer,
        effect: Effect,
        *,
        redriven: bool = False,
    ) -> StepOutcome:
        """Commit what the strategy wants after this answer."""
        entries: Sequence[NodeEntry] = ()
        if isinstance(effect, Noted):
            effect = await self._fitting(asking, effect)
        if isinstance(effect, Noted):
            outcome, entries, effect = effect.outcome, effect.entries, effect.then
        else:
            outcome = asking.writer.outcome
        if isinstance(effect, CallTools):
            try:
                trace = asking.asked.trace
                made = await self._hooks.calls(asking.step, asking.instruction, effect.calls, asking.rules, trace)
            except HookFailedError as failed:
                return await self._hook_failed(asking, closed, str(failed), answer)
            effect = CallTools(made)
        asking.writer.outcome = outcome
        if isinstance(effect, StartChildren) or (answer is _NO_ANSWER and isinstance(effect, GoOn | FailRun)):
            return await self._boundary(asking, entries, effect)
        if isinstance(effect, NothingSaid):
            asking.deltas.stop()
            again = await self._model_again(asking, closed, "silent", effect.problem, said=answer)
            return "failed" if again else "overtaken"
        if isinstance(effect, KeepNothing):
            return await self._cost_alone(asking, answer)
        if isinstance(effect, AskTheModel):
            raise TypeError(f"{type(asking.strategy).__name__} asks the model before its last answer is kept")
        return await self._answered(asking, answer, effect, entries, redriven=redriven)

    async def _fitting(self, asking: ModelQuestion, effect: Noted) -> Effect:
        """The effect as it is, if what it writes to the state of a graph's run fits its schema; else that of the
        node's failure.
        """
        step, strategy = asking.step, asking.strategy
        keys = {key for entry in effect.entries if entry.kind in ("done", "end") for key, _ in entry.writes}
        if not keys or not isinstance(strategy, GraphWork):
            return effect
        check = await self._instructions.state_check_of(step.keys, step.task)
        if not (keys := keys & check.keys):
            return effect
        run = asking.asked.run.after(effect.entries)
        graph = await self._instructions.graph_of(step.keys, step.task)
        state = written(run.first_state, run.writes, graph.reducers)
        problem = await check.problem({key: state[key] for key in keys})
        return strategy.refused(effect, problem, step.taken.clock()) if problem else effect

    async def _compact(
        self, asking: ModelQuestion, too_long: TooLong, held: Held, closed: Sequence[Closed]
    ) -> StepOutcome:
        """Commit that prompts have a part of the conversation in short, before the model is asked the question."""
        asking.deltas.stop()
        step, chosen = asking.step, asking.asked.chosen
        writer = self._steps.writer(step)
        trace = HookTrace()
        results, _ = await self._questions.results(step, asking.instruction, trace)
        append_mail(writer, closed, results, shared=chosen.instruction.share)
        use_redrives(writer)
        answer: ModelAnswer | None = None
        if too_long.summarizer is not None:
            asked = self._asks_for_summary(step, writer, too_long, too_long.summarizer, trace)
            held.known = None
            try:
                said = await held.run(self._summary(asking, asked, too_long))
            except HookFailedError as failed:
                return await self._hook_failed(asking, closed, str(failed))
            except StoppedWorkError:
                return "lost" if held.interrupted == "lost" else "interrupted"
            if isinstance(said, ModelUnavailable | ModelCutOff):
                return "failed" if await self._without_answer(asking, closed, said) else "overtaken"
            if isinstance(said, ModelFailed):
                log.warning("%s: no summary of a long conversation: %s", step.keys.actor, said)
            elif said.text.strip():
                answer = said
                write_summary_step(writer, answer, asked)
            else:
                writer.spend_without_step(said.usage, said.finish_reason)
        write_compaction(writer, too_long.made(answer.text if answer is not None else ""), answer)
        outcome = await self._steps.commit(writer, step)
        if outcome in ("committed", "continued"):
            grown = step.transcript.grown(writer.added, writer.last_entry, writer.pinned)
            self._cache.keep(step.keys.header, grown)
        return "committed" if outcome == "continued" else outcome

    def _asks_for_summary(
        self, step: Step, writer: StepWriter, too_long: TooLong, summarizer: Chosen, trace: HookTrace
    ) -> Asked:
        today = self._questions.today(step)
        now = summarizer.now(writer.turn.at or step.taken.lease.now, today)
        return Asked(
            summarizer,
            _NO_TOOLS,
            summarizer.system(step.task, today, {}, now),
            step.transcript.messages,
            today,
            step.task.step + 1,
            writer.clock(),
            now=now,
            compacts=too_long.positions,
            trace=trace,
        )

    async def _summary(self, asking: ModelQuestion, asked: Asked, too_long: TooLong) -> ModelAnswer | ModelFailed:
        """Return the summary, with what hooks make of its prompt and of itself. Raises ``HookFailedError``."""
        step, name, instruction = asking.step, asking.instruction, asked.chosen.instruction
        prompt: Sequence[bytes] = [asked.system, asks_for_summary(too_long.items)]
        if hooks := self._hooks.any_of("before_model", step, name):
            prompt = await self._hooks.prompt(step, name, hooks, prompt, asked.trace)
        request = ChatRequest(
            messages=prompt,
            tools=None,
            timeout_s=self._time_left(step, 0),
            cut=step.task.fails,
            caller=step.keys.actor,
            temperature=instruction.temperature,
            max_tokens=instruction.max_tokens,
        )
        model = instruction.model or asking.asked.chosen.instruction.model
        said = await self._models.ask(model, request, _untold)
        if isinstance(said, ModelFailed):
            return said
        return await self._hooks.answer(step, name, said, asked.trace)

    def _has_learned_text_calls(self, asking: ModelQuestion) -> bool:
        """Whether the model was offered tools, and its server has just refused them: it is asked again, with calls as
        text.
        """
        asked = asking.asked
        offered = asked.toolbox.json is not None and not asked.text_calls
        return offered and self._questions.writes_calls(asked.chosen.instruction)

    async def _boundary(
        self, asking: ModelQuestion, entries: Sequence[NodeEntry], then: GoOn | StartChildren | FailRun
    ) -> StepOutcome:
        """Commit what the run of a graph does without asking a model."""
        step, writer = asking.step, asking.writer
        asking.deltas.stop()
        conversation = [*step.transcript.prompt, *writer.added]
        write_boundary(writer, asking.asked.run, entries, then, conversation, asking.asked.limit_at)
        outcome = await self._steps.commit(writer, step)
        if outcome in ("committed", "continued"):
            self._cache.keep(step.keys.header, step.transcript.grown(writer.added, writer.last_entry, writer.pinned))
        return "committed" if outcome == "continued" else outcome

    async def _hooked(
        self, asking: ModelQuestion, planned: AskModel | CallAgain, held: Held
    ) -> Coroutine[Any, Any, ModelAnswer | ModelFailed]:
        """The question to the model, after the hooks that see its prompt. Raises ``HookFailedError``."""
        step, name = asking.step, asking.instruction
        hooks = () if isinstance(planned, CallAgain) else self._hooks.any_of("before_model", step, name)
        if not hooks:
            return self._asked(asking, planned)
        given = [asking.asked.system, *step.transcript.prompt, *asking.writer.added]
        made = await held.run(self._hooks.prompt(step, name, hooks, given, asking.asked.trace))
        return self._asked(asking, planned, made)

    async def _hook_failed(
        self, asking: ModelQuestion, closed: Sequence[Closed], why: str, said: ModelAnswer | None = None
    ) -> StepOutcome:
        """A hook has failed, and with it the step: the turn ends, or the run of a graph goes on elsewhere."""
        asking.deltas.stop()
        failed = await self._without_model(asking, closed, why, said, ErrorCode.HOOK_ERROR)
        return "failed" if failed else "overtaken"

    def _asked(
        self, asking: ModelQuestion, planned: AskModel | CallAgain, hooked: Sequence[bytes] | None = None
    ) -> Coroutine[Any, Any, ModelAnswer | ModelFailed]:
        """The question to the model. ``hooked``: the prompt that hooks have made; None: there are none."""
        if isinstance(planned, CallAgain):
            return _answer_of(planned)
        step, asked = asking.step, asking.asked
        prompt = hooked or [asked.system, *step.transcript.prompt, *asking.writer.added]
        sink: DeltaSink = asking.deltas.add
        if asked.text_calls:
            prompt, sink = as_text(prompt), split_deltas(sink)
        return self._ask(asking, prompt, sink)

    async def _ask(self, asking: ModelQuestion, prompt: Sequence[bytes], sink: DeltaSink) -> ModelAnswer | ModelFailed:
        step, asked = asking.step, asking.asked
        model, images = asked.chosen.instruction.model, NO_IMAGES
        if self._models.sees_images(model):
            images = await self._images.of(step.keys.tenant, step.task.session, prompt)
            asked.images[:] = images.named
        request = ChatRequest(
            messages=prompt,
            tools=None if asked.text_calls else asked.toolbox.json,
            timeout_s=self._time_left(step, asked.limit_at),
            may_call=asked.may_call,
            answer_schema=asked.chosen.schema if asked.told_schema else None,
            cut=step.task.fails,
            caller=step.keys.actor,
            temperature=asked.chosen.instruction.temperature,
            max_tokens=asked.chosen.instruction.max_tokens,
            images=images.urls,
            on_cut=asking.cut.append if asking.heeds_messages else None,
        )
        return await self._models.ask(model, request, sink)

    async def _answered(
        self,
        asking: ModelQuestion,
        answer: ModelAnswer,
        following: Following,
        entries: Sequence[NodeEntry],
        *,
        redriven: bool = False,
    ) -> StepOutcome:
        """Commit the step."""
        step, writer = asking.step, asking.writer
        asking.deltas.finish(writer.commit)
        _log_iteration(asking, answer)
        calls = write_answer(writer, answer, following, asking.asked, entries, redriven=redriven)
        await turn_after(len(answer.text))  # before as much is sent to Redis
        outcome = await self._steps.commit(writer, step)
        if outcome in ("committed", "continued"):
            self._cache.keep(step.keys.header, step.transcript.grown(writer.added, writer.last_entry, writer.pinned))
            if calls and self._tools.silent:
                report_unserved_calls(writer, self._questions.ephemeral(writer), calls, self._tools.silent)
            if isinstance(following, Fail):
                log.warning("%s has failed: its answer is not of the form: %s", step.keys.actor, following.problem)
        else:
            asking.deltas.stop()
        return "committed" if outcome == "continued" else outcome

    async def _cost_alone(self, asking: ModelQuestion, answer: ModelAnswer) -> StepOutcome:
        """Commit only the cost of an answer that is not kept; the model is asked again."""
        writer = self._steps.writer(asking.step)
        writer.spend_without_step(answer.usage, None)
        writer.commit.rewake()
        outcome = await self._steps.commit(writer, asking.step)
        return "committed" if outcome == "continued" else outcome

    def _time_left(self, step: Step, limit_at: int) -> float:
        limit = self._steps.limits.step_timeout_ms
        if step.task.retry_since:
            limit -= max(0, step.taken.lease.now - step.task.retry_since)
        least = 1.0
        if limit_at:
            limit, least = min(limit, limit_at - step.taken.clock()), 0.05
        return max(least, limit / 1000)

    async def _without_answer(self, asking: ModelQuestion, closed: Sequence[Closed], error: ModelFailed) -> bool:
        if isinstance(error, ModelUnavailable):
            reason: RetryReason = "busy" if isinstance(error, ModelBusy) else "unavailable"
            return await self._model_again(asking, closed, reason, str(error), error.retry_after, error.stated_s)
        if isinstance(error, ModelCutOff):
            return await self._model_again(asking, closed, "cut_off", str(error))
        return await self._without_model(asking, closed, str(error))

    def _gave_up(self, asking: ModelQuestion, code: ErrorCode, problem: str) -> ModelGaveUp:
        return ModelGaveUp(code, problem, asking.step.taken.clock())

    async def _without_model(
        self,
        asking: ModelQuestion,
        closed: Sequence[Closed],
        why: str,
        said: ModelAnswer | None = None,
        code: ErrorCode = ErrorCode.MODEL_ERROR,
    ) -> bool:
        """The model has no answer and is not asked again: the turn ends, or the run of a graph goes on elsewhere."""
        effect = asking.strategy.next(asking.rules, self._gave_up(asking, code, why))
        if not isinstance(effect, Noted):
            return await self._failed(asking.step, closed, code, why, said)
        if said is not None:
            asking.writer.spend_without_step(said.usage, said.finish_reason)
        log.warning("%s: a node has no answer: %s", asking.step.keys.actor, why)
        assert isinstance(effect.then, GoOn | FailRun)
        return await self._boundary(asking, effect.entries, effect.then) != "overtaken"

    async def _model_again(
        self,
        asking: ModelQuestion,
        closed: Sequence[Closed],
        reason: RetryReason,
        why: str,
        retry_after: float | None = None,
        stated_s: float | None = None,
        said: ModelAnswer | None = None,
    ) -> bool:
        """Ask the model later, or give up.

        ``stated_s``: seconds for which its server asks to be left alone; ``said``: its answer, when there is one that
        says nothing.
        """
        step, retry = asking.step, asking.asked.chosen.instruction.retry
        task = replace(step.task, retry_since=step.task.retry_since or step.taken.lease.now)
        limits = RetryLimits.of(retry, self._steps.settings.pentad_max_attempts, self._steps.limits.step_timeout_ms)
        now = await guarded("clock", self._steps.actors.store.clock)
        if (problem := too_long_to_wait(task, stated_s, now, self._steps.limits.step_timeout_ms)) is not None:
            return await self._without_model(asking, closed, f"{problem}; {why}")
        again = after_model_error(task, reason, now, retry_after, random.random(), limits)
        if again is None:
            return await self._without_model(asking, closed, why, said)
        level = logging.DEBUG if reason == "busy" else logging.WARNING
        log.log(level, "%s: %s; again in %d ms", step.keys.actor, why, again.delay_ms)
        writer = self._steps.writer(step)
        if said is not None:
            writer.spend_without_step(said.usage, said.finish_reason)
        _ask_later(writer, again, why)
        return await self._steps.commit(writer, step) != "overtaken"

    async def _failed(
        self, step: Step, closed: Sequence[Closed], code: ErrorCode, text: str, said: ModelAnswer | None = None
    ) -> bool:
        """End the turn without an answer; messages that have come since begin the next one."""
        writer = self._steps.writer(step)
        results, _ = await self._questions.results(step, None, HookTrace())
        append_mail(writer, closed, results)
        use_redrives(writer)
        writer.set_header()
        if said is not None:
            writer.spend_without_step(said.usage, said.finish_reason)
        fail_task(writer, code, text)
        if await self._steps.commit(writer, step) == "overtaken":
            return False
        log.warning("%s has failed: %s: %s", step.keys.actor, code.value, text)
        return True


def _log_iteration(asking: ModelQuestion, answer: ModelAnswer) -> None:
    """Tell a step in the log, for whoever looks for why a task goes on or stops. What was said stays out of it."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    asked, used = asking.asked, answer.usage
    log.debug(
        "%s: step %d, attempt %d, iteration %d of the turn: %s stopped with %r after %d ms; "
        "tokens: %d in, %d out; calls: %s",
        asking.step.keys.actor,
        asked.step,
        asking.writer.attempt,
        asking.writer.turn.steps + 1,
        answer.model,
        answer.finish_reason,
        max(0, asking.writer.clock() - asked.asked_at),
        used.input_tokens,
        used.output_tokens,
        ", ".join(call.name[:_MAX_NAME_CHARS] for call in answer.tool_calls) or "none",
    )


def _ask_later(writer: StepWriter, again: Retry, why: str) -> None:
    """Keep everything where it is and try later; the attempt goes on growing."""
    if not writer.task.retry_since:
        writer.emit(TaskStatusEvent, status="active", reason=f"the model is asked again: {why}")
    writer.commit.set(writer.keys.header, fails=again.fails, retry_since=again.retry_since)
    writer.commit.timer(writer.keys, "retry", again.delay_ms)


def _untold(_: str, __: str) -> None:
    """Take a part of a summary: clients are not told it."""


def _ready(asking: ModelQuestion) -> TurnReady:
    """All that has come, for the strategy."""
    step, added = asking.step, asking.writer.added
    newest = added[-1] if added else step.transcript.messages[-1]
    said = "\n\n".join(mail.message.content for mail in step.arrived.users)
    return TurnReady(newest, asking.writer.ended, said, step.taken.clock())


async def _after(asking: ModelQuestion, answer: ModelAnswer, malformed: str) -> tuple[ModelAnswer, Effect]:
    """An answer and its effect; long arguments of calls are parsed outside the event loop."""
    checked = None if malformed else await _checked(asking, answer)
    event = ModelAnswered(answer, checked, malformed, asking.step.taken.clock())
    if sum(len(call.arguments) for call in answer.tool_calls) < LARGE_VALUE:
        return answer, asking.strategy.next(asking.rules, event)
    return answer, await asyncio.to_thread(asking.strategy.next, asking.rules, event)


async def _checked(asking: ModelQuestion, answer: ModelAnswer) -> CheckedJson | None:
    output = asking.asked.chosen.output
    if output is None or not is_to_be_checked(answer, asking.rules):
        return None
    try:
        return CheckedJson(await output.read(answer.text))
    except WrongOutput as error:
        return CheckedJson("", str(error))
    except WrongSchema as error:
        return CheckedJson("", str(error), final=True)


async def _answer_of(planned: CallAgain) -> ModelAnswer:
    """The answer of a model that asks for the redriven calls."""
    drafts = tuple(ToolCallDraft(call.tool, to_json(call.args).decode()) for call in planned.calls)
    return ModelAnswer("", "", drafts, "tool_calls", Usage(0, 0), REDRIVEN)
