"""A question to the model that is under way, and what its answer is written with."""

from dataclasses import field

from pentad.services.task_runner.answers import Asked
from pentad.services.task_runner.delta_writer import DeltaWriter
from pentad.services.task_runner.domain.after_answer import Rules
from pentad.services.task_runner.domain.strategy import Strategy
from pentad.services.task_runner.step import Step
from pentad.services.task_runner.step_writer import StepWriter
from pentad.shared.immutable import immutable
from pentad.shared.models.ports import ModelAnswer


@immutable
class ModelQuestion:
    """One question."""

    step: Step
    writer: StepWriter
    asked: Asked
    rules: Rules
    strategy: Strategy
    deltas: DeltaWriter
    cut: list[ModelAnswer] = field(default_factory=list)
    """What had been said when the call was cut."""

    @property
    def heeds_messages(self) -> bool:
        """Whether a message that comes meanwhile cuts the call."""
        return self.asked.chosen.instruction.on_message == "interrupt"


def rules_of(asked: Asked, writer: StepWriter, most_calls: int) -> Rules:
    """What is asked of the answer."""
    chosen = asked.chosen
    return Rules(
        tools=asked.toolbox.specs,
        may_call=asked.may_call,
        json=chosen.output is not None,
        repairs_left=chosen.instruction.repairs - writer.repairs,
        end_mode="fail" if writer.arrived.queues else "complete",
        steps=writer.turn.steps,
        most_calls=most_calls,
    )
