"""Takes up new code of the plug-ins when an operator asks for it: one worker after the other, each once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from pentad.shared.clipping import clip
from pentad.shared.plugins.errors import PluginError
from pentad.shared.presence.plugin_reloads import (
    MAX_ERROR_CHARS,
    REPORT_EVERY_S,
    ReloadRequest,
    WorkerPlugins,
    last_request,
    leave_turn,
    passing_over_outages,
    report_plugins,
    take_turn,
    withdraw_report,
)
from pentad.shared.service.process import cancel_and_wait
from pentad.shared.store.store import Store

log = logging.getLogger(__name__)

_LOOK_S = 0.5
"""Seconds between two looks at what was asked for."""


class PluginReloads:
    """Follows the requests. What it does not know because it was killed, it does again: an import changes nothing.

    ``reload``: imports the plug-ins anew; raises ``PluginError`` and ``OSError``, and what was imported before stays in
    use then.
    """

    def __init__(
        self, store: Store, worker: str, modules: Sequence[str], reload: Callable[[], Awaitable[None]]
    ) -> None:
        self._store, self._worker, self._modules, self._reload = store, worker, tuple(modules), reload
        self._imported_at = monotonic()
        """Time at which the plug-ins began to be imported, by the monotonic clock."""
        self._word: str | None = None
        """Word of the last request that was carried out; None until it is known which there was at the start."""
        self._error: str | None = None
        self._reported_at = float("-inf")

    def begin(self) -> None:
        """Take note that the plug-ins are imported from now on: requests of before are carried out with that."""
        self._imported_at = monotonic()

    async def follow(self) -> None:
        """Carry out what is asked for, and report. Runs for ever."""
        try:
            while True:
                with passing_over_outages():
                    await self._look()
                await asyncio.sleep(_LOOK_S)
        finally:
            with passing_over_outages():
                await withdraw_report(self._store, self._worker)
                await leave_turn(self._store, self._worker)

    async def _look(self) -> None:
        wanted = await last_request(self._store)
        if self._word is None:
            self._word = "" if wanted is None or await self._is_newer(wanted) else wanted.word
        if wanted is not None and wanted.word != self._word and await take_turn(self._store, self._worker):
            await self._carry_out(wanted)
        if monotonic() - self._reported_at >= REPORT_EVERY_S:
            await self._report()

    async def _is_newer(self, request: ReloadRequest) -> bool:
        """Whether a request came after the plug-ins began to be imported."""
        ago_ms = round((monotonic() - self._imported_at) * 1000)
        return request.at >= await self._store.clock() - ago_ms

    async def _carry_out(self, wanted: ReloadRequest) -> None:
        importing = asyncio.create_task(self._import())
        try:
            while not importing.done():
                with passing_over_outages():
                    await self._report(running=True)
                    await take_turn(self._store, self._worker)
                await asyncio.wait({importing}, timeout=REPORT_EVERY_S)
        finally:
            await cancel_and_wait(importing)
        self._error, self._word = importing.result(), wanted.word
        await self._report()
        await leave_turn(self._store, self._worker)

    async def _import(self) -> str | None:
        """Import the plug-ins anew; return why that failed, None when it did not."""
        try:
            await self._reload()
        except (PluginError, OSError) as error:
            log.error("the plug-ins stay as they were, because new code cannot be taken up: %s", error)
            return clip(str(error), MAX_ERROR_CHARS) or type(error).__name__
        except Exception as error:  # whatever new code leads to, the worker goes on with what it has
            log.exception("the plug-ins stay as they were, because new code cannot be taken up")
            return type(error).__name__
        log.info("the plug-ins are imported anew: %s", ", ".join(self._modules))
        return None

    async def _report(self, *, running: bool = False) -> None:
        report = WorkerPlugins(
            at=await self._store.clock(),
            modules=self._modules,
            word=self._word or "",
            running=running,
            error=self._error,
        )
        await report_plugins(self._store, self._worker, report)
        self._reported_at = monotonic()
