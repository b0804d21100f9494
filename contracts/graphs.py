"""Graphs of nodes: what a task runs where one instruction is not enough, as data.

A graph is versioned like an instruction, and shares its names with instructions: a message names either of them. The
words (node, edge, entry, ends, condition) are those of state graphs in other agent frameworks.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import to_json

from pentad.contracts.envelope import Contract
from pentad.contracts.graph_checks import declared_reducers, problems_of
from pentad.contracts.graph_nodes import MAX_S, Edge, Node, NodeKey, Reducer
from pentad.contracts.ids import Identifier
from pentad.contracts.instructions import MAX_SCHEMA, Instruction, MessagePolicy

MAX_NODES = 200
MAX_EDGES = 1_000
MAX_GRAPH = 262_144
"""Bytes that a graph may have as JSON."""
MAX_DEPTH = 8
"""Levels of tasks below each other: a graph in a branch of a graph, and so on."""


class GraphSpec(Contract):
    """A graph: its nodes, the edges between them, where it begins and where it ends."""

    name: Identifier
    description: str = Field(default="", max_length=1_000)
    max_iterations: int = Field(default=50, ge=1, le=10_000)
    """Nodes that one run may go through, each time counted."""
    timeout: float = Field(default=60.0, gt=0, le=MAX_S)
    """Seconds that one run may take. The time for which a person is asked or the task is paused does not count."""
    state_schema: dict[str, Any] | None = None
    """JSON Schema of the state, an object. A property may name the ``reducer`` of its key: ``replace append merge
    sum``."""
    nodes: list[Node] = Field(min_length=1, max_length=MAX_NODES)
    edges: list[Edge] = Field(default_factory=list, max_length=MAX_EDGES)
    entry: NodeKey
    """Key of the node with which a run begins."""
    ends: list[NodeKey] = Field(min_length=1, max_length=MAX_NODES)
    """Keys of the nodes after which a run ends, if none of their conditional edges holds."""

    @field_validator("state_schema")
    @classmethod
    def _is_of_an_object(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None and len(to_json(schema)) > MAX_SCHEMA:
            raise ValueError(f"it has more than {MAX_SCHEMA} bytes")
        return schema

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if len(self.to_json()) > MAX_GRAPH:
            raise ValueError(f"a graph has {MAX_GRAPH} bytes at most")
        if problems := problems_of(self.nodes, self.edges, self.entry, self.ends, self.state_schema):
            raise ValueError("; ".join(problems))
        return self

    @cached_property
    def by_key(self) -> Mapping[str, Node]:
        """The nodes by their keys."""
        return {node.key: node for node in self.nodes}

    @cached_property
    def edges_by_source(self) -> Mapping[str, Sequence[Edge]]:
        """The edges by the keys of the nodes that they leave, in their order."""
        found: dict[str, list[Edge]] = {}
        for edge in self.edges:
            found.setdefault(edge.source, []).append(edge)
        return found

    @cached_property
    def reducers(self) -> Mapping[str, Reducer]:
        """The reducers that the schema of the state declares, by the keys of the state."""
        return declared_reducers(self.state_schema)

    @property
    def on_message(self) -> MessagePolicy:
        """Effect of a message that comes during a run: the next step sees it."""
        return "steer"

    def to_json(self) -> bytes:
        """Return the wire form, which is the same for the same graph."""
        return self.__pydantic_serializer__.to_json(self, exclude_none=True, by_alias=True)


Runnable = Instruction | GraphSpec
"""An instruction or a graph: either may be named by a message and run by a task."""
