"""Push notifications of A2A: addresses to which the updates of one task are sent, as events are to webhooks.

Each is kept beside its task, and is a webhook whose id says where it lies: ``TENANT:SESSION:TASK:NAME``.
"""

import hashlib
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import to_json

from pentad.contracts.webhooks import PUSH_EVENTS, PushTarget, Webhook
from pentad.services.gateway.domain.webhooks import AskedPush
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid
from pentad.services.gateway.webhooks.webhook_registry import drop_webhook
from pentad.services.gateway.webhooks.webhook_secrets import WebhookSecrets
from pentad.shared.inbound.callbacks import MAX_CALLBACKS
from pentad.shared.keys import CALLBACK_TTL_S, SessionKeys, TaskKeys, bell, callbacks
from pentad.shared.outbound.address_guard import AddressGuard, RefusedAddressError
from pentad.shared.store.store import Store

MAX_PUSH_CONFIGS = 10
"""Addresses that one task may have."""
_NAME_CHARS = 16
_GONE, _FULL = -3, -4
"""Outcomes of the script beside those of all turns that are followed."""


class PushConfigs:
    """Adds, lists and removes them. Raises ``ProblemError``, and ``OutageError`` if Redis is unavailable.

    ``allowed``: hosts that may be reached though they are inside.
    """

    def __init__(self, store: Store, secrets: WebhookSecrets, allowed: Sequence[str]) -> None:
        self._store, self._secrets, self._guard = store, secrets, AddressGuard(allowed)

    async def now(self, shard: int) -> int:
        """Return a time behind all events of a shard, and have later ones be no earlier: from it updates are sent."""
        told_ms = await self._store.run("shard_time", [bell(shard)], [0])
        since_ms: int = await self._store.run("shard_time", [bell(shard)], [told_ms + 1])
        return since_ms

    def check(self, asked: AskedPush) -> None:
        """Refuse an address that is inside. What a name leads to is looked up when something is sent."""
        try:
            self._guard.check_written(asked.url)
        except RefusedAddressError as error:
            raise invalid(f"url: {error}") from None

    async def add(self, session: SessionKeys, task: str, asked: AskedPush, since_ms: int) -> Webhook:
        """Keep where a task's updates are sent, those from a time on; one of the same id is replaced."""
        self.check(asked)
        keys, config = TaskKeys(session.shard, session.tenant, task), asked.config_id or task
        name = _name(config)
        identity = f"{session.tenant}:{session.name}:{task}:{name}"
        old = _read(await self._store.call("HGET", keys.push_configs, name))
        headers = to_json(dict(asked.headers)).decode()
        target = PushTarget(
            task_id=task,
            config_id=config,
            address=asked.address,
            scheme=asked.scheme,
            headers=self._secrets.sealed(headers, session.tenant, identity) if asked.headers else None,
        )
        made = Webhook(
            id=identity,
            tenant_id=session.tenant,
            url=asked.url,
            events=PUSH_EVENTS,
            session_id=session.session,
            created_ms=since_ms if old is None else old.created_ms,
            push=target,
        )
        names = [keys.header, keys.erased, keys.push_configs, callbacks(session.shard)]
        args = (name, identity, made.to_json(), CALLBACK_TTL_S, MAX_PUSH_CONFIGS, MAX_CALLBACKS, session.tenant)
        _check_outcome(await self._store.run("push_add", names, args))
        return made

    async def of_task(self, keys: TaskKeys) -> list[Webhook]:
        """Return those of a task, by id; none for a task that is archived."""
        lives, flat = await self._store.calls([("EXISTS", keys.header), ("HGETALL", keys.push_configs)])
        found = [_read(raw) for raw in flat[1::2]] if lives else []
        return sorted((each for each in found if each is not None), key=lambda each: each.id)

    async def delete(self, session: SessionKeys, task: str, config: str) -> None:
        """Remove one with all that waits for it. Safe to repeat."""
        name = _name(config)
        identity = f"{session.tenant}:{session.name}:{task}:{name}"
        keys = TaskKeys(session.shard, session.tenant, task)
        await self._store.calls([("HDEL", keys.push_configs, name), ("ZREM", callbacks(session.shard), identity)])
        await drop_webhook(self._store, session.shard, identity)


def _name(config: str) -> str:
    return hashlib.sha256(config.encode(errors="replace")).hexdigest()[:_NAME_CHARS]


def _read(raw: bytes | None) -> Webhook | None:
    try:
        found = None if raw is None else Webhook.model_validate_json(raw)
    except ValidationError:
        return None
    return found if found is not None and found.push is not None else None


def _check_outcome(outcome: int) -> None:
    if outcome == _GONE:
        raise ProblemError(409, "the task is archived, and has no more updates")
    if outcome == _FULL:
        raise ProblemError(409, f"the task has {MAX_PUSH_CONFIGS} push notification configs already: delete one")
    if outcome < 0:
        raise busy("too many tasks have push notifications: try again later, or follow the task")
