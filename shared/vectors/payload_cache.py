"""What points keep, read from the store once: to read it again with each search was half of a search's work."""

from collections.abc import Callable, Iterable

from pentad.shared.vectors.points import Payload

MAX_PAYLOADS = 32_768
"""Points; the oldest go first. One takes some two kilobytes."""


class PayloadCache:
    """Of one collection, by the points' ids. Whoever writes to the store says so here first."""

    def __init__(self, most: int = MAX_PAYLOADS) -> None:
        self._most = most
        self._kept: dict[str, Payload] = {}

    def of(self, ids: Iterable[str], read: Callable[[list[str]], dict[str, Payload]]) -> dict[str, Payload]:
        """Those of these points. ``read``: asks the store for what is not here; what it has not is left out."""
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
        """These are written or removed."""
        for name in ids:
            self._kept.pop(name, None)

    def forget_all(self) -> None:
        """Nobody can say which."""
        self._kept.clear()

    def _keep(self, fresh: dict[str, Payload]) -> None:
        self._kept |= fresh
        if (more := len(self._kept) - self._most) > 0:
            for name in list(self._kept)[:more]:
                del self._kept[name]
