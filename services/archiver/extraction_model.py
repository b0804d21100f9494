"""Asks a model what is known from a task: the `memory_archiver` instruction, whose answer must be JSON."""

from typing import Any

from pydantic_core import to_json

from pentad.contracts.instructions import Instruction
from pentad.shared.errors import MemoryOutageError
from pentad.shared.instructions.builtin import MEMORY_ARCHIVER
from pentad.shared.instructions.output import Output, WrongOutput, WrongSchema, with_schema
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import ChatRequest, ModelFailed, ModelRefused, ModelUnavailable
from pentad.shared.presence.instruction_book import InstructionBook

_PATIENCE_S = 120.0
"""Nobody waits for it."""
_MOST_CHARS = 20_000
"""Of an answer that cannot be used, which is sent back."""
_MOST_BYTES = 1 << 17
"""Of an answer: more is kept with no task."""


class UnusableError(Exception):
    """The model has answered, and nothing can be made of it. Asked again it would say the same."""


class ExtractionModel:
    """The model that the `memory_archiver` instruction names, or the default one."""

    def __init__(self, pool: ModelPool, book: InstructionBook) -> None:
        self._pool, self._book = pool, book

    async def wanted(self) -> Instruction | None:
        """What a model is asked with; None while only the offline model would answer."""
        instruction = (await self._book.known()).get(MEMORY_ARCHIVER.name, MEMORY_ARCHIVER)
        return instruction if self._pool.is_real(instruction.model) else None

    async def ask(self, instruction: Instruction, question: str, caller: str) -> tuple[Any, str]:
        """The value that the model says, and which one it was.

        Raises ``MemoryOutageError`` while no model is to be had, ``UnusableError``, and ``ModelFailed`` for an answer
        that was cut off.
        """
        output = _output(instruction)
        system = with_schema(instruction.system_prompt, instruction.output_schema)
        said = [_line("system", system), _line("user", question)]
        problem = ""
        for _ in range(1 + instruction.repairs):
            request = ChatRequest(said, None, _PATIENCE_S, caller=caller)
            answer = await self._pool.ask(instruction.model, request, lambda kind, text: None)
            if isinstance(answer, ModelFailed):
                raise _failure(answer)
            try:
                if len(answer.text.encode("utf-8", "replace")) > _MOST_BYTES:
                    raise WrongOutput(f"it has more than {_MOST_BYTES} bytes")
                return output.read(answer.text), answer.model
            except WrongOutput as error:
                problem = str(error)
                said += [
                    _line("assistant", answer.text[:_MOST_CHARS]),
                    _line("user", f"This cannot be used: {problem}."),
                ]
        raise UnusableError(problem)


def _output(instruction: Instruction) -> Output:
    try:
        return Output(instruction.output_schema or {})
    except WrongSchema as error:
        raise UnusableError(str(error)) from None


def _failure(error: ModelFailed) -> Exception:
    if isinstance(error, ModelUnavailable):
        return MemoryOutageError(f"nothing is learned from tasks: {error}")
    return UnusableError(str(error)) if isinstance(error, ModelRefused) else error


def _line(role: str, content: str) -> bytes:
    return to_json({"role": role, "content": content.encode("utf-8", "replace").decode()})
