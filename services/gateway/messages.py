"""`POST /v1/messages`: accept a message and, when asked, wait for its turn's end."""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from pentad.contracts.commands import InboundMessage
from pentad.services.gateway.accepting import new_message_id, not_appended
from pentad.services.gateway.domain.frames import UnreadableError, read_message
from pentad.services.gateway.domain.waited_turn import WaitedTurn
from pentad.services.gateway.http import answer, read_body, tenant_of, wait_of
from pentad.services.gateway.parts import Parts, new_session_id
from pentad.services.gateway.persisting import persist
from pentad.services.gateway.problems import ProblemError, invalid
from pentad.shared.errors import OutageError
from pentad.shared.events.feed import START
from pentad.shared.events.subscription import CursorExpiredError, SlowReaderError, Subscription
from pentad.shared.keys import SessionKeys

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request
    from starlette.responses import Response


async def post_message(parts: Parts, request: "Request") -> "Response":
    """202 with the ids, or after ``?wait`` 200 with the turn."""
    wait_s, body = wait_of(request), await read_body(request)
    session = body.get("session_id") or new_session_id()
    if not isinstance(session, str):
        raise invalid("session_id: a text is expected")
    keys = parts.session(tenant_of(request), session)
    try:
        message = read_message(body, keys.tenant, keys.session, new_message_id())
    except UnreadableError as error:
        raise invalid(str(error)) from None
    try:
        if wait_s is None:
            return answer(_receipt(keys, await parts.accepting.accept(message, keys)), 202)
        return await _take_and_wait(parts, message, keys, wait_s)
    except ProblemError as problem:
        problem.message_id = message.message_id
        raise


def _receipt(keys: SessionKeys, message_id: str) -> dict[str, Any]:
    return {"session_id": keys.session, "message_id": message_id}


async def _take_and_wait(parts: Parts, message: InboundMessage, keys: SessionKeys, wait_s: float) -> "Response":
    """Listen first, then append: nothing of the turn can be missed. A repeated id looks for the first one's turn."""
    limit = asyncio.get_running_loop().time() + wait_s
    message_id = message.message_id or ""
    subscription = await parts.subscribe(keys, None)
    try:
        if await _known(parts, keys, message_id):
            subscription.close()
            subscription = await parts.subscribe(keys, START)
        else:
            await parts.accepting.accept(message, keys)
        turn = WaitedTurn(message_id)
        try:
            async with asyncio.timeout_at(limit):
                await _until_ended(parts, subscription, turn)
        except TimeoutError:
            pass
    finally:
        subscription.close()
    if turn.status is None:
        return answer(_receipt(keys, message_id) | {"task_id": turn.task_id}, 202)
    return answer(turn.result(keys.session))


async def _known(parts: Parts, keys: SessionKeys, message_id: str) -> bool:
    try:
        return await persist(lambda: parts.inbox.first_entry(keys, message_id)) is not None
    except OutageError:
        raise not_appended() from None


async def _until_ended(parts: Parts, subscription: Subscription, turn: WaitedTurn) -> None:
    async with aclosing(_events(parts, subscription)) as events:
        async for event in events:
            if turn.feed(event):
                return


async def _events(parts: Parts, subscription: Subscription) -> "AsyncGenerator[dict[str, Any], None]":
    """The session's events until the gateway closes. What a gap swallowed is not waited for any longer than asked."""
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
                continue
            except SlowReaderError:
                return
            finally:
                reading.cancel()
            for event in events:
                yield {"id": event.id.decode()} | from_json(event.data)
    finally:
        closing.cancel()
