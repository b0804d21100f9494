"""Runs the hooks of a step: on its prompt, on the model's answer, on the calls that it makes, and on their results."""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.events import EndStatus
from pentad.contracts.hooks import (
    TASK_BEGINS,
    TASK_ENDS,
    HookedPrompt,
    HookedValue,
    HookFacts,
    HookKind,
    HookSpec,
    PromptSplice,
    StepHooks,
)
from pentad.services.task_runner.domain.after_answer import Rules, planned_call
from pentad.services.task_runner.domain.call_arguments import parse_arguments
from pentad.services.task_runner.domain.planned_call import PlannedCall
from pentad.services.task_runner.domain.result_in_prompt import KeptResult, KeptResults, in_prompt
from pentad.services.task_runner.hooks import HookCalls, HookFailedError, told_at_end
from pentad.services.task_runner.step import Step
from pentad.services.task_runner.step_writer import StepWriter
from pentad.shared.actors.step_prompt import hooked_digest, spliced
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable
from pentad.shared.models.ports import ModelAnswer, ToolCallDraft

log = logging.getLogger(__name__)

_ORIGINAL_BYTES = 16 * 1024
"""Bytes of an answer or a call before a hook changed it that are kept."""
_MAX_RESULTS = 256
"""Results that hooks have seen lately: a step that is planned again does not run them again."""
_NOT_HOOKED = ("branch", "person", "runner")
"""Targets of calls whose results are the task-runner's own."""


@immutable
class HookTrace:
    """The changes that hooks have made in one step so far. It grows while the step is made."""

    prompts: list[HookedPrompt] = field(default_factory=list)
    values: list[HookedValue] = field(default_factory=list)

    def note(self, hook: HookSpec, subject: str, before: str, after: str, **more: str | None) -> None:
        """Note that a hook made something else of a value."""
        self.values.append(
            HookedValue(hook=hook.name, kind=hook.kind, subject=subject, before=_sha(before), after=_sha(after), **more)
        )

    @property
    def kept(self) -> StepHooks | None:
        """The part of them that the step's manifest keeps; None where hooks changed nothing."""
        if not self.prompts and not self.values:
            return None
        return StepHooks(prompt=self.prompts[-1] if self.prompts else None, values=list(self.values))


