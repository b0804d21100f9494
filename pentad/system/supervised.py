"""A service in a process of its own, for the runner of the others: started, started again when it ends, stopped."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.graphs import Runnable
from pentad.contracts.streams import Service
from pentad.shared.child_processes import Backoff, ending
from pentad.shared.errors import PentadError
from pentad.shared.models.configured_models import ConfiguredModels
from pentad.shared.service.process import cancel_and_wait
from pentad.shared.service.runnable import RunnableService
from pentad.shared.settings import Settings
from pentad.system.service_process import ServiceProcess

log = logging.getLogger(__name__)

_SILENT_TICKS = 10
"""Seconds without a word from the process after which its readiness is in doubt."""
_PROCESS = "process"
"""Name of the check that fails while there is no process that could tell the service's own."""


class SupervisedService:
    """The port `RunnableService`: a service that runs in a child process, which ends with this one, however that ends.

    What it reports is what the service itself reports there. A process that ends unasked is started again, after longer
    and longer pauses when it keeps ending; what it had in work is taken up as after any kill.
    """

    def __init__(self, name: Service, module: str) -> None:
        """``module``: name of the module with the composition root, ``build``."""
        self.name: str = name
        self._service = name
        self._module = module
        self._settings: Settings | None = None
        self._process: ServiceProcess | None = None
        self._trouble: str | None = "its process is being started"
        """Why there is no process that serves; None: there is one."""
        self._backoff = Backoff()
        self._keeper: asyncio.Task[None] | None = None

    async def launch(self) -> None:
        """Start the process ahead of `start`, so that it imports what it needs meanwhile. Raises ``PentadError``."""
        self._process = await ServiceProcess.launch(self._service, self._module)

    def build(self, settings: Settings) -> RunnableService:
        """Be the service's composition root: returns this service, with its settings."""
        self._settings = settings
        return self

    async def start(self) -> None:
        await self._begin()
        self._keeper = asyncio.create_task(self._keep(), name=f"supervisor of {self.name}")

    async def stop(self) -> None:
        if self._keeper is not None:
            await cancel_and_wait(self._keeper)
        if self._process is not None:
            await self._process.end()

    async def close(self) -> None:
        """Kill a process that has not been stopped, or not in time."""
        if self._keeper is not None:
            await cancel_and_wait(self._keeper)
        if self._process is not None and not self._process.gone.is_set():
            await self._process.kill()

    def checks(self) -> Mapping[str, str | None]:
        process = self._process
        if self._trouble is not None or process is None or process.checks is None:
            return {_PROCESS: self._trouble or "its process has not told anything yet"}
        if process.silent_ticks >= _SILENT_TICKS:
            return {**process.checks, _PROCESS: f"its process does not answer, for {process.silent_ticks} s now"}
        return process.checks

    def notes(self) -> Mapping[str, str]:
        """Return what the service has for its operator."""
        return {} if self._process is None else self._process.notes

    def outages(self) -> Collection[str]:
        """Return what the service starts without."""
        return () if self._process is None else self._process.outages

    def alive(self) -> bool:
        return self._keeper is None or not self._keeper.done()

    async def fetch_counts(self) -> None:
        """See `CountsElsewhere`."""
        if self._process is not None:
            await self._process.fetch_counts()

    def use_instructions(self, configured: Sequence[Runnable]) -> None:
        """Have the process read the files of the settings anew: they were found readable here."""
        self._read_files()

    def use_models(self, configured: ConfiguredModels) -> None:
        """Have the process read the files of the settings anew: they were found readable here."""
        self._read_files()

    def use_policies(self, configured: Sequence[ApprovalRule]) -> None:
        """Have the process read the files of the settings anew: they were found readable here."""
        self._read_files()

    def _read_files(self) -> None:
        if self._process is not None and self._trouble is None:
            self._process.read_files()

    async def _begin(self) -> None:
        """Have a process that serves. Raises ``PentadError``."""
        assert self._settings is not None, "it is built first"
        if self._process is None or self._process.gone.is_set():
            await self.launch()
        assert self._process is not None
        await self._process.serve(self._settings)
        self._trouble = None

    async def _keep(self) -> None:
        while True:
            assert self._process is not None
            await self._process.gone.wait()
            how = ending(self._process.exit_code)
            self._trouble = f"its process ended ({how}) and is started again"
            log.error("the process of the %s ended (%s): it is started again", self.name, how)
            while self._trouble is not None:
                await self._begin_again()

    async def _begin_again(self) -> None:
        now = asyncio.get_running_loop().time
        self._backoff.lost(now())
        await asyncio.sleep(self._backoff.delay(now()))
        self._backoff.started(now())
        try:
            await self._begin()
        except PentadError as error:
            self._trouble = f"its process cannot be started again: {error}"
            log.error("the process of the %s cannot be started again: %s", self.name, error)
        else:
            log.warning("the process of the %s runs again", self.name)
