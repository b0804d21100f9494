"""Decides what a task asks next, by its instruction's way of working. Pure, beside `plan`.

`plan` says whether a task may go on at all (mail, limits, pauses, its end); a strategy says with what. The runner hands
it events and writes down the effect: it decides nothing itself. Another strategy is another class here.
"""

from collections.abc import Collection
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from pentad.contracts.instructions import DIRECT_CALL, Instruction
from pentad.services.task_runner.domain.after_answer import (
    CallFailed,
    CallTools,
    CheckedJson,
    Complete,
    Next,
    NothingSaid,
    Rules,
    after_answer,
    after_cut,
    planned_call,
)
from pentad.shared.actors.mail import CallRequest
from pentad.shared.immutable import immutable
from pentad.shared.models.ports import ModelAnswer, ToolCallDraft


@immutable
class TurnReady:
    """All that the task waited for has come: a message, or the results of its calls."""

    newest: bytes
    """Newest message of the transcript, as a model would be sent it."""
    ok: Collection[str] = frozenset()
    """Ids of the calls whose results have come, and are no failures."""


@immutable
class ModelAnswered:
    """The model has answered."""

    answer: ModelAnswer
    checked: CheckedJson | None = None
    """Check of an answer that `is_to_be_checked`."""


@immutable
class ModelCut:
    """A message has cut the model's answer short."""

    said: ModelAnswer


@immutable
class AskTheModel:
    """The model is asked with the transcript."""


@immutable
class KeepNothing:
    """The cost of an answer that was cut short is kept, and nothing else."""


Event = TurnReady | ModelAnswered | ModelCut
Effect = AskTheModel | Next | NothingSaid | KeepNothing


class Strategy(Protocol):
    """Says what a task does next. It has no state of its own: the same event of the same turn has the same effect."""

    asks_models: bool
    """Whether a model is asked. If not, the task may call every tool that there is, and no model is told of any."""

    def next(self, turn: Rules, event: Event) -> Effect:
        """The effect of this event. ``turn``: what the turn may still do."""


class Executor:
    """Asks the model; makes the calls that it asks for; asks it again with their results, until it only answers."""

    asks_models = True

    def next(self, turn: Rules, event: Event) -> Effect:
        if isinstance(event, TurnReady):
            return AskTheModel()
        if isinstance(event, ModelCut):
            return after_cut(event.said, turn) or KeepNothing()
        return after_answer(event.answer, turn, event.checked)


class ToolCaller:
    """Makes the one tool call that the message names, and ends the turn with its result. It asks no model."""

    asks_models = False

    def next(self, turn: Rules, event: Event) -> Effect:
        """The effect of this event. ``turn``: what the turn may still do."""
        if isinstance(event, ModelCut):
            return KeepNothing()
        if isinstance(event, ModelAnswered):  # a person has redriven the call
            return after_answer(event.answer, turn)
        newest = from_json(event.newest)
        if newest.get("role") == "tool":
            text = str(newest.get("content") or "")
            return Complete(text, turn.end_mode) if newest.get("tool_call_id") in event.ok else CallFailed(text)
        return _asked_call(newest.get("content"), turn)


def _asked_call(content: Any, turn: Rules) -> CallTools | CallFailed:
    """The call that a message names as JSON."""
    try:
        asked = CallRequest.model_validate_json(content or "")
    except ValidationError:
        form = '{"tool": NAME, "args": {...}}'
        return CallFailed(f"a message to the instruction {DIRECT_CALL} is JSON that names one call: {form}")
    draft = ToolCallDraft(asked.tool, to_json(asked.args).decode())
    return CallTools((planned_call(draft, turn),))


_EXECUTOR = Executor()
_TOOL_CALLER = ToolCaller()


def strategy_of(instruction: Instruction) -> Strategy:
    """How tasks of this instruction work."""
    return _TOOL_CALLER if instruction.name == DIRECT_CALL else _EXECUTOR
