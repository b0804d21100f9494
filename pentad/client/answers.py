"""Answers that are more than a text: instances of a caller's model, and answers with the steps that led to them."""

from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from pentad.client.inspection import Inspection
from pentad.contracts.events import TaskUsage
from pentad.contracts.records import TaskStep
from pentad.errors import Refused, WrongAnswer

T = TypeVar("T")
_MAX_PROBLEM_CHARS = 500
"""Characters of a message about a wrong answer."""


@dataclass(frozen=True, slots=True)
class Traced(Generic[T]):
    """An answer, and the steps that its turn took."""

    value: T
    """The answer: what the same call gives without ``trace``."""
    session_id: str
    task_id: str | None
    """Task that answered; None where no task did."""
    trace: list[TaskStep]
    """Steps of the turn, the first one first: messages, tool calls with results, times, usage, model."""

    @property
    def steps(self) -> int:
        """Number of steps that the turn took."""
        return len(self.trace)

    @property
    def usage(self) -> TaskUsage:
        """Tokens and dollars of these steps."""
        return reduce(TaskUsage.plus, (step.usage for step in self.trace), TaskUsage())


async def trace_of(
    inspection: Inspection, task_id: str | None, message_id: str, last_step: int | None
) -> list[TaskStep]:
    """Return the steps of a message's turn: from the one that first had the message up to ``last_step``.

    ``last_step``: the number of the task's last step when the turn ended; None: all that there are now.
    """
    if task_id is None:
        return []
    steps = await inspection.steps(task_id, limit=None)
    first = next((number for number, step in enumerate(steps) if _has(step, message_id)), len(steps))
    return [step for step in steps[first:] if last_step is None or step.step <= last_step]


def _has(step: TaskStep, message_id: str) -> bool:
    return any(message.get("message_id") == message_id and "origin" not in message for message in step.messages)


def schema_of(output: type[Any]) -> dict[str, Any]:
    """Return the JSON schema of an output. Raises ``Refused`` for a type that has none."""
    try:
        return TypeAdapter(output).json_schema()
    except PydanticUserError as error:
        raise Refused(f"output={output!r} has no JSON schema: {error.message.splitlines()[0]}") from None


def instance_of(output: type[T], answer: Any, *, is_json: bool) -> T:
    """Return an answer as an instance of ``output``, its defaults filled. Raises ``WrongAnswer``.

    ``is_json``: the answer is a JSON text, not the value that one says.
    """
    adapter = TypeAdapter(output)
    try:
        return adapter.validate_json(answer) if is_json else adapter.validate_python(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        problem = f"{where}: {first['msg']}" if where else first["msg"]
        raise WrongAnswer(problem[:_MAX_PROBLEM_CHARS], answer) from None
