"""What tool-workers publish for the other services: their tools, and the instructions of their plugins.

It stays for a day after the last beat of a worker that has it.
"""

import logging
from collections.abc import Sequence
from typing import Generic, TypeVar

from pydantic_core import to_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.plain_json import read_json
from pentad.contracts.tools import ToolSpec
from pentad.shared.keys import DAY_S, INSTRUCTIONS_PUBLISHED, TOOLS_REGISTRY
from pentad.shared.store.store import Argument, Store

log = logging.getLogger(__name__)


T = TypeVar("T", ToolSpec, Instruction)


class Published(Generic[T]):
    """One kind of what is published, in a hash of its own."""

    def __init__(self, key: str, kind: type[T], what: str) -> None:
        self._key, self._what = key, what
        self._kind: type[T] = kind

    async def publish(self, store: Store, items: Sequence[T]) -> None:
        """Say that a living worker has these."""
        if not items:
            return
        now = await store.clock()
        fields: list[Argument] = []
        for item in items:
            fields += (item.name, to_json({"spec": item.model_dump(mode="json"), "beat": now}))
        await store.call("HSET", self._key, *fields)
        await store.call("EXPIRE", self._key, DAY_S)

    async def lost(self, store: Store, items: Sequence[T]) -> bool:
        """Whether some of these, published before, are not there any more: Redis was emptied, or has lost its tail."""
        return bool(items) and None in await store.call("HMGET", self._key, *(item.name for item in items))

    async def read(self, store: Store) -> dict[str, T]:
        """All that was published within the last day, by name."""
        raw = await self.fetch(store)
        return self.parse(raw, await store.clock()) if raw else {}

    async def fetch(self, store: Store) -> Sequence[bytes]:
        """The hash as it is, for who compares it with what was read before."""
        raw: Sequence[bytes] = await store.call("HGETALL", self._key)
        return raw

    def parse(self, raw: Sequence[bytes], now: int) -> dict[str, T]:
        """What the hash says at this time, in ms of the server's clock."""
        oldest = now - DAY_S * 1000
        found = [item for value in raw[1::2] if (item := self._item(value, oldest)) is not None]
        return {item.name: item for item in sorted(found, key=lambda each: each.name)}

    def _item(self, value: bytes, oldest: int) -> T | None:
        """None when its last beat is too long ago or nobody can read it."""
        try:
            entry = read_json(value)
            return self._kind(**entry["spec"]) if entry["beat"] >= oldest else None
        except (ValueError, TypeError, KeyError) as error:
            log.warning("a published %s cannot be read and is left out: %s", self._what, type(error).__name__)
            return None


TOOLS = Published(TOOLS_REGISTRY, ToolSpec, "tool")
INSTRUCTIONS = Published(INSTRUCTIONS_PUBLISHED, Instruction, "instruction")
