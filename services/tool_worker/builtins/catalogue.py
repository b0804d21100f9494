"""The tools that every tool-worker has. They run inside the worker: they are ours and never block."""

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter
from types import MappingProxyType

from pentad.contracts.tools import Effect, ToolOutcome, ToolSpec
from pentad.services.tool_worker.builtins.calculator import calculator
from pentad.services.tool_worker.builtins.clock import clock_of
from pentad.services.tool_worker.builtins.echo import echo
from pentad.services.tool_worker.builtins.memory_note import memory_note
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import InvalidArguments
from pentad.shared.plugins.registry import define
from pentad.shared.plugins.results import result_text


def builtins_of(zone: str) -> Mapping[str, ToolDefinition]:
    """The built-in tools by name. ``zone``: the time zone of the clock."""
    functions = (calculator, clock_of(zone), echo, memory_note)
    return MappingProxyType({function.__name__: define(function, effect=Effect.PURE) for function in functions})


BUILTINS = builtins_of("UTC")
"""Built-in tools by name, with the clock of UTC. A plug-in's tool of the same name replaces one."""


class Builtins:
    """The built-in tools. ``quick``: whether none of them waits for a store or reads its context."""

    def __init__(self, definitions: Mapping[str, ToolDefinition] = BUILTINS, *, quick: bool = True) -> None:
        self._definitions, self.quick = definitions, quick
        self.tools: Mapping[str, ToolSpec] = MappingProxyType({name: d.spec for name, d in definitions.items()})

    async def start(self, changed: Callable[[], None]) -> None:
        """Do nothing: built-in tools need no start."""

    async def stop(self, grace_s: float) -> None:
        """Do nothing: built-in tools need no stop."""

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        """Run one call. Every failure is an outcome."""
        tool, args, timeout_s = self._definitions[invocation.tool], invocation.args, invocation.timeout_s
        begun = perf_counter()
        try:
            kwargs = tool.bind(args, invocation.context)
            value = tool.function(**kwargs)
            if tool.is_async:
                value = await asyncio.wait_for(value, timeout_s)
            text = result_text(tool.spec.name, value)
        except InvalidArguments as error:
            return _failed(str(error), begun)
        except TimeoutError:
            return ToolOutcome("timeout", f"{tool.spec.name}: no result within {timeout_s:g} s", _ms(begun))
        except Exception as error:
            return _failed(f"{tool.spec.name}: {error}", begun)
        return ToolOutcome("ok", text, _ms(begun))


def _failed(text: str, begun: float) -> ToolOutcome:
    return ToolOutcome("error", text, _ms(begun))


def _ms(begun: float) -> int:
    return round((perf_counter() - begun) * 1000)
