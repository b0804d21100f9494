"""Two tasks beside each other, step by step."""

from typing import Literal

from pydantic import Field

from pentad.contracts.envelope import Contract
from pentad.contracts.events import TaskUsage
from pentad.contracts.records import Task

Difference = Literal["instruction", "model", "tools", "system", "messages", "answer", "calls", "missing"]
"""A part in which two steps differ. ``system``: what the system prompt names, such as the day. ``messages``: what the
step has added to the prompt. ``missing``: one of the two tasks has no such step."""


class StepSide(Contract):
    """A step of one of two tasks that are compared."""

    at: str
    model: str
    model_id: str | None = None
    instruction: str
    digest: str
    """Digest of the whole prompt."""
    finish_reason: str
    calls: list[str] = Field(default_factory=list)
    """Names of the tools that the answer has called."""
    usage: TaskUsage


class ComparedStep(Contract):
    """The steps of the same number of two tasks."""

    step: int
    same_prompt: bool
    """Whether both asked the same, from the first message on, byte for byte."""
    same_answer: bool
    """Whether both answers have the same text and call the same tools with the same arguments."""
    differs: list[Difference] = Field(default_factory=list)
    a: StepSide | None = None
    b: StepSide | None = None


class TaskComparison(Contract):
    """Two tasks, and where they part."""

    a: Task
    b: Task
    same_steps: int
    """Number of steps, from the first one on, that ask and answer the same."""
    parts_at: int | None = None
    """Number of the first step that differs; absent: none does."""
    differs: list[Difference] = Field(default_factory=list)
    """Differences of that step."""
    usage_a: TaskUsage
    """Usage of the steps of the first task from that step on."""
    usage_b: TaskUsage
    steps: list[ComparedStep]
    """Steps in order: those around the parting, if the tasks have more of them than an answer may have."""
    more: bool | None = None
    """Whether further steps were not compared; absent: all were."""
