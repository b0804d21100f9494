"""Takes up plug-ins and what else is read from files again when they change, for ``pentad up --reload``."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.graphs import Runnable
from pentad.contracts.models import ModelEntry
from pentad.shared.errors import PentadError
from pentad.shared.instructions.instruction_list import configured_instructions
from pentad.shared.models.configured_models import ConfiguredModels, configured_models
from pentad.shared.plugins.loading import MAX_SOURCE_FILES
from pentad.shared.policies.policy_list import configured_policies
from pentad.shared.service.process import cancel_and_wait
from pentad.shared.service.runnable import RunnableService
from pentad.shared.settings import Settings

log = logging.getLogger(__name__)

_EVERY_S = 0.5
"""Seconds between two looks at the files. A change is taken up when a second look finds it unchanged."""

Stamps = Mapping[str, tuple[int, int, int] | None]
"""The time of change, size and inode of each file; None for one that cannot be found."""


@runtime_checkable
class UsesInstructions(Protocol):
    """A service that has the instructions of the file, and takes others while it runs."""

    def use_instructions(self, configured: Sequence[Runnable]) -> None:
        """Take these from now on."""


@runtime_checkable
class UsesModels(Protocol):
    """A service that has the models of the file, and takes other chat models while it runs."""

    def use_models(self, configured: ConfiguredModels) -> None:
        """Take these from now on."""


@runtime_checkable
class UsesPolicies(Protocol):
    """A service that has the approval policies of the file, and takes others while it runs."""

    def use_policies(self, configured: Sequence[ApprovalRule]) -> None:
        """Take these from now on."""


@runtime_checkable
class UsesPlugins(Protocol):
    """A service that runs the tools of plug-ins."""

    @property
    def plugin_files(self) -> Sequence[str]:
        """The files that the plug-ins were imported from."""

    async def reload_plugins(self) -> None:
        """Import them anew. Raises ``PluginError`` or ``OSError``; what was imported before stays in use then."""


class WatchedFiles:
    """Some files that are taken up together.

    ``files``: returns those that there are now. ``take_up``: raises when it cannot, which is logged; what was there
    before stays in use then.
    """

    def __init__(self, what: str, files: Callable[[], Iterable[str]], take_up: Callable[[], Awaitable[None]]) -> None:
        self._what, self._files, self._take_up = what, files, take_up
        self._taken: Stamps = {}
        self._seen: Stamps = {}
        self._wrong = False
        """Whether what is in use is not what the files say."""

    @property
    def count(self) -> int:
        """Number of the files."""
        return len(list(self._files()))

    async def begin(self) -> None:
        """Take the files for taken up as they are now."""
        self._taken = self._seen = await asyncio.to_thread(stamps_of, self._watched())

    async def look(self) -> None:
        """Take the files up when they have changed since, and not since the last look: nobody is writing them then."""
        now = await asyncio.to_thread(stamps_of, self._watched())
        changed = [name for name, stamp in now.items() if stamp != self._taken.get(name, stamp)]
        settled, self._seen = now == self._seen, now
        if not changed:
            self._taken = now
        elif settled:
            await self._take(changed)
            # A file that has come with the change was read just now; one that changed meanwhile is seen again.
            self._taken = await asyncio.to_thread(stamps_of, self._watched()) | dict(now)

    def _watched(self) -> list[str]:
        files = list(self._files())
        return _with_neighbours(files) if self._wrong else files

    async def _take(self, changed: Sequence[str]) -> None:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        try:
            await self._take_up()
        except Exception as error:  # whatever a wrong file leads to, the system goes on
            self._wrong = True
            trace = None if isinstance(error, PentadError | OSError) else error
            text = "%s stay as they were, because a change cannot be taken up: %s"
            log.error(text, self._what, error, exc_info=trace)
        else:
            self._wrong = False
            log.info("%s are read anew: %s%s has changed", self._what, changed[0], more)


def stamps_of(files: Iterable[str]) -> dict[str, tuple[int, int, int] | None]:
    """Return what shows that a file has changed, of each of these."""
    return {name: _stamp(name) for name in files}


def _stamp(name: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _with_neighbours(files: Sequence[str]) -> list[str]:
    """Return these files and the modules beside them: what kept one from being imported may be in a module that was
    never imported."""
    folders = dict.fromkeys(Path(name).parent for name in files)
    beside = (str(path) for folder in folders for path in sorted(folder.glob("*.py")))
    return [*dict.fromkeys([*files, *beside])][:MAX_SOURCE_FILES]


class Reloader:
    """Watches the files of the services of one process, beside them."""

    name = "reload"

    def __init__(self, settings: Settings, services: Iterable[RunnableService]) -> None:
        self._settings = settings
        services = tuple(services)
        self._of_instructions = [each for each in services if isinstance(each, UsesInstructions)]
        self._of_models = [each for each in services if isinstance(each, UsesModels)]
        self._of_policies = [each for each in services if isinstance(each, UsesPolicies)]
        plugins = [each for each in services if isinstance(each, UsesPlugins)]
        self._watched = [
            WatchedFiles("the plug-ins", partial(getattr, each, "plugin_files"), each.reload_plugins)
            for each in plugins
        ]
        if settings.pentad_instructions is not None:
            file = str(settings.pentad_instructions)
            self._watched.append(WatchedFiles("the instructions", lambda: [file], self._read_instructions))
        if settings.pentad_models is not None:
            models = str(settings.pentad_models)
            self._watched.append(WatchedFiles("the models", lambda: [models], self._read_models))
        if settings.pentad_policies is not None:
            policies = str(settings.pentad_policies)
            self._watched.append(WatchedFiles("the approval policies", lambda: [policies], self._read_policies))
        self._watching: asyncio.Task[None] | None = None
        self._embedding: Sequence[ModelEntry] = ()
        self.about = ""

    async def start(self) -> None:
        self._embedding = _embedding(await asyncio.to_thread(configured_models, self._settings))
        for each in self._watched:
            await each.begin()
        self.about = f"reload: {sum(each.count for each in self._watched)} files are watched"
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watching is not None:
            await cancel_and_wait(self._watching)

    def checks(self) -> Mapping[str, str | None]:
        return {}

    def alive(self) -> bool:
        return self._watching is None or not self._watching.done()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            for each in self._watched:
                await each.look()

    async def _read_instructions(self) -> None:
        read = await asyncio.to_thread(configured_instructions, self._settings)
        for service in self._of_instructions:
            service.use_instructions(read)

    async def _read_policies(self) -> None:
        read = await asyncio.to_thread(configured_policies, self._settings)
        for service in self._of_policies:
            service.use_policies(read)

    async def _read_models(self) -> None:
        read = await asyncio.to_thread(configured_models, self._settings)
        if _embedding(read) != self._embedding:
            log.warning("other embedding models are used from the next start on, as what they embed is kept")
        self._embedding = _embedding(read)
        for service in self._of_models:
            service.use_models(read)


def _embedding(models: ConfiguredModels) -> Sequence[ModelEntry]:
    return [entry for entry in models.file if entry.kind == "embedding"]
