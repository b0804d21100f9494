"""Caches of payloads: reading them from the store again, or decoding them again, was half of the work of a search."""

from collections.abc import Callable, Iterable
from typing import Any

from pentad.shared.vectors.points import Payload, decode_payload

MAX_PAYLOADS = 32_768
"""Number of points; the oldest are dropped first. One takes some two kilobytes."""


class PayloadCache:
    """The payloads of one collection by point id. Whoever writes to the store calls `forget` first."""

    def __init__(self, most: int = MAX_PAYLOADS) -> None:
        self._most = most
        self._kept: dict[str, Payload] = {}

    def of(self, ids: Iterable[str], read: Callable[[list[str]], dict[str, Payload]]) -> dict[str, Payload]:
        """Return the payloads of these points.

        ``read`` asks the store for those that are not cached; points that the store does not have are left out.
        """
        found: dict[str, Payload] = {}
        missing = []
        for name in ids:
            payload = self._kept.get(name)
            if payload is None:
                missing.append(name)
            else:
                found[name] = payload
        if missing:
            fresh = read(missing)
            found |= fresh
            self._keep(fresh)
        return found

    def forget(self, ids: Iterable[str]) -> None:
        """Drop points that are about to be written or removed."""
        for name in ids:
            self._kept.pop(name, None)

    def forget_all(self) -> None:
        """Drop all points, where it is not known which ones are removed."""
        self._kept.clear()

    def _keep(self, fresh: dict[str, Payload]) -> None:
        self._kept |= fresh
        if (more := len(self._kept) - self._most) > 0:
            for name in list(self._kept)[:more]:
                del self._kept[name]


MAX_DECODED = 8192
"""Number of decoded payloads of one process; the oldest are dropped first. One takes some four kilobytes."""


class DecodedPayloads:
    """The payloads of points as a server has sent them last. One that comes again as it was is the same object."""

    def __init__(self, most: int = MAX_DECODED) -> None:
        self._most = most
        self._kept: dict[str, tuple[Any, Payload]] = {}

    def of(self, name: str, stored: Any) -> Payload:
        """Return the decoded payload of a point. Raises ``DamagedError`` for one that Pentad did not write."""
        known = self._kept.get(name)
        if known is not None and known[0] == stored:
            return known[1]
        payload = decode_payload(name, stored)
        self._kept[name] = stored, payload
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return payload
