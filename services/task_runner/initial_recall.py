"""Recalls from long-term memory before the model calls of a task's first turn, or of each turn, and may ask a model how
to walk the graph for that.

The `memory_retriever` instruction is asked. Where there is no model, where it is too slow, or where its answer is
unusable, the rule chooses the walk.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from time import monotonic, perf_counter
from typing import Any

from pydantic_core import from_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.quotes import HEAD, quotes_in
from pentad.services.task_runner.domain.plan import AskModel, CallAgain
from pentad.services.task_runner.instructions import Chosen
from pentad.services.task_runner.step import Step
from pentad.shared import metrics
from pentad.shared.actors.leases import Held, StoppedWorkError
from pentad.shared.embedder.vectors import Requester
from pentad.shared.instructions.builtin import MEMORY_RETRIEVER
from pentad.shared.instructions.json_answers import UnusableAnswerError, ask_json
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.ranking import MemoryHit
from pentad.shared.memory.task_recall import RECALL_OFF, Recall, RecallQuestion, TaskRecall
from pentad.shared.memory.walk_choice import (
    ChosenWalk,
    WalkAnswer,
    answer_bytes,
    chosen_by_model,
    chosen_by_rule,
    kept_answer,
    leaves_a_choice,
    nodes_shown,
    walk_answer,
    walk_question,
)
from pentad.shared.models.circuit import Circuit
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import ModelFailed
from pentad.shared.owners import Owner
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.store.store import Store

_KEPT = 256
_FRESH_S = 30.0
"""Seconds for which a recall serves further attempts of a step whose model was unavailable."""


class InitialRecall:
    """Recalls before the first model call of a task. A task that is opened again has its transcript, and its tools,
    unless its instruction recalls for each turn.
    """

    def __init__(self, recalling: TaskRecall) -> None:
        self._recalling = recalling
        self._found: OrderedDict[tuple[str, int], tuple[float, Recall]] = OrderedDict()
        """Recalls by task and newest message, each with its time."""

    async def recalled(self, step: Step, held: Held, chosen: Chosen, planned: AskModel | CallAgain) -> Recall | None:
        """Recall for this step; None when it begins neither its task nor a turn for which memories are recalled, or
        was told to stop meanwhile.
        """
        mode = chosen.instruction.recall_mode
        if not step.arrived.users or isinstance(planned, CallAgain):
            return None
        if step.transcript.messages and not (mode == "turn" and _begins_turn(step, planned)):
            return None
        if not mode:
            return RECALL_OFF
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


def _begins_turn(step: Step, planned: AskModel) -> bool:
    """Return whether no calls are open: their results would have to come before anything else."""
    return not (step.task.open or step.arrived.results or planned.closed)


def question_of(step: Step) -> RecallQuestion:
    """The recall question of the messages that have come, for their session, and for their user if they have one."""
    mails = step.arrived.users
    users = {mail.message.user_id for mail in mails}
    return RecallQuestion(
        owner=Owner(step.keys.tenant, users.pop() if len(users) == 1 else None, step.task.session or None),
        said=[mail.message.content for mail in mails],
        known=[*(turn.content for mail in mails for turn in mail.context), *quoted_in(step.transcript.messages)],
        task=step.keys.task,
        now_ms=step.taken.lease.now,
    )


def quoted_in(messages: Sequence[bytes]) -> list[str]:
    """The texts that a transcript quotes from memory: they are not quoted again."""
    head = HEAD.encode()
    quotations = [from_json(raw)["content"] for raw in messages if head in raw]
    return [quote.text for text in quotations if isinstance(text, str) for quote in quotes_in(text)]


def _requester(step: Step) -> Requester:
    keys, message = step.keys, step.arrived.users[-1].message.message_id
    return Requester(keys.shard, keys.tenant, step.task.session, keys.task, message, step.taken.lease.wake_id)


PATIENCE_S = 1.5
"""Seconds that the model may take: the person waits, and a slower model does not decide. While it keeps being slower,
or failing, it is seldom asked."""
_MAX_WAITING = 32
"""Tasks of one process that may wait for the model: half of the recalls that may be under way."""
_KEPT_S = 3_600
_MOST_CHARS = 2_000
"""Characters of an unusable answer and of its problem that are sent back; the problem is recorded, too."""


class ModelWalkChooser:
    """Lets a model choose walks. Its answer is stored before it is used, so a task that is begun anew asks nobody."""

    def __init__(self, store: Store, pool: ModelPool, book: InstructionBook, patience_s: float = PATIENCE_S) -> None:
        self._store, self._pool, self._book, self._patience_s = store, pool, book, patience_s
        self._waiting = 0
        self._circuit = Circuit(monotonic())

    async def chosen(self, asked: RecallQuestion, hits: Sequence[MemoryHit], requester: Requester) -> ChosenWalk:
        """Choose the walk for these hits, the best first. No model is asked where the rule starts from all that is
        known, or from nothing: there is nothing to choose."""
        ruled = chosen_by_rule(hits)
        instruction = (await self._book.known()).get(MEMORY_RETRIEVER.name, MEMORY_RETRIEVER)
        if not leaves_a_choice(ruled.choice, hits) or not self._pool.is_real(instruction.model):
            return ruled
        keys = TaskKeys(requester.shard, asked.owner.tenant, asked.task)
        answer = await self._answer(keys, instruction, asked.said, nodes_shown(hits))
        if isinstance(answer, str):
            return chosen_by_rule(hits, answer[:_MOST_CHARS])
        return chosen_by_model(answer, hits) or chosen_by_rule(hits, "what it wants to begin at is not found any more")

    async def _answer(
        self, keys: TaskKeys, instruction: Instruction, said: Sequence[str], shown: Sequence[MemoryHit]
    ) -> WalkAnswer | str:
        """The model's stored answer about these messages of the task, or a new one; or the reason why there is none."""
        kept = kept_answer(await self._store.call("GET", keys.walk) or b"", said)
        if kept is not None:
            return kept
        if self._waiting >= _MAX_WAITING:
            return f"{self._waiting} tasks wait for it already"
        if not self._circuit.may_ask(monotonic()):
            return f"it is left alone for a while: {self._circuit.error}"
        self._waiting += 1
        try:
            answer = await self._sparing(keys, instruction, said, shown)
        finally:
            self._waiting -= 1
        if isinstance(answer, str):
            return answer
        await self._store.call("SET", keys.walk, answer_bytes(answer, said), "EX", _KEPT_S)
        return answer

    async def _sparing(
        self, keys: TaskKeys, instruction: Instruction, said: Sequence[str], shown: Sequence[MemoryHit]
    ) -> WalkAnswer | str:
        """Ask the model, and record in the circuit breaker whether it was worth waiting for."""
        probe = not self._circuit.closed
        if probe:
            self._circuit.probe()
        begun, outcome = perf_counter(), "failed"
        try:
            async with asyncio.timeout(self._patience_s):
                answer = await self._asked(keys, instruction, said, shown)
            outcome = "failed" if isinstance(answer, str) else "chosen"
        except TimeoutError:
            answer, outcome = f"it has not answered within {self._patience_s:g} s", "late"
        except BaseException:
            if probe:
                self._circuit.probe_given_up()
            raise
        metrics.retriever_seconds.labels(outcome).observe(perf_counter() - begun)
        if isinstance(answer, str):
            self._circuit.failed(monotonic(), answer[:_MOST_CHARS], probe=probe)
        else:
            self._circuit.answered(monotonic(), probe)
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
