"""Finds when a conversation is too long for its prompt, and what of it is to be shortened."""

from collections.abc import Callable, Sequence

from pydantic_core import to_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.records import Compaction
from pentad.contracts.tools import MEMORY_EXPAND
from pentad.services.task_runner.answer_writer import Asked, ModelQuestion
from pentad.services.task_runner.domain.compaction import KEPT_SHARE, Costed, older_part, oldest_that_fit
from pentad.services.task_runner.instructions import Chosen, TaskInstructions
from pentad.services.task_runner.prompt import KnownTranscript
from pentad.shared.actors.compaction import Placed, is_summary, left_out_text, summary_text
from pentad.shared.immutable import immutable
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.token_counter import TokenCounter

_ANSWER_PART = 8
"""Part of a window that is kept free for an answer whose length nobody limits: one of so many."""


@immutable
class TooLong:
    """A part of a conversation that prompts are to have in short."""

    items: Sequence[Placed]
    """Messages of the part, as prompts have them."""
    opens: bool
    """Whether the model may open a message by its number."""
    system: bytes
    conversation: Sequence[Placed]
    """All messages of the prompt behind the system message."""
    count: Callable[[Sequence[bytes]], int]
    """Counts the tokens of a prompt."""
    summarizer: Chosen | None = None
    """Instruction that summarises the part; None: it is left out without a summary."""

    @property
    def positions(self) -> list[int]:
        """Positions of these messages, ascending."""
        return sorted(position for position, _ in self.items)

    def made(self, summary: str) -> Compaction:
        """Return what prompts have instead. ``summary``: '' for none."""
        if summary.strip():
            content = summary_text(self.items, summary, opens=self.opens)
        else:
            content = left_out_text(self.items, opens=self.opens)
        gone = {position for position, _ in self.items}
        kept = [line for position, line in self.conversation if position not in gone]
        return Compaction(
            positions=self.positions,
            content=content,
            tokens_before=self.count([self.system, *(line for _, line in self.conversation)]),
            tokens_after=self.count([self.system, *kept, to_json({"role": "user", "content": content})]),
        )


class Compacting:
    """Says of a question to a model whether its conversation is to be shortened first. ``share``: of a window, that a
    prompt may have; 0: no window limits it.
    """

    def __init__(self, models: ModelPool, instructions: TaskInstructions, share: float) -> None:
        self._models, self._instructions, self._share = models, instructions, share

    async def due(self, asking: ModelQuestion) -> TooLong | None:
        """Return what of this question's conversation is too long; None if it fits, or nothing can be shortened."""
        asked = asking.asked
        instruction = asked.chosen.instruction
        window = self._models.window(instruction.model) if self._share else None
        if window is None and instruction.max_messages is None:
            return None
        writer = asking.writer
        known = (
            asking.step.transcript.grown(writer.added, b"", writer.pinned) if writer.added else asking.step.transcript
        )
        if window is not None:
            found = await self._past_window(window, asked, known)
            if found is not None:
                return found
        return self._past_number(asked, known)

    async def _past_window(self, window: int, asked: Asked, known: KnownTranscript) -> TooLong | None:
        instruction = asked.chosen.instruction
        counter, tools = self._models.counter(instruction.model), asked.toolbox.json
        placed = known.placed
        limit = _limit(window, self._share, instruction)
        if counter.count([asked.system, *(line for _, line in placed)], tools) <= limit:
            return None
        room = limit - counter.count([asked.system], tools)
        conversation = _costed(placed, counter)
        older = older_part(conversation, round(max(0, room) * KEPT_SHARE), known.pinned, _notes(known))
        if not older:
            return None
        summarizer = await self._instructions.summarizer()
        most = self._readable(summarizer, instruction)
        part = oldest_that_fit(older, most) if most is not None else [each for unit in older for each in unit]
        items = [each.placed for each in part or older[0]]
        with_summary = summarizer if part else None
        return TooLong(items, _opens(asked), asked.system, placed, lambda p: counter.count(p, tools), with_summary)

    def _readable(self, summarizer: Chosen, instruction: Instruction) -> int | None:
        """Return the tokens of messages that the model which summarises can read; None: no limit is known."""
        model = summarizer.instruction.model or instruction.model
        window = self._models.window(model)
        if window is None:
            return None
        fixed = self._models.counter(model).count([summarizer.instruction.system_prompt.encode()])
        return _limit(window, self._share, summarizer.instruction) - fixed

    def _past_number(self, asked: Asked, known: KnownTranscript) -> TooLong | None:
        instruction = asked.chosen.instruction
        most = instruction.max_messages
        placed = known.placed
        if most is None or len(placed) <= most:
            return None
        notes = _notes(known)
        summaries = {position for position, line in placed if position in notes and is_summary(line)}
        conversation = [Costed(position, line, 1) for position, line in placed]
        older = older_part(conversation, most // 2, known.pinned | summaries, notes)
        if not older:
            return None
        counter, tools = self._models.counter(instruction.model), asked.toolbox.json
        items = [each.placed for unit in older for each in unit]
        return TooLong(items, _opens(asked), asked.system, placed, lambda p: counter.count(p, tools))


def _limit(window: int, share: float, instruction: Instruction) -> int:
    """Return the tokens that a prompt may have: a share of the window, which leaves room for the answer."""
    answer = instruction.max_tokens or window // _ANSWER_PART
    return min(round(window * share), max(window // 2, window - answer))


def _costed(conversation: Sequence[Placed], counter: TokenCounter) -> list[Costed]:
    nothing = counter.count([])
    return [Costed(position, line, counter.count([line]) - nothing) for position, line in conversation]


def _notes(known: KnownTranscript) -> frozenset[int]:
    return frozenset(each.at for each in known.replacements if each.messages)


def _opens(asked: Asked) -> bool:
    """Whether the model is offered the tool that opens a message by its number, now or once there is a note."""
    return MEMORY_EXPAND in asked.toolbox.specs or bool(asked.chosen.instruction.tools)
