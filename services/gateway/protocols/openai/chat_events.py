"""The answer to a turn of a chat: as server-sent events while it is made, or whole."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.protocols.openai.chat_chunks import ChatForm
from pentad.services.gateway.protocols.openai.chat_turns import ChatTurn, ChatTurns, failure_of
from pentad.services.gateway.protocols.openai.errors import error_body
from pentad.services.gateway.protocols.openai.turn_text import ClientCall, GrowingText, ThoughtPiece
from pentad.services.gateway.tasks.event_stream import ALIVE

DONE = b"data: [DONE]\n\n"
"""End of a stream."""


def told_of(turn: ChatTurn) -> GrowingText:
    """Return the text of a turn before its first event. JSON is told whole: what was void would spoil it."""
    told = GrowingText(turn.tracker, whole=turn.asked.schema is not None)
    if turn.goes_on is not None:
        told.task, told.first_step = turn.goes_on.task, turn.goes_on.steps + 1
    return told


class ChatEvents:
    """The chunks of a turn. Closing them before the end is to stop the turn, unless the gateway stops."""

    def __init__(self, turns: ChatTurns, turn: ChatTurn, form: ChatForm) -> None:
        self._turns, self._turn, self._form, self._told = turns, turn, form, told_of(turn)
        self._is_over = False

    def close(self) -> None:
        """Close the subscription, and cancel the turn if its client has left before the end."""
        self._turn.stream.close()
        if not self._is_over and not self._turns.closing.is_set():
            self._turns.leave(self._turn, self._told)
        self._is_over = True

    async def blocks(self) -> AsyncIterator[bytes]:
        """Return the chunks until the turn ends."""
        yield block(self._form.begin())
        try:
            async for pieces in self._turns.follow(self._turn, self._told):
                await self._keep_end()
                yield b"".join(block(self._form.chunk(piece)) for piece in pieces) or ALIVE
            await self._keep_end()
        except ProblemError as problem:
            self._is_over = True  # the turn goes on: the same request again follows it
            yield refused(problem)
            return
        if (failure := failure_of(self._told.end)) is not None:
            yield refused(failure)
            return
        yield block(self._form.end(self._told))
        if self._turn.asked.wants_usage:
            yield block(self._form.usage(await self._turns.used(self._turn, self._told)))
        yield DONE
        await self._turns.delivered(self._turn)

    async def _keep_end(self) -> None:
        """Keep the end of the turn before it is told: a client may leave as soon as it has a call of its tool."""
        if self._told.end is not None and not self._is_over:
            self._is_over = True
            await self._turns.keep(self._turn, self._told)


async def whole_answer(turns: ChatTurns, turn: ChatTurn, form: ChatForm) -> dict[str, Any]:
    """Return the answer once the turn has ended. Raises ``ProblemError`` for a turn without one."""
    told, thoughts, calls = told_of(turn), list[str](), list[ClientCall]()
    async for pieces in turns.follow(turn, told):
        thoughts += thoughts_in(pieces)
        calls += [piece for piece in pieces if isinstance(piece, ClientCall)]
    await turns.keep(turn, told)
    if (failure := failure_of(told.end)) is not None:
        raise failure
    return form.whole(told, calls, "".join(thoughts), await turns.used(turn, told))


def thoughts_in(pieces: Sequence[Any]) -> list[str]:
    """Return the texts of the thoughts among these pieces."""
    return [piece.text for piece in pieces if isinstance(piece, ThoughtPiece)]


def block(data: Mapping[str, Any]) -> bytes:
    """Return a server-sent event without a name, as OpenAI's chunks are."""
    return b"data: %b\n\n" % to_json(data)


def refused(problem: ProblemError) -> bytes:
    """Return the event that ends a stream with an error."""
    return block(error_body(problem.detail, problem.status))
