"""Decides what a task asks next, by its instruction's way of working. Pure, beside `plan`.

`plan` says whether a task may go on at all (mail, limits, pauses, its end); a strategy says with what. The runner hands
it events and writes down the effect: it decides nothing itself. Another strategy is another class here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from pentad.contracts.errors import ErrorCode
from pentad.contracts.graphs import Runnable
from pentad.contracts.instructions import DIRECT_CALL, Instruction
from pentad.contracts.records import NodeEntry
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
from pentad.shared.actors.mail import CallRequest, ChildOutcome
from pentad.shared.immutable import immutable
from pentad.shared.models.ports import ModelAnswer, ToolCallDraft


@immutable
class ChildTask:
    """A task that another starts: a node of its graph, or a model that calls an agent."""

    index: int
    """Number of the branch or item, from 0 on."""
    name: str
    """Key of the branch or of the item's node, name of the graph, or name of the agent's tool."""
    runs: Runnable
    """Instruction or graph that it runs."""
    entry: str = ""
    """Key of the node of its graph with which it begins."""
    until: str = ""
    """Key of the node before which it ends; '' for none."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """State with which it begins."""
    said: str | None = None
    """Text that it works on, after the conversation of its parent; None: the conversation alone."""


@immutable
class EndedCall:
    """A call of the task that has ended."""

    id: str
    ok: bool
    text: str
    """The result, or the reason of the failure, as a model would be told it."""
    child: ChildOutcome | None = None
    """Further outcome of a task that the call has started."""


@immutable
class TurnReady:
    """All that the task waited for has come: a message, or the results of its calls."""

    newest: bytes
    """Newest message of the transcript, as a model would be sent it."""
    ended: Sequence[EndedCall] = ()
    """Calls that have ended since the step before, in their order."""
    said: str = ""
    """Text of the messages that have come."""
    now: int = 0
    """Time in ms of the server's clock."""


@immutable
class ModelAnswered:
    """The model has answered."""

    answer: ModelAnswer
    checked: CheckedJson | None = None
    """Check of an answer that `is_to_be_checked`."""
    malformed: str = ""
    """Reason why the answer is not of the text protocol; '' if it is, or need not be."""
    now: int = 0
    """Time in ms of the server's clock."""


@immutable
class ModelCut:
    """A message has cut the model's answer short."""

    said: ModelAnswer


@immutable
class ModelGaveUp:
    """The model has no answer, and is not asked again."""

    code: ErrorCode
    problem: str
    now: int = 0
    """Time in ms of the server's clock."""


@immutable
class AskTheModel:
    """The model is asked with the transcript."""


@immutable
class KeepNothing:
    """The cost of an answer that was cut short is kept, and nothing else."""


@immutable
class GoOn:
    """The task goes on at once, without waiting for anybody."""

    text: str = ""
    """Text of the node that has ended; '' where there is none to be told."""
    delay_ms: int = 0
    """Time for which it waits first."""
    result: str | None = None
    """Results of the tasks that the node has started, for the models of later nodes."""


@immutable
class StartChildren:
    """The task waits for tasks that it starts, and for those that it has started already."""

    children: tuple[ChildTask, ...]
    at_once: int = 1
    """Number of such tasks that are under way at the same time, which share the rest of the budget."""


@immutable
class FailRun:
    """The turn has no answer, and the task fails."""

    code: ErrorCode
    problem: str


@immutable
class Noted:
    """Entries about the run of a graph are kept, and then the task does this."""

    entries: tuple[NodeEntry, ...]
    then: Next | GoOn | StartChildren | FailRun
    outcome: ChildOutcome | None = None
    """Further outcome of a task that ends with this and that another has started."""


Event = TurnReady | ModelAnswered | ModelCut | ModelGaveUp
Effect = AskTheModel | Next | NothingSaid | KeepNothing | GoOn | StartChildren | FailRun | Noted


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
        if isinstance(event, ModelGaveUp):
            return FailRun(event.code, event.problem)
        return after_answer(event.answer, turn, event.checked, event.malformed)


class ToolCaller:
    """Makes the one tool call that the message names, and ends the turn with its result. It asks no model."""

    asks_models = False

    def next(self, turn: Rules, event: Event) -> Effect:
        """The effect of this event. ``turn``: what the turn may still do."""
        if isinstance(event, ModelCut):
            return KeepNothing()
        if isinstance(event, ModelGaveUp):
            return FailRun(event.code, event.problem)
        if isinstance(event, ModelAnswered):  # a person has redriven the call
            return after_answer(event.answer, turn)
        newest = from_json(event.newest)
        if newest.get("role") == "tool":
            text = str(newest.get("content") or "")
            ok = [call.id for call in event.ended if call.ok]
            return Complete(text, turn.end_mode) if newest.get("tool_call_id") in ok else CallFailed(text)
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
