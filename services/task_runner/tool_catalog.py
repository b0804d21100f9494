"""The published tools as one process sees them: read at most once a second."""

from collections.abc import Mapping
from time import monotonic
from types import MappingProxyType

from pentad.contracts.tools import ToolSpec
from pentad.shared.keys import DAY_S
from pentad.shared.presence.published import TOOLS
from pentad.shared.store.store import Store, guarded

_FRESH_S = 1.0
_KEPT_S = DAY_S
"""Tools stay for a day after their worker's last beat, so an empty registry is one that Redis lost: they come back."""


class ToolCatalog:
    """Hands out the same mapping until something changed, so that what is derived from it can be kept."""

    silent: Mapping[str, int] = MappingProxyType({})
    """Tools that no living worker has, each with when one last had it: ms of the server's clock."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._specs: Mapping[str, ToolSpec] = {}
        self._read_at = self._seen_at = float("-inf")

    async def specs(self) -> Mapping[str, ToolSpec]:
        """The tools by name. While none is published, those that were seen last: calls wait for a worker anyway.

        Who knows of none looks each time: the first worker may have started a moment ago.
        """
        if not self._specs or monotonic() - self._read_at > _FRESH_S:
            specs = await guarded("tools", self._read)
            self._read_at = monotonic()
            if specs:
                self._seen_at = self._read_at
            elif self._read_at - self._seen_at < _KEPT_S:
                return self._specs
            if specs != self._specs:
                self._specs = specs
        return self._specs

    async def _read(self) -> Mapping[str, ToolSpec]:
        raw, now = await TOOLS.fetch(self._store), await self._store.clock()
        found = TOOLS.beats(raw, now)
        self.silent = {name: each.beat for name, each in found.items() if not each.alive(now)}
        return {name: each.item for name, each in found.items()}
