"""The webhooks of tenants, and the callbacks of messages: added, listed, removed with what waits for them."""

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from pydantic import ValidationError

from pentad.contracts.commands import InboundMessage
from pentad.contracts.ids import rfc3339
from pentad.contracts.receivers import signing_key
from pentad.contracts.webhooks import Webhook, WebhookRequest
from pentad.services.gateway.domain.webhooks import shown_webhook
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.services.gateway.webhooks.webhook_secrets import WebhookSecrets
from pentad.shared.errors import DamagedError
from pentad.shared.inbound.callbacks import MAX_CALLBACKS, MessageCallbacks, too_many
from pentad.shared.keys import (
    WEBHOOKS_REGISTRY,
    SessionKeys,
    TaskKeys,
    bell,
    callback,
    callbacks,
    waiting_webhooks,
    webhook_due,
    webhook_state,
)
from pentad.shared.outbound.address_guard import AddressGuard, RefusedAddressError
from pentad.shared.registries.registrations import REGISTERED_WEBHOOKS
from pentad.shared.store.store import Store

MAX_WEBHOOKS = 20
"""Webhooks that one tenant may have: each event of a session is copied for each that wants it."""
MAX_ALL_WEBHOOKS = 1_000
"""Webhooks of all tenants: gateways read them all whenever one changes."""
_MAX_ATTEMPTS = 5
"""How often a change is tried when others change the registry at the same time."""
_LANES_PER_DROP = 100
_PUSH_PARTS = 3
"""Parts of a push config's id behind its tenant."""


class WebhookRegistry:
    """Changes the registry of webhooks. Raises ``ProblemError``, and ``OutageError`` if Redis is unavailable.

    ``allowed``: hosts that may be reached though they are inside.
    """

    def __init__(self, store: Store, secrets: WebhookSecrets, allowed: Sequence[str], shards: int) -> None:
        self._store, self._secrets, self._shards = store, secrets, shards
        self._guard, self._callbacks = AddressGuard(allowed), MessageCallbacks(store, allowed)

    async def register(self, tenant: str, asked: WebhookRequest) -> tuple[dict[str, Any], bool]:
        """Add a webhook, or replace the one with this address and session; return it, and whether it is new."""
        self._check(asked.url)
        since_ms = await self._since()
        for _ in range(_MAX_ATTEMPTS):
            read = await REGISTERED_WEBHOOKS.read(self._store)
            old = next((each for each in read.entries if _is_same(each, tenant, asked)), None)
            if old is None:
                _check_room(tenant, read.entries)
            name = f"wh-{token_hex(12)}" if old is None else old.id
            made = Webhook(
                id=name,
                tenant_id=tenant,
                url=asked.url,
                events=asked.events,
                session_id=asked.session,
                secret=self._secrets.sealed(asked.secret, tenant, name),
                created_ms=since_ms if old is None else old.created_ms,
            )
            if await REGISTERED_WEBHOOKS.write(self._store, read, name, made):
                return await self._shown(made), old is None
        raise _crowded()

    async def _since(self) -> int:
        """Return a time behind all events of before, in any shard, and have those of after be no earlier."""
        times = [await self._store.run("shard_time", [bell(shard)], [0]) for shard in range(self._shards)]
        since_ms: int = max(times) + 1
        for shard in range(self._shards):
            await self._store.run("shard_time", [bell(shard)], [since_ms])
        return since_ms

    async def listing(self, tenant: str) -> list[dict[str, Any]]:
        """Return a tenant's webhooks with how each does, by address."""
        read = await REGISTERED_WEBHOOKS.read(self._store)
        own = sorted((each for each in read.entries if each.tenant_id == tenant), key=lambda each: (each.url, each.id))
        return [await self._shown(each) for each in own]

    async def delete(self, tenant: str, name: str) -> None:
        """Remove a webhook with all that waits for it: only what is under way at this moment still arrives."""
        for _ in range(_MAX_ATTEMPTS):
            read = await REGISTERED_WEBHOOKS.read(self._store)
            if not any(each.id == name and each.tenant_id == tenant for each in read.entries):
                raise missing("there is no such webhook")
            if await REGISTERED_WEBHOOKS.write(self._store, read, name, None):
                for shard in range(self._shards):
                    await drop_webhook(self._store, shard, name)
                return
        raise _crowded()

    async def prepared(self, message: InboundMessage, keys: SessionKeys) -> InboundMessage:
        """Return a message as it is appended: its callback is checked, and the secret of that is sealed.

        Who moves it to its session notes the callback (`shared/inbound/callbacks.py`), as for messages of other ways.
        """
        refused = self._callbacks.refusal(message)
        if refused is not None:
            raise invalid(refused.problem)
        if message.callback_url is None:
            return message
        if await self._store.call("ZCARD", callbacks(keys.shard)) >= MAX_CALLBACKS:
            raise busy(too_many().problem)
        name, secret = keys.callback_id(message.message_id or ""), message.callback_secret
        if secret is None:
            return message
        try:
            signing_key(secret)
        except ValueError as error:
            raise invalid(f"callback_secret: {error}") from None
        return message.model_copy(update={"callback_secret": self._secrets.sealed(secret, keys.tenant, name)})

    def _check(self, url: str) -> None:
        """Refuse an address that is inside. What a name leads to is looked up when something is sent."""
        try:
            self._guard.check_written(url)
        except RefusedAddressError as error:
            raise invalid(f"url: {error}") from None

    async def _shown(self, webhook: Webhook) -> dict[str, Any]:
        states = [webhook_state(shard, webhook.id) for shard in range(self._shards)]
        found = await self._store.calls([("HMGET", state, "count", "error") for state in states])
        errors = [error.decode(errors="replace") for _, error in found if error is not None]
        waiting = sum(int(count or 0) for count, _ in found)
        return shown_webhook(webhook, rfc3339(webhook.created_ms), waiting, next(iter(errors), None))


