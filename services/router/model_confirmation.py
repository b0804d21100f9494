"""Asks a model to which task a message belongs: the `router` instruction, whose answer must be JSON."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pentad.contracts.instructions import Instruction
from pentad.services.router.domain.model_verdict import (
    Verdict,
    begun_alone,
    candidates_of,
    confirmed,
    kept_verdict,
    question_text,
    verdict_bytes,
    verdict_of,
    without_model,
)
from pentad.services.router.domain.rules import Question, Route
from pentad.services.router.domain.similarity import is_sure
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.session_header import VERDICT
from pentad.shared.actors.sessions import last_turns
from pentad.shared.instructions.builtin import ROUTER
from pentad.shared.instructions.json_answers import UnusableAnswerError, ask_json
from pentad.shared.keys import SessionKeys
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.offline.intents import stands_alone
from pentad.shared.models.ports import ModelFailed
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.store.store import Store

_PATIENCE_S = 5.0
"""Seconds that a model may take: the person waits, and a slower model does not decide."""
_MAX_WAITING = 128
"""Messages that may wait for a model here: half of a router's places, so that other sessions go on meanwhile."""
_MOST_CHARS = 2_000
"""Characters of an unusable answer, and of what is wrong with it, that are sent back to the model."""
_TURNS = 40
"""Last turns of the session that are read; the model is shown those of the candidates."""


class RoutingModel:
    """Puts the question to the models of a pool."""

    def __init__(self, pool: ModelPool) -> None:
        self._pool = pool

    def is_real(self, instruction: Instruction) -> bool:
        """Whether another than the offline model would answer: the offline one cannot tell tasks apart."""
        return self._pool.is_real(instruction.model)

    async def ask(self, instruction: Instruction, question: str, tasks: Sequence[TaskHeader]) -> Verdict | str:
        """Ask the model; return its verdict, or the reason why there is no usable answer."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._asked(instruction, question, tasks)
        except TimeoutError:
            return f"it has not answered within {_PATIENCE_S:.0f} s"

    async def _asked(self, instruction: Instruction, question: str, tasks: Sequence[TaskHeader]) -> Verdict | str:
        def read(value: Any, model: str) -> Verdict:
            try:
                return verdict_of(value, tasks, model)
            except (KeyError, TypeError, OverflowError) as error:  # an instruction of one's own may ask less
                raise ValueError(str(error)) from None

        try:
            return await ask_json(
                self._pool, instruction, question, read, patience_s=_PATIENCE_S, most_chars=_MOST_CHARS
            )
        except (ModelFailed, UnusableAnswerError) as error:
            return str(error)


class ModelConfirmation:
    """Confirms unsure routes with the model that the `router` instruction names, or the default one.

    ``threshold``: the confidence that the model's verdict must have.
    """

    def __init__(self, store: Store, pool: ModelPool, book: InstructionBook, threshold: float) -> None:
        self._store, self._book, self._threshold = store, book, threshold
        self._model = RoutingModel(pool)
        self._waiting = 0

    async def weighed_for(self, question: Question, weighed: Route, content: str) -> Route:
        """The route by similarity, or a new task for what the offline model can answer without the ended task.

        Sums and questions for the time share no words by which they could be told apart. A real model begins with the
        talk of before in either case, and would answer a message that only seems to stand alone.
        """
        if weighed.decision != "reopen" or not stands_alone(content):
            return weighed
        instruction = (await self._book.known(question.instruction)).get(question.instruction)
        if instruction is None or self._model.is_real(instruction):
            return weighed
        return begun_alone(weighed)

    async def wanted(self, weighed: Route) -> Instruction | None:
        """The instruction to ask with; None when the route is sure, or only the offline model would answer."""
        if is_sure(weighed):
            return None
        instruction = (await self._book.known()).get(ROUTER.name, ROUTER)
        return instruction if self._model.is_real(instruction) else None

    async def confirmed(
        self,
        keys: SessionKeys,
        content: str,
        entry_id: str,
        question: Question,
        weighed: Route,
    ) -> Route:
        """Ask a model about a route that is not sure. Its verdict is stored before it is used."""
        instruction = await self.wanted(weighed)
        if instruction is None:
            return weighed
        tasks = candidates_of(question, weighed)
        verdict = await self._verdict(keys, content, entry_id, instruction, tasks)
        if isinstance(verdict, str):
            return without_model(weighed, verdict)
        return confirmed(question, weighed, verdict, self._threshold)

    async def _verdict(
        self, keys: SessionKeys, content: str, entry_id: str, instruction: Instruction, tasks: Sequence[TaskHeader]
    ) -> Verdict | str:
        """The model's stored verdict on this message, or a new one; or the reason why there is none."""
        kept = kept_verdict(await self._store.call("HGET", keys.header, VERDICT) or b"", entry_id, tasks)
        if kept is not None:
            return kept
        if self._waiting >= _MAX_WAITING:
            return f"{self._waiting} messages wait for it already"
        turns = await last_turns(self._store, keys, _TURNS)
        self._waiting += 1
        try:
            verdict = await self._model.ask(instruction, question_text(content, tasks, turns), tasks)
        finally:
            self._waiting -= 1
        if isinstance(verdict, Verdict):
            await self._store.call("HSET", keys.header, VERDICT, verdict_bytes(verdict, entry_id))
        return verdict
