"""The webhooks of tenants, and the callbacks of messages: added, listed, removed with what waits for them."""

from collections.abc import Sequence
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from pentad.contracts.ids import rfc3339
from pentad.contracts.webhooks import CALLBACK_EVENTS, CallbackRequest, Webhook, WebhookRequest
from pentad.services.gateway.domain.webhooks import shown_webhook
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.services.gateway.webhooks.webhook_secrets import WebhookSecrets
from pentad.shared.errors import DamagedError
from pentad.shared.keys import (
    CALLBACK_TTL_S,
    WEBHOOKS_REGISTRY,
    SessionKeys,
    callback,
    callbacks,
    waiting_webhooks,
    webhook_due,
    webhook_state,
)
from pentad.shared.outbound.address_guard import AddressGuard, OutboundError, RefusedAddressError
from pentad.shared.registries.registrations import REGISTERED_WEBHOOKS
from pentad.shared.store.store import Store

MAX_WEBHOOKS = 20
"""Webhooks that one tenant may have: each event of a session is copied for each that wants it."""
MAX_ALL_WEBHOOKS = 1_000
"""Webhooks of all tenants: gateways read them all whenever one changes."""
MAX_CALLBACKS = 10_000
"""Callbacks of turns that go on, in one shard."""
_MAX_ATTEMPTS = 5
"""How often a change is tried when others change the registry at the same time."""
_LANES_PER_DROP = 100
_PORTS = {"http": 80, "https": 443}


class WebhookRegistry:
    """Changes the registry of webhooks. Raises ``ProblemError``, and ``OutageError`` if Redis is unavailable.

    ``allowed``: hosts that may be reached though they are inside.
    """

    def __init__(self, store: Store, secrets: WebhookSecrets, allowed: Sequence[str], shards: int) -> None:
        self._store, self._secrets, self._shards = store, secrets, shards
        self._guard = AddressGuard(allowed, resolver=_nowhere)

    async def register(self, tenant: str, asked: WebhookRequest) -> tuple[dict[str, Any], bool]:
        """Add a webhook, or replace the one with this address and session; return it, and whether it is new."""
        await self._check(asked.url)
        now = await self._store.clock()
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
                created_ms=now if old is None else old.created_ms,
            )
            if await REGISTERED_WEBHOOKS.write(self._store, read, name, made):
                return await self._shown(made), old is None
        raise _crowded()

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

    async def note_callback(self, keys: SessionKeys, message_id: str, asked: CallbackRequest) -> bool:
        """Keep the callback of a message that is about to be appended; return whether it was not known before."""
        await self._check(asked.callback_url)
        name, secret = keys.callback_id(message_id), asked.callback_secret
        made = Webhook(
            id=name,
            tenant_id=keys.tenant,
            url=asked.callback_url,
            events=CALLBACK_EVENTS,
            session_id=keys.session,
            secret=None if secret is None else self._secrets.sealed(secret, keys.tenant, name),
            created_ms=await self._store.clock(),
            message_id=message_id,
        )
        names = [callback(keys.shard, name), callbacks(keys.shard)]
        noted = await self._store.run("callback_add", names, [name, made.to_json(), CALLBACK_TTL_S, MAX_CALLBACKS])
        if noted < 0:
            raise busy("too many turns with a callback_url go on: try again later, or follow the turn with GET")
        return bool(noted)

    async def forget_callback(self, keys: SessionKeys, message_id: str) -> None:
        """Remove the callback of a message that was not accepted."""
        name = keys.callback_id(message_id)
        await self._store.calls([("ZREM", callbacks(keys.shard), name), ("DEL", callback(keys.shard, name))])

    async def _check(self, url: str) -> None:
        """Refuse an address that is inside. What a name leads to is looked up when something is sent."""
        parts = urlsplit(url)
        try:
            port = parts.port or _PORTS[parts.scheme]
        except ValueError:
            raise invalid("url: ports go from 1 to 65535") from None
        try:
            await self._guard.addresses(parts.hostname or "", port)
        except RefusedAddressError as error:
            raise invalid(f"url: {error}") from None
        except OutboundError:
            pass

    async def _shown(self, webhook: Webhook) -> dict[str, Any]:
        states = [webhook_state(shard, webhook.id) for shard in range(self._shards)]
        found = await self._store.calls([("HMGET", state, "count", "error") for state in states])
        errors = [error.decode(errors="replace") for _, error in found if error is not None]
        waiting = sum(int(count or 0) for count, _ in found)
        return shown_webhook(webhook, rfc3339(webhook.created_ms), waiting, next(iter(errors), None))


async def read_kept(store: Store, shard: int, name: str) -> Webhook | None:
    """Return a webhook or a callback as it is kept now; None for one that is gone. Raises ``DamagedError``."""
    command = ("GET", callback(shard, name)) if is_callback(name) else ("HGET", WEBHOOKS_REGISTRY, name)
    raw = await store.call(*command)
    try:
        return None if raw is None else Webhook.model_validate_json(raw)
    except ValidationError:
        raise DamagedError(f"webhook {name[:128]} is damaged, or of a newer version") from None


def is_callback(name: str) -> bool:
    """Return whether an id is that of the callback of a message."""
    return ":" in name


async def drop_webhook(store: Store, shard: int, name: str) -> None:
    """Drop all that waits for a webhook in a shard. Safe to repeat. Raises ``OutageError``."""
    while lanes := await store.call("ZRANGE", webhook_due(shard, name), 0, _LANES_PER_DROP - 1):
        await store.run("webhook_drop", [waiting_webhooks(shard)], [name, "", *lanes])
    await store.run("webhook_drop", [waiting_webhooks(shard)], [name, ""])


async def _nowhere(_host: str, _port: int) -> Sequence[str]:
    return ()


def _is_same(webhook: Webhook, tenant: str, asked: WebhookRequest) -> bool:
    return (webhook.tenant_id, webhook.url, webhook.session_id) == (tenant, asked.url, asked.session)


def _check_room(tenant: str, entries: Sequence[Webhook]) -> None:
    if sum(each.tenant_id == tenant for each in entries) >= MAX_WEBHOOKS:
        raise ProblemError(409, f"there are {MAX_WEBHOOKS} webhooks already: remove one")
    if len(entries) >= MAX_ALL_WEBHOOKS:
        raise ProblemError(409, f"all tenants together have {MAX_ALL_WEBHOOKS} webhooks already")


def _crowded() -> ProblemError:
    return busy("others change the registry at the same time: try again")