async def read_kept(store: Store, shard: int, name: str) -> Webhook | None:
    """Return a webhook or a callback as it is kept now; None for one that is gone. Raises ``DamagedError``."""
    if not is_callback(name):
        raw = await store.call("HGET", WEBHOOKS_REGISTRY, name)
    elif (pushed := push_place(shard, name)) is not None:
        raw = await store.call("HGET", *pushed)
    else:
        raw = await store.call("GET", callback(shard, name))
    try:
        return None if raw is None else Webhook.model_validate_json(raw)
    except ValidationError:
        raise DamagedError(f"webhook {name[:128]} is damaged, or of a newer version") from None


def is_callback(name: str) -> bool:
    """Return whether an id is that of the callback of a message, or of a task for A2A."""
    return ":" in name


def push_place(shard: int, name: str) -> tuple[str, str] | None:
    """Return the hash and the field of what a client of A2A has asked for a task; None for other webhooks."""
    tenant, *rest = name.split(":")
    return (TaskKeys(shard, tenant, rest[1]).push_configs, rest[2]) if len(rest) == _PUSH_PARTS else None


async def drop_webhook(store: Store, shard: int, name: str) -> None:
    """Drop all that waits for a webhook in a shard. Safe to repeat. Raises ``OutageError``."""
    while lanes := await store.call("ZRANGE", webhook_due(shard, name), 0, _LANES_PER_DROP - 1):
        await store.run("webhook_drop", [waiting_webhooks(shard)], [name, "", *lanes])
    await store.run("webhook_drop", [waiting_webhooks(shard)], [name, ""])


def _is_same(webhook: Webhook, tenant: str, asked: WebhookRequest) -> bool:
    return (webhook.tenant_id, webhook.url, webhook.session_id) == (tenant, asked.url, asked.session)


def _check_room(tenant: str, entries: Sequence[Webhook]) -> None:
    if sum(each.tenant_id == tenant for each in entries) >= MAX_WEBHOOKS:
        raise ProblemError(409, f"there are {MAX_WEBHOOKS} webhooks already: remove one")
    if len(entries) >= MAX_ALL_WEBHOOKS:
        raise ProblemError(409, f"all tenants together have {MAX_ALL_WEBHOOKS} webhooks already")


def _crowded() -> ProblemError:
    return busy("others change the registry at the same time: try again")
