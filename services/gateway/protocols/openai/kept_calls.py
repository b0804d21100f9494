"""Calls of clients' tools that were told to an OpenAI client: to which task they belong, and where its turn goes on."""

from collections.abc import Sequence
from functools import partial

from pydantic import ValidationError

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import shard_of
from pentad.services.gateway.tasks.patience import persist
from pentad.shared.keys import chat_call
from pentad.shared.store.store import Store


class KeptCall(Contract):
    """A call that its client makes, as it was told."""

    session: str
    task: str
    after: str
    """Cursor of the event with which the turn stopped for it."""
    begun: int
    """Steps of the task before the turn."""
    steps: int
    """Steps of the task when the turn stopped."""

    def is_of_stop(self, other: "KeptCall") -> bool:
        """Return whether the turn has stopped for both calls at once. Gateways that told it may have other cursors."""
        return (self.task, self.steps) == (other.task, other.steps)


class KeptClientCalls:
    """Keeps and reads which task a client's call belongs to. Raises ``OutageError``."""

    def __init__(self, store: Store, shards: int, ttl_s: int) -> None:
        self._store, self._shards, self._ttl_s = store, shards, ttl_s

    async def keep(self, tenant: str, calls: Sequence[str], kept: KeptCall) -> None:
        """Keep calls that were told together. What was kept first stays: the turn is told again as it was."""
        for call in calls:
            await persist(partial(self._set, self._key(tenant, call), kept.to_json()))

    async def read(self, tenant: str, call: str) -> KeptCall | None:
        """Return a call; None for one that is not kept."""
        raw = await persist(lambda: self._store.call("GET", self._key(tenant, call)))
        try:
            return None if raw is None else KeptCall.model_validate_json(raw)
        except ValidationError:
            return None

    async def _set(self, key: str, kept: bytes) -> None:
        await self._store.call("SET", key, kept, "NX", "EX", self._ttl_s)

    def _key(self, tenant: str, call: str) -> str:
        return chat_call(shard_of(tenant, call, self._shards), tenant, call)
