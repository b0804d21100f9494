"""Following the turn of a message from before it is appended to its end."""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from pentad.contracts.commands import InboundMessage
from pentad.services.gateway.domain.waited_turn import WaitedTurn
from pentad.services.gateway.parts import Parts
from pentad.shared.events.feed import START
from pentad.shared.events.subscription import CursorExpiredError, SlowReaderError, Subscription
from pentad.shared.keys import SessionKeys

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


async def begin_turn(parts: Parts, message: InboundMessage, keys: SessionKeys) -> Subscription:
    """Listen first, then append: nothing of the turn can be missed. A repeated id looks for the first one's turn.

    The caller closes the subscription. Raises ``ProblemError``.
    """
    subscription = await parts.subscribe(keys, None)
    try:
        if await parts.accepting.is_repeat(message, keys):
            subscription.close()
            return await parts.subscribe(keys, START)
        await parts.accepting.accept(message, keys)
    except BaseException:
        subscription.close()
        raise
    return subscription


async def wait_for_turn(parts: Parts, message: InboundMessage, keys: SessionKeys, wait_s: float) -> WaitedTurn:
    """Append it, and what has come of it when its turn ends or the time is up. Raises ``ProblemError``."""
    limit = asyncio.get_running_loop().time() + wait_s
    turn = WaitedTurn(message.message_id or "")
    subscription = await begin_turn(parts, message, keys)
    try:
        async with asyncio.timeout_at(limit):
            await _until_ended(parts, keys, subscription, turn)
    except TimeoutError:
        pass
    finally:
        subscription.close()
    if turn.ref is not None and turn.task_id is not None:
        turn.answer = await parts.queries.value(keys.tenant, turn.task_id, turn.ref) or turn.answer
    return turn


async def _until_ended(parts: Parts, keys: SessionKeys, subscription: Subscription, turn: WaitedTurn) -> None:
    async with aclosing(_events(parts, keys, subscription)) as events:
        async for event in events:
            if turn.feed(event):
                return


async def _events(
    parts: Parts, keys: SessionKeys, subscription: Subscription
) -> "AsyncGenerator[dict[str, Any], None]":
    """The session's events until the gateway closes: where some are gone, a snapshot in their place.

    More than waits for a reader at once is read again from the stream.
    """
    read_to = subscription.position
    closing = asyncio.create_task(parts.closing.wait())
    try:
        while True:
            reading = asyncio.create_task(subscription.read())
            try:
                await asyncio.wait({reading, closing}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    return
                events = reading.result()
            except CursorExpiredError:
                read_to = subscription.position
                yield from_json(await parts.snapshot(keys, read_to))
                continue
            except SlowReaderError:
                subscription.close()
                subscription = await parts.subscribe(keys, read_to)
                continue
            finally:
                reading.cancel()
            for event in events:
                read_to = event.id
                yield {"id": event.id.decode()} | from_json(event.data)
    finally:
        subscription.close()
        closing.cancel()
