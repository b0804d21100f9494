"""Counts of the costs of handling steps: bytes to and from Redis, bytes of JSON and of hashes, and memory."""

import hashlib
import sys
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pydantic_core
import pytest

from pentad.contracts.envelope import Contract
from pentad.shared.store.store import Store

HELD = "held"
"""The most memory that was held at once beyond what had been there before."""


class CostMeter:
    """Counts until the test ends, whatever module of ours it is that parses, serialises or hashes."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store, self._patch = store, monkeypatch
        self._bytes: Counter[str] = Counter()
        self._count_function("parsed", pydantic_core.from_json, len)
        self._count_function("serialised", pydantic_core.to_json, None)
        self._count_contracts()
        monkeypatch.setattr(hashlib, "sha256", self._counted_hash)

    async def of(self, work: Callable[[], Awaitable[Any]]) -> dict[str, int]:
        """Return the cost of some work in bytes, by their use."""
        self._bytes.clear()
        sent, received = await self._network()
        tracemalloc.start()
        await work()
        _, held = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        sent_later, received_later = await self._network()
        return {**self._bytes, "sent": sent_later - sent, "received": received_later - received, HELD: held}

    async def _network(self) -> tuple[int, int]:
        stats = await self._store.redis.info("stats")
        return stats["total_net_input_bytes"], stats["total_net_output_bytes"]

    def _count_function(self, use: str, real: Callable[..., Any], size: Callable[[Any], int] | None) -> None:
        """Count what goes in, as ``size`` has it, or what comes out, in every module that has imported it by name."""

        def counted(given: Any, *args: Any, **options: Any) -> Any:
            made = real(given, *args, **options)
            self._bytes[use] += len(made) if size is None else size(given)
            return made

        for name, module in tuple(sys.modules.items()):
            if name.startswith("pentad.") and getattr(module, real.__name__, None) is real:
                self._patch.setattr(module, real.__name__, counted)

    def _count_contracts(self) -> None:
        read, write = Contract.model_validate_json, Contract.to_json

        def counted_read(kind: type[Contract], /, text: str | bytes, **options: Any) -> Any:
            self._bytes["parsed"] += len(text)
            return read.__func__(kind, text, **options)  # type: ignore[attr-defined]

        def counted_write(contract: Contract) -> bytes:
            made = write(contract)
            self._bytes["serialised"] += len(made)
            return made

        self._patch.setattr(Contract, "model_validate_json", classmethod(counted_read))
        self._patch.setattr(Contract, "to_json", counted_write)

    def _counted_hash(self, data: bytes = b"", real: Callable[..., Any] = hashlib.sha256) -> Any:
        return _CountedHash(real(), self._bytes, data)


class _CountedHash:
    def __init__(self, real: Any, counts: Counter[str], data: bytes) -> None:
        self._real, self._counts = real, counts
        self.hexdigest = real.hexdigest
        self.update(data)

    def update(self, data: bytes) -> None:
        self._counts["hashed"] += len(data)
        self._real.update(data)
