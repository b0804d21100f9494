"""The tools that every tool-worker has. They run inside the worker: they are ours and never block."""

from collections.abc import Mapping
from types import MappingProxyType

from pentad.contracts.tools import Effect
from pentad.services.tool_worker.builtins.calculator import calculator
from pentad.services.tool_worker.builtins.clock import clock_of
from pentad.services.tool_worker.builtins.echo import echo
from pentad.services.tool_worker.builtins.note import memory_note
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define


def builtins_of(zone: str) -> Mapping[str, ToolDefinition]:
    """The built-in tools by name. ``zone``: the time zone of the clock."""
    functions = (calculator, clock_of(zone), echo, memory_note)
    return MappingProxyType({function.__name__: define(function, effect=Effect.PURE) for function in functions})


BUILTINS = builtins_of("UTC")
"""By name, with the clock of UTC. A plug-in's tool of such a name replaces it."""
