"""The instructions and graphs that the plugins of this process define, under names that they share."""

from collections.abc import Mapping, Sequence

from pentad.contracts.graphs import GraphSpec, Runnable
from pentad.shared.plugins.errors import PluginError

_defined: dict[str, tuple[Runnable, str]] = {}
"""The instructions and graphs by name, each with the place where it is defined."""


def register_runnable(made: Runnable, source: str) -> None:
    """Add an instruction or a graph that is defined at this place. Raises ``PluginError`` if its name is taken."""
    earlier = _defined.get(made.name)
    if earlier is not None and (earlier[1], type(earlier[0])) != (source, type(made)):
        raise PluginError(
            f"{_word(made)} {made.name!r} is defined twice, as {_word(earlier[0])} {earlier[1]} and as {_word(made)} "
            f"{source}: give one of them another name, as @instruction(name=...) does"
        )
    _defined[made.name] = (made, source)


def defined_runnables() -> Mapping[str, Runnable]:
    """Return the instructions and graphs that the modules imported so far have defined, by name."""
    return {name: made for name, (made, _) in _defined.items()}


def runnable_sources() -> Sequence[str]:
    """Return the place where each instruction or graph is defined: ``module.name``."""
    return tuple(source for _, source in _defined.values())


def _word(made: Runnable) -> str:
    return "graph" if isinstance(made, GraphSpec) else "instruction"
