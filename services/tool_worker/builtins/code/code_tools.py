"""The tools that run and keep Python scripts of models, where the settings ask for them and a sandbox is to be had."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from types import MappingProxyType
from typing import Self

from pentad.contracts.tools import Artifact, OutcomeKind, ToolOutcome, ToolSpec
from pentad.services.tool_worker.builtins.code.own_scripts import OwnScripts
from pentad.services.tool_worker.builtins.code.run_python import ScriptFailed, run_python_tool
from pentad.services.tool_worker.builtins.code.script_tools import script_tools
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.services.tool_worker.tool_value import value_of
from pentad.shared.errors import PentadError
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import InvalidArguments, UnusableResult
from pentad.shared.sandbox.namespaces import find_bubblewrap
from pentad.shared.sandbox.sandbox import Sandbox
from pentad.shared.sandbox.script_run import SandboxError, ScriptLostError
from pentad.shared.scripts.script_store import ScriptStore
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store

log = logging.getLogger(__name__)
_UNCONFINED = (
    "PENTAD_SANDBOX=off: scripts of models run as this user, with its files and network; only where something else "
    "confines the whole tool-worker"
)


class CodeTools:
    """A source of tools: ``run_python``, and where scripts can be kept ``script_save list read run``.

    They are there once the start has proved that scripts can be confined, or is told to do without.
    """

    quick = False

    def __init__(self, sandbox: Sandbox, own: OwnScripts | None) -> None:
        self._sandbox, self._own = sandbox, own
        self._definitions: Mapping[str, ToolDefinition] = MappingProxyType({})
        self.tools: Mapping[str, ToolSpec] = MappingProxyType({})

    @classmethod
    def of(cls, settings: Settings, store: Store) -> Self:
        """Return the tools that the settings ask for. Raises ``SettingsError``."""
        confined = settings.pentad_sandbox == "on"
        sandbox = Sandbox(confined=confined, bubblewrap=find_bubblewrap() if confined else None)
        if settings.pentad_scripts is None:
            return cls(sandbox, None)
        return cls(sandbox, OwnScripts(ScriptStore(settings.pentad_scripts), store, settings.pentad_shards))

    async def start(self, changed: Callable[[], None]) -> None:
        """Find out whether scripts can be run here; where they cannot, the log says why and there are no tools."""
        if self._sandbox.is_confined:
            try:
                confining = await self._sandbox.prove()
            except SandboxError as error:
                log.warning("run_python and the tools of scripts are not offered: %s; or docs/sandbox.md", error)
                return
            log.info("scripts are confined by %s", confining.words)
        else:
            log.warning("%s", _UNCONFINED)
        made = {tool.spec.name: tool for tool in self._made()}
        self._definitions = MappingProxyType(made)
        self.tools = MappingProxyType({name: tool.spec for name, tool in made.items()})

    def _made(self) -> Iterator[ToolDefinition]:
        yield run_python_tool(self._sandbox)
        if self._own is not None:
            yield from script_tools(self._own, self._sandbox)

    async def stop(self, grace_s: float) -> None:
        """End what runs."""
        await self._sandbox.aclose()

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        """Run one call. Every failure is an outcome; a script that was lost through no fault of its own runs again."""
        tool, timeout_s = self._definitions[invocation.tool], invocation.timeout_s
        name, begun = tool.spec.name, perf_counter()

        def outcome(kind: OutcomeKind, text: str, made: tuple[Artifact, ...] = ()) -> ToolOutcome:
            return ToolOutcome(kind, text, round((perf_counter() - begun) * 1000), made=made)

        try:
            kwargs = tool.bind(invocation.args, invocation.context)
            returned = await asyncio.wait_for(tool.function(**kwargs), timeout_s)
            value = value_of(name, returned, invocation.files_of)
            return outcome("ok", value.text, value.artifacts)
        except (InvalidArguments, UnusableResult) as error:
            return outcome("error", str(error))
        except ScriptFailed as error:
            return outcome("timeout" if error.timed_out else "error", f"{name}: {error}")
        except ScriptLostError as error:
            return outcome("interrupted", str(error))
        except TimeoutError:
            return outcome("timeout", f"{name}: no result within {timeout_s:g} s")
        except (PentadError, OSError) as error:
            return outcome("error", f"{name}: {error}")
