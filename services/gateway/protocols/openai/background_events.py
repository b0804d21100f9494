"""The stream of a response in the background: its client may leave, and take it up again behind any of its events."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from pydantic_core import to_json

from pentad.services.gateway.edge.problems import ProblemError, invalid
from pentad.services.gateway.protocols.openai.chat_chunks import Out
from pentad.services.gateway.protocols.openai.chat_turns import (
    ChatTurn,
    ChatTurns,
    TurnInBackground,
    failure_of,
    text_of,
)
from pentad.services.gateway.protocols.openai.responses_items import (
    ATTEMPT_STEP,
    EVENT_STEP,
    ResponseForm,
    ResponseItems,
    response_id,
)
from pentad.services.gateway.protocols.openai.turn_text import RESTARTED
from pentad.services.gateway.tasks.event_stream import ALIVE

_MAX_NUMBER = (1 << 53) - 1
"""Highest number that JavaScript has exactly."""
_DELTA = "response.output_text.delta"


@dataclass
class EventsBehind:
    """The events that a client lacks which has those up to a number; -1: it has none."""

    number: int = -1

    def of(self, events: Iterable[Out]) -> list[Out]:
        """Return what the client lacks of the next events. A text may be cut otherwise than it was before."""
        made = list[Out]()
        for event in events:
            if event["sequence_number"] > self.number:
                made.append(_rest_of(event, self.number))
                self.number = event["sequence_number"]
        return made

    def last(self, event: Out) -> Out:
        """Return the last event, which has the whole response and so is told in any case."""
        return event | {"sequence_number": max(event["sequence_number"], self.number + 1)}


class BackgroundEvents:
    """The events of a response in the background, behind the one with the number ``after``; -1: all of them.

    Closing them cancels nothing.
    """

    def __init__(
        self, turns: ChatTurns, turn: ChatTurn | TurnInBackground, form: ResponseForm, after: int = -1
    ) -> None:
        self._turns, self._turn, self._form = turns, turn, form
        self._items, self._behind = ResponseItems(form), EventsBehind(after)

    def close(self) -> None:
        """Close the subscription."""
        self._turn.stream.close()

    async def blocks(self) -> AsyncIterator[bytes]:
        """Return the events until the turn ends."""
        keys, told, failure = self._turn.keys, text_of(self._form), ""
        yield self._told(self._items.begin())
        try:
            async for pieces in self._turns.follow(self._turn, told):
                yield self._told(each for piece in pieces for each in self._items.after(piece)) or ALIVE
                if not pieces and told.end is None:
                    known, rest = await self._turns.told(keys.tenant, self._form)
                    if known.end is not None:  # its events are not kept any more
                        told, self._items = known, ResponseItems(self._form)
                        yield self._told(each for piece in rest for each in self._items.after(piece))
                        break
            await self._turns.keep_calls(keys, told, self._turn.stream.position, self._form.goes_on)
        except ProblemError as problem:
            failure = problem.detail
        await self._turns.keep_response(keys, response_id(self._form.message_id), told)
        ended = failure_of(told.end)
        made = self._items.end(
            told, await self._turns.used_by(keys.tenant, told), failure or ("" if ended is None else ended.detail)
        )
        yield self._told(made[:-1]) + _block(self._behind.last(made[-1]))

    def _told(self, events: Iterable[Out]) -> bytes:
        return b"".join(map(_block, self._behind.of(events)))


def read_after(given: str | None) -> int:
    """Return the number of the last event that a client has; -1 for none. Raises ``ProblemError``."""
    if given is None:
        return -1
    number = int(given) if given.isascii() and given.isdecimal() and len(given) <= 16 else _MAX_NUMBER + 1
    if number > _MAX_NUMBER:
        raise invalid("starting_after: the `sequence_number` of an event is expected")
    return number


def _rest_of(event: Out, after: int) -> Out:
    """Return an event without the characters that the client has."""
    number = event["sequence_number"]
    if event["type"] != _DELTA or number // EVENT_STEP != after // EVENT_STEP:
        return event
    delta: str = event["delta"]
    if number // ATTEMPT_STEP == after // ATTEMPT_STEP:
        return event | {"delta": delta[max(0, len(delta) - (number - after)) :]}
    has_void = after % EVENT_STEP > 0 and delta != RESTARTED
    return event | {"delta": RESTARTED + delta} if has_void else event


def _block(event: Out) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), to_json(event))
