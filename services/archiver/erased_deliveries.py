"""Removes what waits for webhooks of what is erased: events of tasks and sessions, callbacks, webhooks of a session."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pentad.contracts.webhooks import Webhook
from pentad.shared.keys import SessionKeys, TaskKeys, callback, callbacks, waiting_webhooks, webhook_due
from pentad.shared.registries.registrations import REGISTERED_WEBHOOKS
from pentad.shared.store.store import Store

_PER_READ = 200
"""Webhooks, lanes and callbacks that are looked at at once."""
_KEYS_PER_SCAN = 1_000
_MAX_ATTEMPTS = 20
"""How often a webhook is removed from the registry while others change it."""


async def remove_task_deliveries(
    store: Store, task: TaskKeys, session: str, messages: Sequence[Mapping[str, Any]]
) -> None:
    """Remove the events of a task that wait for webhooks, the callbacks of its messages, and its addresses for A2A.

    Safe to repeat. Raises ``OutageError``.
    """
    begins, ends = f"{task.tenant}/", f"/{task.task}"
    await _drop_lanes(store, task.shard, lambda lane: lane.startswith(begins) and lane.endswith(ends), None)
    keys = SessionKeys(task.shard, task.tenant, session)
    names = {keys.callback_id(str(each["message_id"])) for each in messages if each.get("message_id")}
    await _remove_callbacks(store, task.shard, sorted(names))
    pushed = [webhook.id for raw in await store.call("HVALS", task.push_configs) if (webhook := _read(raw)) is not None]
    if pushed:
        await store.call("ZREM", callbacks(task.shard), *pushed)
    await store.call("DEL", task.push_configs)


async def remove_session_deliveries(store: Store, session: SessionKeys, until: int) -> None:
    """Remove the events of a session up to ``until`` (ms) that wait for webhooks, its callbacks and its own webhooks.

    Safe to repeat. Raises ``OutageError``.
    """
    begins = f"{session.actor}/"
    await _drop_lanes(store, session.shard, lambda lane: lane.startswith(begins), until)
    await store.call("DEL", session.webhook_cursors)
    await _remove_callbacks(store, session.shard, [name async for name in _callbacks_of(store, session, until)])
    await _remove_webhooks(store, session, until)


async def _drop_lanes(store: Store, shard: int, goes: Callable[[str], bool], until: int | None) -> None:
    waiting = waiting_webhooks(shard)
    for webhook in await store.call("ZRANGE", waiting, 0, -1):
        lanes = await store.call("ZRANGE", webhook_due(shard, webhook.decode()), 0, -1)
        gone = [lane for lane in lanes if goes(lane.decode(errors="replace"))]
        for first in range(0, len(gone), _PER_READ):
            last = "" if until is None else until
            await store.run("webhook_drop", [waiting], [webhook, last, *gone[first : first + _PER_READ]])


async def _remove_callbacks(store: Store, shard: int, names: Sequence[str]) -> None:
    for first in range(0, len(names), _PER_READ):
        some = names[first : first + _PER_READ]
        await store.call("ZREM", callbacks(shard), *some)
        await store.call("DEL", *(callback(shard, name) for name in some))


async def _callbacks_of(store: Store, session: SessionKeys, until: int) -> Any:
    begins, cursor = callback(session.shard, f"{session.tenant}:{session.name}:"), b"0"
    while True:
        command = ("SCAN", cursor, "MATCH", f"{begins}*", "COUNT", _KEYS_PER_SCAN)
        cursor, found = await store.call(*command)
        for key in found:
            webhook = _read(await store.call("GET", key))
            if webhook is None or webhook.created_ms <= until:
                yield key.decode().removeprefix(callback(session.shard, ""))
        if cursor == b"0":
            return


async def _remove_webhooks(store: Store, session: SessionKeys, until: int) -> None:
    """Remove the webhooks of a session from the registry; who sends finds them no more, and drops what waits."""
    for _ in range(_MAX_ATTEMPTS):
        read = await REGISTERED_WEBHOOKS.read(store)
        gone = [each.id for each in read.entries if _is_of(each, session) and each.created_ms <= until]
        if not gone or await REGISTERED_WEBHOOKS.write_all(store, read, dict.fromkeys(gone)):
            return


def _is_of(webhook: Webhook, session: SessionKeys) -> bool:
    return (webhook.tenant_id, webhook.session_id) == (session.tenant, session.session)


def _read(raw: bytes | None) -> Webhook | None:
    try:
        return None if raw is None else Webhook.model_validate_json(raw)
    except ValidationError:
        return None
