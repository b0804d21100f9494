"""Asks a model how the graph is walked for a new task's recall: the `memory_retriever` instruction.

The rule decides where no model is there, where it is too slow, and where its answer cannot be used.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from pentad.contracts.instructions import Instruction
from pentad.shared.embedder.vectors import Requester
from pentad.shared.instructions.builtin import MEMORY_RETRIEVER
from pentad.shared.instructions.json_answers import UnusableAnswerError, ask_json
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.search import MemoryHit
from pentad.shared.memory.task_recall import RecallQuestion
from pentad.shared.memory.walk_choice import (
    ChosenWalk,
    WalkAnswer,
    answer_bytes,
    chosen_by_model,
    chosen_by_rule,
    kept_answer,
    nodes_shown,
    walk_answer,
    walk_question,
)
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import ModelFailed
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.store.store import Store

PATIENCE_S = 5.0
"""The person waits: a model that is slower does not decide."""
_AT_ONCE = 32
"""Tasks that wait for it in one process: half of the recalls that may be under way."""
_KEPT_S = 3_600
_MOST_CHARS = 2_000
"""Of an answer that cannot be used, and of why: both are sent back, and the latter is written down."""


class Retrieving:
    """Chooses walks. What the model has said is kept before it is used: a task that is begun anew asks nobody."""

    def __init__(self, store: Store, pool: ModelPool, book: InstructionBook, patience_s: float = PATIENCE_S) -> None:
        self._store, self._pool, self._book, self._patience_s = store, pool, book, patience_s
        self._waiting = 0

    async def chosen(self, asked: RecallQuestion, hits: Sequence[MemoryHit], requester: Requester) -> ChosenWalk:
        """The walk for these hits, the best of which come first. Nobody is asked where the rule walks from nothing."""
        ruled = chosen_by_rule(hits)
        instruction = (await self._book.known()).get(MEMORY_RETRIEVER.name, MEMORY_RETRIEVER)
        if ruled.choice is None or not self._pool.is_real(instruction.model):
            return ruled
        keys = TaskKeys(requester.shard, asked.owner.tenant, asked.task)
        answer = await self._answer(keys, instruction, asked.said, nodes_shown(hits))
        if isinstance(answer, str):
            return chosen_by_rule(hits, answer[:_MOST_CHARS])
        return chosen_by_model(answer, hits) or chosen_by_rule(hits, "what it wants to begin at is not found any more")

    async def _answer(
        self, keys: TaskKeys, instruction: Instruction, said: Sequence[str], shown: Sequence[MemoryHit]
    ) -> WalkAnswer | str:
        """What it has said for this task before, or what it says now; or why it says nothing."""
        kept = kept_answer(await self._store.call("GET", keys.walk) or b"")
        if kept is not None:
            return kept
        if self._waiting >= _AT_ONCE:
            return f"{self._waiting} tasks wait for it already"
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience_s):
                answer = await self._asked(keys, instruction, said, shown)
        except TimeoutError:
            return f"it has not answered within {self._patience_s:g} s"
        finally:
            self._waiting -= 1
        if isinstance(answer, str):
            return answer
        await self._store.call("SET", keys.walk, answer_bytes(answer), "EX", _KEPT_S)
        return answer

    async def _asked(
        self, keys: TaskKeys, instruction: Instruction, said: Sequence[str], shown: Sequence[MemoryHit]
    ) -> WalkAnswer | str:
        def read(value: Any, model: str) -> WalkAnswer:
            return walk_answer(value, shown)

        question = walk_question(said, shown)
        try:
            return await ask_json(
                self._pool,
                instruction,
                question,
                read,
                patience_s=self._patience_s,
                most_chars=_MOST_CHARS,
                caller=keys.actor,
            )
        except (ModelFailed, UnusableAnswerError) as error:
            return str(error)
