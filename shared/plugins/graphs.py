"""The ``graph`` function and the graphs of this process."""

import sys
from collections.abc import Mapping
from types import FrameType, MappingProxyType
from typing import TypeVar

from pentad.contracts.graphs import GraphSpec
from pentad.shared.agent_graphs.given import GivenGraph, WrongSpec, spec_of
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.runnables import defined_runnables, register_runnable

G = TypeVar("G", bound=GivenGraph)
_MODULE_BODY = "<module>"


def graph(given: G) -> G:
    """Makes a graph one of this plugin's, and returns it: a dict, a ``GraphSpec`` or what an ``AgentBuilder`` builds.

    Call it at the module's top: tool-workers publish the graph for all services, and messages name it as they name an
    instruction. Raises ``PluginError`` for what is no graph, with all its mistakes, and for a name that is taken.
    """
    try:
        made = spec_of(given)
    except WrongSpec as error:
        name = given.get("name") if isinstance(given, Mapping) else None
        raise PluginError(f"graph {name!r}: {error}" if isinstance(name, str) else f"graph: {error}") from None
    register_runnable(made, _source(sys._getframe(1), made.name))
    return given


def registered_graphs() -> Mapping[str, GraphSpec]:
    """Return the graphs that the modules imported so far have defined, by name."""
    return MappingProxyType({name: made for name, made in defined_runnables().items() if isinstance(made, GraphSpec)})


def _source(frame: FrameType, name: str) -> str:
    """Return the place of a graph in the words of a function's: ``module.name``, within a function with its name."""
    module, within = str(frame.f_globals.get("__name__", "__main__")), frame.f_code.co_name
    return f"{module}.{name}" if within == _MODULE_BODY else f"{module}.{within}.<locals>.{name}"
