"""Asks a model an instruction's question: its answer must be JSON, and one that cannot be used is asked for again."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic_core import to_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.plain_json import read_json
from pentad.shared import metrics
from pentad.shared.instructions.output import Output, server_schema, with_schema
from pentad.shared.instructions.schema_check import WrongOutput
from pentad.shared.json_schema import WrongSchema
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import ChatRequest, ModelFailed, Usage

_MAX_ANSWER_BYTES = 131_072

T = TypeVar("T")


class UnusableAnswerError(Exception):
    """The model has answered, and its answer cannot be used. Asked again it would say the same."""


async def ask_json(
    pool: ModelPool,
    instruction: Instruction,
    question: str,
    read: Callable[[Any, str], T],
    *,
    patience_s: float,
    most_chars: int,
    most_bytes: int = _MAX_ANSWER_BYTES,
    caller: str = "",
    used: Callable[[Usage], None] = lambda _: None,
) -> T:
    """Return the result of ``read`` for the model's value and its id. ``read`` raises ``ValueError`` for a wrong value.

    ``most_chars`` bounds a wrong answer, and the text of its mistake, both of which are sent back. ``most_bytes``
    bounds an answer. ``used`` takes the usage of each answer, also of an unusable one. Raises ``ModelFailed`` and
    ``UnusableAnswerError``.
    """
    try:
        output = Output(instruction.output_schema or {})
    except WrongSchema as error:
        raise UnusableAnswerError(str(error)) from None
    unfilled = {name: f"{{{{{name}}}}}" for name in instruction.placeholders}  # no task asks, so they stay as they are
    prompt, told = instruction.filled(unfilled), server_schema(instruction.output_schema)
    lines = [_line("system", with_schema(prompt, instruction.output_schema))]
    lines.append(_line("user", question))
    problem = ""
    for _ in range(1 + instruction.repairs):
        request = ChatRequest(
            lines,
            None,
            patience_s,
            caller=caller,
            answer_schema=told,
            temperature=instruction.temperature,
            max_tokens=instruction.max_tokens,
        )
        answer = await pool.ask(instruction.model, request, lambda kind, text: None)
        if isinstance(answer, ModelFailed):
            raise answer.with_traceback(None)
        _count(instruction.name, answer.usage)
        used(answer.usage)
        try:
            if len(answer.text.encode("utf-8", "replace")) > most_bytes:
                raise WrongOutput(f"it has more than {most_bytes} bytes")
            return read(read_json(await output.read(answer.text)), answer.model)
        except WrongSchema as error:
            raise UnusableAnswerError(str(error)) from None
        except ValueError as error:
            problem = str(error)[:most_chars]
            lines += [_line("assistant", answer.text[:most_chars]), _line("user", f"This cannot be used: {problem}.")]
    raise UnusableAnswerError(f"its answers cannot be used: {problem}")


def _count(instruction: str, usage: Usage) -> None:
    metrics.internal_tokens.labels(instruction, "input").inc(usage.input_tokens)
    metrics.internal_tokens.labels(instruction, "output").inc(usage.output_tokens)
    metrics.internal_tokens.labels(instruction, "cached").inc(usage.cached_tokens)
    metrics.internal_usd.labels(instruction).inc(usage.usd)


def _line(role: str, content: str) -> bytes:
    return to_json({"role": role, "content": content.encode("utf-8", "replace").decode()})
