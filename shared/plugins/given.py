"""Tools that a program hands over as objects: functions, decorated or plain, and objects of ``ExpandableTool``."""

from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

from pentad.contracts.tools import DEFAULT_BREAKER
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.expandable import ExpandableTool, definitions_of, needs_arguments
from pentad.shared.plugins.registry import check_name, define, definition_of


def given_tools(tools: Sequence[Any]) -> tuple[ToolDefinition, ...]:
    """Return the definitions of these tools. Raises ``PluginError``, which names the place of what is wrong."""
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise PluginError(
            f"it must be a list of functions or of objects of pentad.ExpandableTool, not {type(tools).__name__}"
        )
    found: dict[str, ToolDefinition] = {}
    for number, tool in enumerate(tools):
        try:
            for definition in _definitions(tool):
                _check(definition, found)
                found[definition.spec.name] = definition
        except PluginError as error:
            raise PluginError(f"tools[{number}]: {error}") from None
    return tuple(found.values())


def _definitions(tool: Any) -> Iterator[ToolDefinition]:
    if isinstance(tool, ExpandableTool) or (isinstance(tool, type) and issubclass(tool, ExpandableTool)):
        if isinstance(tool, type) and needs_arguments(tool):
            raise PluginError(f"{tool!r} cannot be made without arguments: give an object of it")
        definitions = definitions_of(tool)
        if not definitions:
            raise PluginError(f"{tool!r} has no action: put @pentad.action above its methods")
        yield from definitions
    elif (definition := definition_of(tool)) is not None:
        yield definition
    elif isinstance(tool, FunctionType):
        yield define(tool, breaker=DEFAULT_BREAKER)
    else:
        raise PluginError(
            f"{tool!r} is no tool: give a function, decorated with @pentad.tool or plain, or an object of a "
            "pentad.ExpandableTool"
        )


def _check(definition: ToolDefinition, found: dict[str, ToolDefinition]) -> None:
    name = definition.spec.name
    check_name(definition)
    if definition.spec.isolated:
        raise PluginError(
            f"tool {name!r} is isolated, and tools that are handed over run in this process: put it into a module, and "
            "name that in plugins="
        )
    if name in found:
        raise PluginError(f"another of these tools is called {name!r}: give one of them another name")
