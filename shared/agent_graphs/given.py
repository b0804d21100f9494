"""Graphs that a program hands over: as dicts, as contracts, or as what a builder has made."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from pydantic import ValidationError

from pentad.contracts.graphs import GraphSpec
from pentad.shared.entry_file import complaints


@runtime_checkable
class HasSpec(Protocol):
    """A graph that was built."""

    @property
    def spec(self) -> GraphSpec:
        """The graph as data."""


GivenGraph = GraphSpec | HasSpec | Mapping[str, Any]
"""A graph that a program hands over."""


class WrongSpec(ValueError):  # noqa: N818 - reads as what it is
    """A graph that a program has given has mistakes. ``problems``: all of them, each with its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def spec_of(given: GivenGraph) -> GraphSpec:
    """Return the graph that is given. A field that graphs do not have is refused. Raises ``WrongSpec``."""
    if isinstance(given, GraphSpec):
        return given
    if isinstance(given, HasSpec) and isinstance(given.spec, GraphSpec):
        return given.spec
    if not isinstance(given, Mapping):
        raise WrongSpec([f"a graph is a dict, a GraphSpec or what an AgentBuilder builds, not {type(given).__name__}"])
    try:
        return GraphSpec.model_validate(dict(given), extra="forbid")
    except ValidationError as error:
        raise WrongSpec([*complaints(error)]) from None
