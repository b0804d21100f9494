"""Callbacks of messages: noted before a message gets to its session, whoever has sent it and on whatever way."""

from collections.abc import Sequence

from pentad.contracts.commands import InboundMessage
from pentad.contracts.errors import ErrorCode
from pentad.contracts.webhooks import CALLBACK_EVENTS, CLIENT_CALLBACK_EVENTS, Webhook
from pentad.shared.immutable import immutable
from pentad.shared.keys import CALLBACK_TTL_S, SessionKeys, bell, callback, callbacks, dedup
from pentad.shared.outbound.address_guard import AddressGuard, RefusedAddressError
from pentad.shared.store.store import Store

MAX_CALLBACKS = 10_000
"""Turns and tasks whose events are sent to who has asked for them, in one shard; a tenant may have half of these."""


@immutable
class RefusedCallback:
    """The reason why a message with a callback is refused."""

    problem: str
    code: ErrorCode = ErrorCode.BAD_MESSAGE


class MessageCallbacks:
    """Notes callbacks. ``allowed``: hosts that may be reached though they are inside. Raises ``OutageError``."""

    def __init__(self, store: Store, allowed: Sequence[str]) -> None:
        self._store, self._guard = store, AddressGuard(allowed)

    def refusal(self, message: InboundMessage) -> RefusedCallback | None:
        """Return why the address of a message's callback is refused; None for one that may be, and for no callback."""
        if message.callback_url is None:
            return None
        try:
            self._guard.check_written(message.callback_url)
        except RefusedAddressError as error:
            return RefusedCallback(f"callback_url: {error}")
        return None

    async def note(self, keys: SessionKeys, message: InboundMessage) -> RefusedCallback | None:
        """Keep where the events of a message's turn are sent, once; returns why the message is refused.

        A message that was accepted before is told nothing more, as it adds no event.
        """
        refused = self.refusal(message)
        if refused is not None or message.callback_url is None:
            return refused
        message_id = message.message_id or ""
        name = keys.callback_id(message_id)
        made = Webhook(
            id=name,
            tenant_id=keys.tenant,
            url=message.callback_url,
            events=CLIENT_CALLBACK_EVENTS if message.tools else CALLBACK_EVENTS,
            session_id=keys.session,
            secret=message.callback_secret,
            created_ms=await self._store.run("shard_time", [bell(keys.shard)], [0]),
            message_id=message_id,
        )
        names = [
            callback(keys.shard, name),
            callbacks(keys.shard),
            dedup(keys.shard, keys.tenant, keys.session, message_id),
        ]
        args = (name, made.to_json(), CALLBACK_TTL_S, MAX_CALLBACKS, keys.tenant)
        return None if await self._store.run("callback_add", names, args) >= 0 else too_many()


def too_many() -> RefusedCallback:
    """Return the refusal while too many turns are sent to others."""
    return RefusedCallback(
        "callback_url: too many turns with one go on: send the message again later, or without it and follow its turn",
        ErrorCode.BUSY,
    )


def without_callback(message: InboundMessage) -> InboundMessage:
    """Return a message as it gets to its session: the callback is kept apart, and its secret shown to nobody."""
    if message.callback_url is None:
        return message
    return message.model_copy(update={"callback_url": None, "callback_secret": None})