class StepHookRunner:
    """Runs the hooks that concern a step, each with the outcome of the one before. A failing one fails the step."""

    def __init__(self, calls: HookCalls) -> None:
        self._calls, self._catalog = calls, calls.catalog
        self._seen: OrderedDict[str, tuple[KeptResult, tuple[HookedValue, ...]]] = OrderedDict()

    def any_of(self, kind: HookKind, step: Step, instruction: str) -> Sequence[HookSpec]:
        """Return the hooks of a kind that concern a step of this instruction."""
        return self._catalog.of(kind, frozenset((instruction, step.task.instruction)))

    async def begin(self, step: Step, writer: StepWriter, instruction: str) -> None:
        """Tell hooks that the task begins, where no step of its turn has told them. Raises ``HookFailedError``."""
        hooks = self.any_of(TASK_BEGINS, step, instruction)
        if not hooks or step.task.hooks_told:
            return
        subject = _task(step.task.goal, step.task.instruction, step.task.parent)
        for hook in hooks:
            await self._run(hook, step, instruction, subject)
        writer.commit.set(writer.keys.header, hooks_told=1)

    async def prompt(
        self, step: Step, instruction: str, hooks: Sequence[HookSpec], given: Sequence[bytes], trace: HookTrace
    ) -> Sequence[bytes]:
        """Return the prompt that `before_model` hooks make of this one. Raises ``HookFailedError``."""
        names, splices = [], []
        lines: Sequence[bytes] = given
        for hook in hooks:
            value = await self._run(hook, step, instruction, (b"[" + b",".join(lines) + b"]").decode())
            if value is None:
                continue
            made = [
                PromptSplice(start=start, end=end, messages=[to_json(message).decode() for message in messages])
                for start, end, messages in from_json(value)
            ]
            lines = spliced(lines, made)
            names.append(hook.name)
            splices.append(made)
        if names:
            trace.prompts.append(HookedPrompt(hooks=names, splices=splices, digest=hooked_digest(lines)))
        return lines

    async def answer(self, step: Step, instruction: str, answer: ModelAnswer, trace: HookTrace) -> ModelAnswer:
        """Return the answer that `after_model` hooks make of this one. Raises ``HookFailedError``."""
        for hook in self.any_of("after_model", step, instruction):
            before = _answer_json(answer)
            value = await self._run(hook, step, instruction, before)
            if value is None:
                continue
            original = clip(before, _ORIGINAL_BYTES)
            made = from_json(value)
            answer = replace(answer, text=made["text"], tool_calls=_drafts(made["calls"], answer.tool_calls))
            trace.note(hook, "", before, _answer_json(answer), original=original)
        return answer

    async def calls(
        self, step: Step, instruction: str, planned: Sequence[PlannedCall], rules: Rules, trace: HookTrace
    ) -> tuple[PlannedCall, ...]:
        """Return the calls as `before_tool` hooks let them be made. Raises ``HookFailedError``."""
        hooks = self.any_of("before_tool", step, instruction)
        return tuple([await self._call(step, instruction, hooks, call, rules, trace) for call in planned])

    async def _call(
        self, step: Step, instruction: str, hooks: Sequence[HookSpec], call: PlannedCall, rules: Rules, trace: HookTrace
    ) -> PlannedCall:
        for hook in hooks:
            if call.problem or call.args is None or call.spec is None:  # it is not made anyway
                break
            before = to_json({"tool": call.tool, "args": call.args}).decode()
            value = await self._run(hook, step, instruction, before)
            if value is None:
                continue
            verdict, original = from_json(value), clip(before, _ORIGINAL_BYTES)
            if "refused" in verdict:
                reason = verdict["refused"] or "no reason was given"
                trace.note(hook, call.tool, before, "", original=original, refused=reason)
                problem = f"refused by hook {hook.name}: {reason}"
                return replace(call, problem=problem, target="worker", agent=None, said="")
            call = planned_call(ToolCallDraft(call.tool, to_json(verdict["args"]).decode()), rules)
            after = to_json({"tool": call.tool, "args": verdict["args"]}).decode()
            trace.note(hook, call.tool, before, after, original=original)
        return call

    async def results(
        self, step: Step, results: KeptResults, instruction: str | None, limit: int, trace: HookTrace
    ) -> tuple[KeptResults, str]:
        """Return the results as `after_tool` hooks make them, and why one could not be made; '' if all could.

        A result whose hook has failed is withheld: its text says so. ``instruction``: that of the step; None: not
        known, so that the hooks of all instructions run. ``limit``: bytes of a result that prompts hold.
        """
        names = None if instruction is None else frozenset((instruction, step.task.instruction))
        hooks = self._catalog.of("after_tool", names)
        if not hooks or not results:
            return results, ""
        targets, made, problem = {call.id: call for call in step.task.open}, dict(results), ""
        for call, kept in results.items():
            known = targets.get(call)
            if known is None or known.target in _NOT_HOOKED:
                continue
            seen = self._seen.get(f"{step.keys.actor} {call}")
            if seen is None:
                ok = step.arrived.results[call].ok
                seen = await self._result(step, hooks, instruction or "", call, known.tool, kept, ok=ok, limit=limit)
                self._seen[f"{step.keys.actor} {call}"] = seen
                if len(self._seen) > _MAX_RESULTS:
                    self._seen.popitem(last=False)
            made[call] = seen[0]
            trace.values.extend(seen[1])
            problem = problem or seen[0].problem
        return made, problem

    async def _result(
        self,
        step: Step,
        hooks: Sequence[HookSpec],
        instruction: str,
        call: str,
        tool: str,
        kept: KeptResult,
        *,
        ok: bool,
        limit: int,
    ) -> tuple[KeptResult, tuple[HookedValue, ...]]:
        trace, text = HookTrace(), kept.whole
        for hook in hooks:
            given = to_json({"tool": tool, "tool_call_id": call, "ok": ok, "text": text}).decode()
            try:
                value = await self._run(hook, step, instruction, given)
            except HookFailedError as error:
                withheld = f"error: this result is withheld: {error}"
                return KeptResult(withheld, withheld, changed=True, problem=str(error)), ()
            if value is None:
                continue
            before, text = text, from_json(value)["text"]
            trace.note(hook, call, before, text)
        if text == kept.whole:
            return kept, ()
        return KeptResult(text, in_prompt(text, call, limit), changed=True), tuple(trace.values)

    def tell_end(self, writer: StepWriter, status: EndStatus, reason: str) -> None:
        """Queue the news of the task's end for the hooks that want it, in the commit that ends it."""
        task = writer.task
        for hook in self._catalog.of(TASK_ENDS, frozenset((task.instruction,))):
            subject = _task(task.goal, task.instruction, task.parent, status, reason, writer.answer)
            command = told_at_end(hook, _facts(task, task.instruction, task.step), subject, writer.clock())
            writer.tell_hook(command)

    async def _run(self, hook: HookSpec, step: Step, instruction: str, subject: str) -> str | None:
        facts = _facts(step.task, instruction, step.task.step + 1)
        return await self._calls.run(hook, step.keys.shard, facts, subject)


def _facts(task: Any, instruction: str, step: int) -> HookFacts:
    return HookFacts(
        tenant_id=task.tenant,
        user_id=task.user or None,
        session_id=task.session,
        task_id=task.task_id,
        instruction=instruction or task.instruction,
        step=step,
    )


def _task(goal: str, instruction: str, parent: str, status: str = "", reason: str = "", answer: str = "") -> str:
    told = {"goal": goal, "instruction": instruction, "parent_task_id": parent or None}
    more = {"status": status, "reason": reason, "answer": clip(answer, _ORIGINAL_BYTES)}
    return to_json(told | more).decode()


def _answer_json(answer: ModelAnswer) -> str:
    return to_json({"text": answer.text, "calls": [_call_of(draft) for draft in answer.tool_calls]}).decode()


def _call_of(draft: ToolCallDraft) -> Mapping[str, Any]:
    """Return a call as hooks are given it. Arguments that do not parse are none: the call is not made anyway."""
    return {"tool": draft.name, "args": parse_arguments(draft.arguments).args or {}}


def _drafts(calls: Sequence[Mapping[str, Any]], given: Sequence[ToolCallDraft]) -> tuple[ToolCallDraft, ...]:
    """Return the calls of an answer. Those that a hook left as they were keep the words of the model."""
    made, left = [], list(given)
    for call in calls:
        same = next((draft for draft in left if _call_of(draft) == call), None)
        if same is not None:
            left.remove(same)
        made.append(same or ToolCallDraft(call["tool"], to_json(call["args"]).decode()))
    return tuple(made)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
