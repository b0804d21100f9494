"""A source of tools: the built-in ones. They run in the worker itself: they are ours, and hold nothing up."""

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter
from types import MappingProxyType

from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.tool_worker.builtins.catalogue import BUILTINS
from pentad.services.tool_worker.invocation import OnProgress, ToolInvocation
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import InvalidArguments
from pentad.shared.plugins.results import result_text


class Builtins:
    """The built-in tools. ``quick``: all of them ask nobody."""

    def __init__(self, definitions: Mapping[str, ToolDefinition] = BUILTINS, *, quick: bool = True) -> None:
        self._definitions, self.quick = definitions, quick
        self.tools: Mapping[str, ToolSpec] = MappingProxyType({name: d.spec for name, d in definitions.items()})

    async def start(self, changed: Callable[[], None]) -> None:
        """Nothing has to be started."""

    async def stop(self, grace_s: float) -> None:
        """Nothing has to be stopped."""

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
