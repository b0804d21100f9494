"""Asks a model how the graph is walked for a new task's recall: the `memory_retriever` instruction.

The rule decides where no model is there, where it is too slow, and where its answer cannot be used.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from time import monotonic
from typing import Any

from pentad.contracts.instructions import Instruction
from pentad.services.task_runner.domain.plan import AskModel, CallAgain
from pentad.services.task_runner.instructions import Chosen
from pentad.services.task_runner.step import Step
from pentad.shared.actors.leases import Held, StoppedWorkError
from pentad.shared.embedder.vectors import Requester
from pentad.shared.instructions.builtin import MEMORY_RETRIEVER
from pentad.shared.instructions.json_answers import UnusableAnswerError, ask_json
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.recalling import OFF, Recall, Recalling, RecallQuestion
from pentad.shared.memory.searching import MemoryHit
from pentad.shared.memory.walk_choice import ChosenWalk, chosen_by_rule
from pentad.shared.memory.walk_question import (
    WalkAnswer,
    answer_bytes,
    chosen_by_model,
    kept_answer,
    nodes_shown,
    walk_answer,
    walk_question,
)
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import ModelFailed
from pentad.shared.owners import Owner
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.store.store import Store

_KEPT = 256
_FRESH_S = 30.0
"""How long what was recalled serves further attempts, where the model could not be had."""


class InitialRecall:
    """Recalls before the first model call of a task. A task that is opened again has its transcript, and its tools."""

    def __init__(self, recalling: Recalling) -> None:
        self._recalling = recalling
        self._found: OrderedDict[tuple[str, int], tuple[float, Recall]] = OrderedDict()
        """By task and its newest message: when, and what."""

    async def recalled(self, step: Step, held: Held, chosen: Chosen, planned: AskModel | CallAgain) -> Recall | None:
        """What this step is to begin with. None: it is not its task's beginning, or was told to stop meanwhile."""
        if step.transcript.messages or not step.arrived.users or isinstance(planned, CallAgain):
            return None
        if not chosen.instruction.recalls:
            return OFF
        key = step.keys.header, step.arrived.user_number
        at, found = self._found.get(key, (float("-inf"), None))
        if found is not None and monotonic() - at < _FRESH_S:
            return found
        return self._recalling.at_once(step.keys.tenant) or self._kept(key, await self._asked(step, held))

    def _kept(self, key: tuple[str, int], found: Recall | None) -> Recall | None:
        if found is not None and found.text:
            self._found[key] = monotonic(), found
            if len(self._found) > _KEPT:
                self._found.popitem(last=False)
        return found

    async def _asked(self, step: Step, held: Held) -> Recall | None:
        try:
            return await held.run(self._recalling.recall(question_of(step), _requester(step)))
        except StoppedWorkError:
            return None


def question_of(step: Step) -> RecallQuestion:
    """What the messages that a task begins with ask of memory, for their session, and their user if they have one."""
    mails = step.arrived.users
    users = {mail.message.user_id for mail in mails}
    return RecallQuestion(
        owner=Owner(step.keys.tenant, users.pop() if len(users) == 1 else None, step.task.session or None),
        said=[mail.message.content for mail in mails],
        known=[turn.content for mail in mails for turn in mail.context],
        task=step.keys.task,
        now_ms=step.taken.lease.now,
    )


def _requester(step: Step) -> Requester:
    keys, message = step.keys, step.arrived.users[-1].message.message_id
    return Requester(keys.shard, keys.tenant, step.task.session, keys.task, message, step.taken.lease.wake_id)


PATIENCE_S = 5.0
"""The person waits: a model that is slower does not decide."""
_AT_ONCE = 32
"""Tasks that wait for it in one process: half of the recalls that may be under way."""
_KEPT_S = 3_600
_MOST_CHARS = 2_000
"""Of an answer that cannot be used, and of why: both are sent back, and the latter is written down."""


class ModelWalkChooser:
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
