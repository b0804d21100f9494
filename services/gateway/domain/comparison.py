"""Compares two tasks step by step. Pure."""

from collections.abc import Sequence
from typing import Any

from pentad.contracts.comparisons import ComparedStep, Difference, StepSide, TaskComparison
from pentad.contracts.events import TaskUsage
from pentad.contracts.records import Task, TaskStep
from pentad.shared.actors.transcript import chat_form, is_note

MAX_SHOWN_STEPS = 200
"""Steps that an answer has of a comparison."""
_BEFORE = 5
"""Steps before the parting that are shown of tasks with more steps."""
_IDS = ("id", "tool_call_id")


def compared(step: int, a: TaskStep | None, b: TaskStep | None) -> ComparedStep:
    """Compare two steps of the same number, of which at least one is there."""
    if a is None or b is None:
        return ComparedStep(
            step=step, same_prompt=False, same_answer=False, differs=["missing"], a=_side(a), b=_side(b)
        )
    texts = _answer(a).get("content") == _answer(b).get("content")
    calls = _calls(a) == _calls(b)
    mine, other = a.manifest, b.manifest
    found: list[tuple[Difference, bool]] = [
        ("instruction", (a.instruction, a.instruction_version) != (b.instruction, b.instruction_version)),
        ("model", (a.model, a.model_id) != (b.model, b.model_id)),
        ("tools", (mine.tools, mine.tool_choice) != (other.tools, other.tool_choice)),
        ("system", (mine.today, mine.variables, mine.state) != (other.today, other.variables, other.state)),
        ("messages", _added(a) != _added(b)),
        ("answer", not texts),
        ("calls", not calls),
    ]
    return ComparedStep(
        step=step,
        same_prompt=mine.digest == other.digest,
        same_answer=texts and calls,
        differs=[name for name, differs in found if differs],
        a=_side(a),
        b=_side(b),
    )


def comparison(a: Task, b: Task, steps: Sequence[ComparedStep], *, more: bool) -> TaskComparison:
    """Return the comparison of two tasks. ``more``: there are further steps that were not compared."""
    alike = next((n for n, each in enumerate(steps) if each.differs), len(steps))
    first = max(0, alike - _BEFORE) if len(steps) > MAX_SHOWN_STEPS else 0
    return TaskComparison(
        a=a,
        b=b,
        same_steps=alike,
        parts_at=steps[alike].step if alike < len(steps) else None,
        differs=steps[alike].differs if alike < len(steps) else [],
        usage_a=_used([each.a for each in steps[alike:]]),
        usage_b=_used([each.b for each in steps[alike:]]),
        steps=list(steps[first : first + MAX_SHOWN_STEPS]),
        more=more or None,
    )


def _used(sides: Sequence[StepSide | None]) -> TaskUsage:
    used = TaskUsage()
    for side in sides:
        used = used if side is None else used.plus(side.usage)
    return used


def _side(step: TaskStep | None) -> StepSide | None:
    if step is None:
        return None
    return StepSide(
        at=step.at,
        model=step.model,
        model_id=step.model_id,
        instruction=step.instruction,
        digest=step.manifest.digest,
        finish_reason=step.finish_reason,
        calls=[name for name, _ in _calls(step)],
        usage=step.usage,
    )


def _answer(step: TaskStep) -> dict[str, Any]:
    """Return the answer of a step; {} for a step of a graph that has said nothing."""
    last = step.messages[-1] if step.messages else {}
    return last if last.get("role") == "assistant" and last.get("step") == step.step else {}


def _calls(step: TaskStep) -> list[tuple[str, str]]:
    """Return the calls of the answer: names and arguments, without their ids, which are different everywhere."""
    functions = [call.get("function") or {} for call in _answer(step).get("tool_calls") or ()]
    return [(str(each.get("name")), str(each.get("arguments"))) for each in functions]


def _added(step: TaskStep) -> list[bytes]:
    """Return the messages that the step has added to its prompt, and the answer of the step before."""
    said = step.messages[:-1] if _answer(step) else step.messages
    return [chat_form(_without_ids(each)) for each in said if not is_note(each)]


def _without_ids(message: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in message.items() if name not in _IDS}
    if calls := message.get("tool_calls"):
        kept["tool_calls"] = [{name: value for name, value in call.items() if name not in _IDS} for call in calls]
    return kept
