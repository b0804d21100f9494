"""Files of sessions that go: with what is erased, and with sessions that nobody has used for as long as they are known.

A late call takes its file back when its task was erased (``services/tool_worker/call_files.py``), so that what is
removed here stays removed.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pentad.contracts.ids import shard_of
from pentad.shared.errors import OutageError
from pentad.shared.keys import SessionKeys
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.workspace.file_errors import FileRefusedError
from pentad.shared.workspace.workspace import Workspaces

_say = ThrottledLog(logging.getLogger(__name__))
_LOOK_S = 3600.0
"""Seconds between two looks for old workspaces."""


class ErasedFiles:
    """Removes the files of what is erased. Without ``workspaces`` there are none. All raise ``OutageError``."""

    def __init__(self, workspaces: Workspaces | None) -> None:
        self._workspaces = workspaces

    async def of_session(self, tenant: str, session: str) -> None:
        """Remove all files of a session. Safe to repeat."""
        if self._workspaces is not None:
            await self._workspaces.erase(tenant, session)

    async def of_calls(self, tenant: str, session: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Remove what the tool calls in these messages have made. Safe to repeat."""
        if self._workspaces is None or not session:
            return
        try:
            workspace = self._workspaces.open(tenant, session)
        except FileRefusedError:
            return
        if calls := {str(message["tool_call_id"]) for message in messages if message.get("tool_call_id")}:
            await workspace.remove_artifacts(calls)


class OldFiles:
    """Removes workspaces of sessions that are forgotten, once they have not changed for ``ttl_s`` seconds."""

    def __init__(self, store: Store, workspaces: Workspaces, shards: int, ttl_s: int) -> None:
        self._store, self._workspaces, self._shards, self._ttl_s = store, workspaces, shards, ttl_s

    async def run(self) -> None:
        """Look now and then. Runs for ever."""
        while True:
            try:
                await self.look()
            except OutageError as error:
                _say.warning("old files", "old files of sessions are not removed now: %s", error)
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> int:
        """Remove what is old now; return how many workspaces that were. Raises ``OutageError``."""
        removed, now = 0, await self._store.clock()
        for place in await self._workspaces.places():
            keys = SessionKeys(shard_of(place.tenant, place.session, self._shards), place.tenant, place.session)
            if await self._workspaces.last_change(place) > now - self._ttl_s * 1000:
                continue
            if not await self._store.call("EXISTS", keys.header):
                await self._workspaces.erase(place.tenant, place.session)
                removed += 1
        return removed
