"""The tools that every tool-worker has. They run inside the worker: they are ours and never block."""

from collections.abc import Mapping
from types import MappingProxyType

from pentad.contracts.tools import Effect
from pentad.services.tool_worker.builtins.calculator import calculator
from pentad.services.tool_worker.builtins.clock import current_time
from pentad.services.tool_worker.builtins.echo import echo
from pentad.services.tool_worker.builtins.note import memory_note
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define

_FUNCTIONS = (calculator, current_time, echo, memory_note)
BUILTINS: Mapping[str, ToolDefinition] = MappingProxyType(
    {function.__name__: define(function, effect=Effect.PURE) for function in _FUNCTIONS}
)
"""By name. A plug-in's tool of such a name replaces it."""
