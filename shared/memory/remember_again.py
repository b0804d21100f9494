"""Archivers are asked to remember a task as it is now: what they have of it is written anew where it differs."""

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import REMEMBER
from pentad.shared import metrics
from pentad.shared.keys import TaskKeys
from pentad.shared.store.store import Store


async def ask_to_remember(store: Store, keys: TaskKeys) -> None:
    """Queue it. Safe to repeat. Raises ``OutageError``."""
    await store.call("XADD", REMEMBER.key(keys.shard), "*", "data", WakeUp(actor=keys.actor).to_json())
    metrics.published.labels(REMEMBER.name, WakeUp.__name__).inc()
