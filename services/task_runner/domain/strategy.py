"""Decides what a task asks next, by its instruction's way of working. Pure, beside `plan`.

`plan` says whether a task may go on at all (mail, limits, pauses, its end); a strategy says with what. The runner hands
it events and writes down the effect: it decides nothing itself. Another strategy is another class here.
"""

from typing import Protocol

from pentad.contracts.instructions import Instruction
from pentad.services.task_runner.domain.after_answer import (
    CheckedJson,
    Next,
    NothingSaid,
    Rules,
    after_answer,
    after_cut,
)
from pentad.shared.immutable import immutable
from pentad.shared.models.ports import ModelAnswer


@immutable
class TurnReady:
    """All that the task waited for has come: a message, or the results of its calls."""


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

    def next(self, turn: Rules, event: Event) -> Effect:
        """The effect of this event. ``turn``: what the turn may still do."""


class Executor:
    """Asks the model; makes the calls that it asks for; asks it again with their results, until it only answers."""

    def next(self, turn: Rules, event: Event) -> Effect:
        if isinstance(event, TurnReady):
            return AskTheModel()
        if isinstance(event, ModelCut):
            return after_cut(event.said, turn) or KeepNothing()
        return after_answer(event.answer, turn, event.checked)


_EXECUTOR = Executor()


def strategy_of(instruction: Instruction) -> Strategy:
    """How tasks of this instruction work: today all of them as `Executor` does."""
    return _EXECUTOR
