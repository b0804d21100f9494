"""Makes the question to the model for a step: its instruction, its prompt and its tools, and where deltas go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pentad.contracts.dates import LocalDate
from pentad.contracts.graphs import Runnable
from pentad.contracts.instructions import Instruction
from pentad.services.task_runner.answer_writer import Asked, ModelQuestion, rules_of
from pentad.services.task_runner.client_tools import ClientTools
from pentad.services.task_runner.delta_writer import DeltaKind, DeltaWriter
from pentad.services.task_runner.domain.after_answer import Rules
from pentad.services.task_runner.domain.own_tools import ASK_USER
from pentad.services.task_runner.domain.plan import Closed
from pentad.services.task_runner.domain.result_in_prompt import KeptResults
from pentad.services.task_runner.domain.strategy import Strategy, strategy_of
from pentad.services.task_runner.instructions import TaskInstructions
from pentad.services.task_runner.mail_writer import append_mail, use_redrives
from pentad.services.task_runner.policies import PolicyBook
from pentad.services.task_runner.prompt import Toolbox, user
from pentad.services.task_runner.step import Step, Steps
from pentad.services.task_runner.step_hooks import HookTrace, StepHookRunner
from pentad.services.task_runner.step_writer import StepWriter
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.services.task_runner.toolboxes import PromptFacts, Toolboxes, ToolUser
from pentad.services.task_runner.work import Work, graph_work
from pentad.shared import metrics
from pentad.shared.actors.leases import Held
from pentad.shared.events.ephemeral import EphemeralEvents
from pentad.shared.instructions.variables import bounded_variables
from pentad.shared.memory.task_recall import Recall
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.text_protocol.request import with_protocol


class Questions:
    """Makes the questions to the model, each for one step."""

    def __init__(
        self,
        steps: Steps,
        models: ModelPool,
        instructions: TaskInstructions,
        tools: ToolCatalog,
        hooks: StepHookRunner,
        policies: PolicyBook,
    ) -> None:
        self._steps, self._models, self._instructions, self._policies = steps, models, instructions, policies
        self._tools, self._hooks = tools, hooks
        self._toolboxes, self._client_tools = Toolboxes(tools, models), ClientTools(steps)

    async def work(self, step: Step) -> Work | str:
        """Find the instruction and the way of working for this step, or the reason why nobody knows them any more."""
        if step.task.graph:
            return await graph_work(step, self._instructions)
        chosen = await self._instructions.of(step.keys, step.task)
        if chosen is None:
            return f"there is no instruction {step.task.instruction!r} any more"
        return Work(chosen, strategy_of(chosen.instruction))

    async def make(
        self, step: Step, held: Held, work: Work, closed: Sequence[Closed], recall: Recall | None
    ) -> tuple[ModelQuestion, str]:
        """Make the question to the model, with the mail appended to the transcript; also return why a hook has not let
        a result through, or ''.
        """
        instruction, trace = work.chosen.instruction, HookTrace()
        writer = self._steps.writer(step)
        if recall is not None and recall.text:  # before what it is about; its text is kept, for the memory changes
            writer.append(user(recall.text), origin="recalled")
        results, problem = await self.results(step, instruction.name, trace)
        append_mail(writer, closed, results, shared=instruction.share)
        use_redrives(writer)
        question_at = work.prompt(writer, step.transcript)
        agents = await self._instructions.agents_of(instruction)
        toolbox = await self._toolbox(step, writer, instruction, agents)
        asked = replace(
            self._asked(step, writer, work, toolbox), recall=recall, question_at=question_at, agents=agents, trace=trace
        )
        rules = await self._rules(writer, work.strategy, asked)
        deltas = self._deltas(step, writer, asked, held)
        return ModelQuestion(step, writer, asked, rules, work.strategy, deltas), problem

    async def _toolbox(
        self, step: Step, writer: StepWriter, instruction: Instruction, agents: Mapping[str, Runnable]
    ) -> Toolbox:
        """Return the tools that this step offers its model."""
        shown = PromptFacts(
            writer.reads_results, bool(step.task.graph), step.transcript.has_shortened, step.task.found_tools
        )
        whose = ToolUser(step.keys.tenant, writer.turn.speaker or None)
        client = await self._client_tools.of(step, instruction)
        return await self._toolboxes.of(instruction, agents, shown, whose, client)

    def _asked(self, step: Step, writer: StepWriter, work: Work, toolbox: Toolbox) -> Asked:
        """Return what the model is asked with, after the mail was appended: its system message, prompt and tools."""
        chosen, today = work.chosen, self.today(step)
        given = [step.task.variables, *step.arrived.metadata]
        variables = bounded_variables(chosen.variables, given) if chosen.variables else {}
        now = chosen.now(writer.turn.at or step.taken.lease.now, today)
        system = chosen.system(step.task, today, variables, now, work.state)
        text_calls = self.writes_calls(chosen.instruction)
        may_call = work.may_call(writer)
        return Asked(
            chosen,
            toolbox,
            with_protocol(system, toolbox.json) if text_calls else system,
            step.transcript.messages,
            today,
            step.task.step + 1,
            writer.clock(),
            may_call,
            variables=variables,
            now=now,
            told_schema=chosen.schema is not None and _is_answer_due(toolbox, step, may_call),
            state=work.state,
            run=work.run,
            limit_at=work.limit_at(writer.clock()),
            text_calls=text_calls,
        )

    async def _rules(self, writer: StepWriter, strategy: Strategy, asked: Asked) -> Rules:
        """Return the rules for the answer; where no model is asked, for the calls that the strategy makes itself."""
        rules = rules_of(asked, writer, self._steps.settings.pentad_calls_per_step, self._policies)
        if strategy.asks_models:
            return rules
        own = {ASK_USER.name: ASK_USER} if writer.task.graph else {}
        return replace(rules, tools={**await self._tools.specs(), **own}, may_call=True)

    async def results(self, step: Step, instruction: str | None, trace: HookTrace) -> tuple[KeptResults, str]:
        """The results that have come, as hooks let them through."""
        results, limit = await self._steps.results(step), self._steps.limits.result_bytes
        return await self._hooks.results(step, results, instruction, limit, trace)

    def today(self, step: Step) -> LocalDate:
        """The day of the step where the person is, else where the settings are."""
        zone = step.arrived.time_zone or step.task.time_zone or self._steps.settings.time_zone
        return LocalDate.of(step.taken.lease.now, zone)

    def writes_calls(self, instruction: Instruction) -> bool:
        """Whether this instruction's model calls tools as text."""
        if instruction.calls != "auto":
            return instruction.calls == "text"
        return self._models.calls_as_text(instruction.model)

    def _deltas(self, step: Step, writer: StepWriter, asked: Asked, held: Held) -> DeltaWriter:
        head = {k: v for k, v in writer.envelope().items() if v is not None and k not in ("budget", "deadline")}
        head |= {"version": 1, "step": asked.step, "attempt": step.taken.lease.attempt}

        def first() -> None:
            """Measure the time to the first delta of a turn; deltas of attempts before this one are void."""
            if not writer.turn.steps:
                delay = metrics.first_delta_seconds.labels()
                writer.commit.tallies.measure(delay, writer.turn.at, step.taken.clock())

        events, coalesce_ms = self.ephemeral(writer, lambda: held.sure), self._steps.settings.pentad_coalesce_ms
        kinds: tuple[DeltaKind, ...] = ("content", "thinking") if asked.chosen.output is None else ("thinking",)
        return DeltaWriter(events, writer.session, head, coalesce_ms, first, kinds)

    def ephemeral(self, writer: StepWriter, may_write: Callable[[], bool] = lambda: True) -> EphemeralEvents:
        s = self._steps.settings
        maxlen, ttl_s = s.pentad_events_maxlen, s.pentad_events_ttl_s
        return EphemeralEvents(self._steps.actors.store, writer.session, maxlen, ttl_s, may_write)


def _is_answer_due(toolbox: Toolbox, step: Step, may_call: bool) -> bool:
    """Whether the model has no tools to call, or has answered before: some servers that hold a model to a schema let it
    call no tools.
    """
    return toolbox.json is None or not may_call or step.task.repairs > 0
