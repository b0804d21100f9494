"""Asks a model what is known from a task: the `memory_archiver` instruction, whose answer must be JSON."""

from typing import Any

from pentad.contracts.instructions import Instruction
from pentad.shared.errors import MemoryOutageError
from pentad.shared.instructions.builtin import MEMORY_ARCHIVER
from pentad.shared.instructions.json_answers import UnusableAnswerError, ask_json
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import ModelFailed, ModelRefused, ModelUnavailable
from pentad.shared.presence.instruction_book import InstructionBook

_PATIENCE_S = 120.0
"""Nobody waits for it."""
_MOST_CHARS = 20_000
"""Of an answer that cannot be used, which is sent back."""
_MOST_BYTES = 1 << 17
"""Of an answer: more is kept with no task."""


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

        Raises ``MemoryOutageError`` while no model is to be had, ``UnusableAnswerError``, and ``ModelFailed`` for an
        answer that was cut off.
        """
        try:
            return await ask_json(
                self._pool,
                instruction,
                question,
                lambda value, model: (value, model),
                patience_s=_PATIENCE_S,
                most_chars=_MOST_CHARS,
                most_bytes=_MOST_BYTES,
                caller=caller,
            )
        except ModelFailed as error:
            raise _failure(error) from None


def _failure(error: ModelFailed) -> Exception:
    if isinstance(error, ModelUnavailable):
        return MemoryOutageError(f"nothing is learned from tasks: {error}")
    return UnusableAnswerError(str(error)) if isinstance(error, ModelRefused) else error
