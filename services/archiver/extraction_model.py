"""The model that is asked what is known from archived tasks: whether there is one, and what asking it may cost."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from pentad.contracts.instructions import Instruction
from pentad.shared import metrics
from pentad.shared.errors import MemoryOutageError
from pentad.shared.instructions.builtin import MEMORY_ARCHIVER
from pentad.shared.instructions.json_answers import UnusableAnswerError, ask_json
from pentad.shared.memory.extraction import NearNode
from pentad.shared.memory.extraction_budget import ExtractionBudget
from pentad.shared.memory.extraction_groups import extraction_question
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import (
    ModelCutOff,
    ModelFailed,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
    Usage,
)
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.segments.segment import Segment
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))

_PATIENCE_S = 120.0
"""Seconds that a model's answer may take: nobody waits for it."""
_MOST_REPAIR_CHARS = 20_000
"""Characters of an unusable answer that are sent back to the model."""
_MOST_ANSWER_BYTES = 1 << 17
"""Bytes of an answer; a larger one is not stored."""
_MOST_CALLS = 4
"""Calls of one process at once."""
_GROUP_REPAIRS = 1
"""Repairs of an answer about several tasks: they are asked about one by one when it stays unusable."""
_BYTES_PER_TOKEN = 3
"""Bytes of a question that are taken for a token before a call: fewer than models need on average, so that the estimate
is seldom too low."""
_ANSWER_TOKENS = 200
"""Tokens of an answer about one task that are expected before a call."""


class RefusedModelError(UnusableAnswerError):
    """The model refuses every request: tasks need not be asked about one by one."""


class ExtractionModel:
    """The model that the `memory_archiver` instruction names, or the default one."""

    def __init__(self, pool: ModelPool, book: InstructionBook, budget: ExtractionBudget) -> None:
        self._pool, self._book, self._budget = pool, book, budget
        self._places = asyncio.Semaphore(_MOST_CALLS)

    async def wanted(self) -> Instruction | None:
        """Return the instruction to ask with; None where only the offline model would answer, and without a budget."""
        instruction = (await self._book.known()).get(MEMORY_ARCHIVER.name, MEMORY_ARCHIVER)
        return instruction if self._pool.is_real(instruction.model) and not self._budget.is_empty else None

    async def ask(
        self, tenant: str, tasks: Sequence[Sequence[Segment]], near: Sequence[NearNode], caller: str
    ) -> tuple[Any, str] | None:
        """Return the value that the model answers about the segments of these tasks, and which model it was.

        None: no model is there, or the day's tokens are taken. Raises ``MemoryOutageError`` while no model is
        available, ``UnusableAnswerError``, ``OutageError``, and ``ModelFailed`` for an answer about one task that was
        cut off.
        """
        async with self._places:
            instruction = await self.wanted()
            if instruction is None:
                return None
            if len(tasks) > 1:
                repairs = min(_GROUP_REPAIRS, instruction.repairs)
                instruction = instruction.model_copy(update={"repairs": repairs})
            question = extraction_question(tasks, near)
            expected = _expected_tokens(instruction, question, len(tasks))
            reserved = await self._budget.reserve(tenant, expected, len(tasks))
            if reserved is None:
                metrics.extractions.labels("budget").inc(len(tasks))
                return None
            bill = _Bill()
            metrics.extraction_tasks.labels().observe(len(tasks))
            try:
                answer = await self._answer(instruction, question, caller, bill)
            except ModelCutOff:
                await self._budget.settle(reserved, bill.tokens + expected)
                raise
            except ModelFailed as error:
                await self._budget.settle(reserved, bill.tokens)
                raise _memory_error(error) from None
            except UnusableAnswerError:
                await self._budget.settle(reserved, bill.tokens)
                raise
            await self._budget.settle(reserved, bill.tokens)
            return answer

    async def _answer(self, instruction: Instruction, question: str, caller: str, bill: "_Bill") -> tuple[Any, str]:
        return await ask_json(
            self._pool,
            instruction,
            question,
            lambda value, model: (value, model),
            patience_s=_PATIENCE_S,
            most_chars=_MOST_REPAIR_CHARS,
            most_bytes=_MOST_ANSWER_BYTES,
            caller=caller,
            used=bill.add,
        )


class _Bill:
    """Adds up what the answers to one question have cost."""

    def __init__(self) -> None:
        self.tokens = 0

    def add(self, usage: Usage) -> None:
        self.tokens += usage.input_tokens + usage.output_tokens


def _expected_tokens(instruction: Instruction, question: str, tasks: int) -> int:
    asked = len(instruction.system_prompt.encode("utf-8", "replace")) + len(question.encode("utf-8", "replace"))
    return (asked + len(to_json(instruction.output_schema or {}))) // _BYTES_PER_TOKEN + _ANSWER_TOKENS * tasks


def _memory_error(error: ModelFailed) -> Exception:
    if isinstance(error, ModelUnavailable):
        return MemoryOutageError(f"nothing is learned from tasks: {error}")
    if isinstance(error, ModelMisconfigured):
        _say.warning("refused", "no model says what is known from tasks, the rule does: %s", error)
        return RefusedModelError(str(error))
    return UnusableAnswerError(str(error)) if isinstance(error, ModelRefused) else error
