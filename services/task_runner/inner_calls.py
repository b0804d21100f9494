"""Calls that a tool call makes on its way: read and checked as those of the model that has asked for it."""

from collections.abc import Sequence

from pydantic_core import to_json

from pentad.contracts.instructions import DIRECT_CALL, Instruction
from pentad.contracts.suspensions import InnerCall
from pentad.contracts.tools import RESERVED_NAMES
from pentad.services.task_runner.domain.after_answer import Rules, no_verdict, planned_call
from pentad.services.task_runner.domain.planned_call import PlannedCall
from pentad.services.task_runner.hooks import HookFailedError
from pentad.services.task_runner.instructions import TaskInstructions
from pentad.services.task_runner.policies import PolicyBook
from pentad.services.task_runner.step import Step, Steps
from pentad.services.task_runner.step_hooks import HookTrace, StepHookRunner
from pentad.services.task_runner.toolboxes import PromptFacts, Toolboxes, ToolUser
from pentad.services.task_runner.work import graph_work
from pentad.shared.actors.mail import SuspendedCall
from pentad.shared.models.ports import ToolCallDraft


class InnerCalls:
    """Plans the calls that suspended calls ask for: of tools that the instruction offers, rules and hooks applied."""

    def __init__(
        self,
        steps: Steps,
        instructions: TaskInstructions,
        toolboxes: Toolboxes,
        hooks: StepHookRunner,
        policies: PolicyBook,
    ) -> None:
        self._steps, self._instructions, self._toolboxes, self._hooks = steps, instructions, toolboxes, hooks
        self._policies = policies

    async def planned(self, step: Step, need: SuspendedCall) -> Sequence[PlannedCall]:
        """Return the calls, each with why it cannot be made. Only tools of tool-workers can be called so, and not the
        one that asks."""
        wanted, instruction = need.suspension.calls, await self._instruction(step)
        if instruction is None:
            return _all_refused(wanted, f"there is no instruction {step.task.instruction!r} any more")
        facts = PromptFacts(bool(step.task.reads_results), bool(step.task.graph), False, step.task.found_tools)
        whose = ToolUser(step.keys.tenant, need.command.user_id)
        toolbox = await self._toolboxes.of(instruction, {}, facts, whose)
        own = {*RESERVED_NAMES, need.command.tool}
        tools = {name: spec for name, spec in toolbox.specs.items() if name not in own}
        verdict = self._policies.verdicts_for(step.task, instruction.name) or no_verdict
        rules = Rules(tools=tools, approve=self._steps.limits.approve, depth=step.task.depth, verdict=verdict)
        drafts = [ToolCallDraft(each.tool, to_json(each.args).decode()) for each in wanted]
        planned = [planned_call(draft, rules) for draft in drafts]
        try:
            return await self._hooks.calls(step, instruction.name, planned, rules, HookTrace())
        except HookFailedError as failed:
            return _all_refused(wanted, str(failed))

    async def _instruction(self, step: Step) -> Instruction | None:
        """Return the instruction that the step runs; None when nobody knows it any more."""
        if step.task.graph:
            work = await graph_work(step, self._instructions)
            return None if isinstance(work, str) else work.chosen.instruction
        chosen = await self._instructions.of(step.keys, step.task)
        if chosen is None:
            return None
        if chosen.instruction.name == DIRECT_CALL:  # who may call any tool so, may by a program of its own
            return chosen.instruction.model_copy(update={"tools": None})
        return chosen.instruction


def _all_refused(wanted: Sequence[InnerCall], why: str) -> Sequence[PlannedCall]:
    """Return calls of which none is made, for this reason."""
    return [PlannedCall(each.tool, None, "{}", None, to_json(each.args).decode(), why) for each in wanted]
