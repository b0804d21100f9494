"""The published tools as one process sees them: read at most once a second."""

import logging
from collections.abc import Mapping
from time import monotonic
from types import MappingProxyType

from pentad.contracts.tools import ToolSpec
from pentad.shared.errors import OutageError
from pentad.shared.keys import DAY_S
from pentad.shared.presence.published import TOOLS
from pentad.shared.secrets.user_secrets import UserSecrets
from pentad.shared.store.store import Store, guarded
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))
_FRESH_S = 1.0
_KEPT_S = DAY_S
"""Tools stay for a day after their worker's last beat, so an empty registry is one that Redis lost: they come back."""


class ToolCatalog:
    """Hands out the same mapping until something changed, so that what is derived from it can be kept."""

    silent: Mapping[str, int] = MappingProxyType({})
    """Tools that no living worker has, each with when one last had it: ms of the server's clock."""

    def __init__(self, store: Store, secrets: UserSecrets | None = None) -> None:
        """``secrets``: of users, for tools that need them; without it nobody has any."""
        self._store, self._secrets = store, secrets or UserSecrets(None)
        self._specs: Mapping[str, ToolSpec] = {}
        self._needs: Mapping[str, frozenset[str]] = {}
        """Tools that need secrets, with the names of these."""
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
                self._needs = {name: frozenset(spec.secrets) for name, spec in specs.items() if spec.secrets}
        return self._specs

    async def kept_from(self, tenant: str, user: str | None) -> frozenset[str]:
        """Return the tools that are not offered to a user, who does not have the secrets that they need.

        While the store of secrets does not answer, nobody is known to have any.
        """
        if not self._needs:
            return frozenset()
        has: dict[frozenset[str], bool] = {}
        for needed in set(self._needs.values()):
            try:
                has[needed] = await self._secrets.has(tenant, user, sorted(needed))
            except OutageError as error:
                has[needed] = False
                _say.warning("secrets", "tools that need secrets are not offered for now: %s", error)
        return frozenset(name for name, needed in self._needs.items() if not has[needed])

    async def _read(self) -> Mapping[str, ToolSpec]:
        raw, now = await TOOLS.fetch(self._store), await self._store.clock()
        found = TOOLS.beats(raw, now)
        self.silent = {name: each.beat for name, each in found.items() if not each.alive(now)}
        return {name: each.item for name, each in found.items()}
