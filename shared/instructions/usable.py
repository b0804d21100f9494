"""Whether an instruction or a graph can be used: its schemas, and the names that graphs may not have."""

from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Any

from pentad.contracts.graph_nodes import LlmNode
from pentad.contracts.graphs import GraphSpec, Runnable
from pentad.shared.instructions.builtin import BUILT_IN, EXECUTOR, STRATEGIES

_OF_SERVICES = frozenset(BUILT_IN) - {EXECUTOR.name, *(each.name for each in STRATEGIES)}
"""Names of the instructions that services ask by themselves: no graph may stand in their place."""
_MAX_PROVING_S = 30.0
"""Seconds that the check of all schemas of one graph may take."""


def check_usable(runnable: Runnable) -> None:
    """Raise ``ValueError`` for what cannot be used. The checker is loaded only for what has a schema.

    This returns at once: a schema whose check may take long is left to `prove_usable`.
    """
    _check(runnable, thoroughly=False)


def prove_usable(runnable: Runnable) -> None:
    """Check as `check_usable` does, for every schema. This may take seconds: do not call it in an event loop."""
    _check(runnable, thoroughly=True)


def _check(runnable: Runnable, *, thoroughly: bool) -> None:
    if isinstance(runnable, GraphSpec) and runnable.name in _OF_SERVICES:
        raise ValueError(f"services ask the instruction {runnable.name!r} themselves: give the graph another name")
    until = monotonic() + _MAX_PROVING_S
    for place, schema in _schemas(runnable):
        from pentad.shared.instructions.output import Output

        try:
            output = Output(schema)
            if thoroughly:
                output.prove()
        except ValueError as error:
            raise ValueError(str(error).replace("output_schema", place, 1)) from None
        if monotonic() > until:
            raise ValueError(f"the check of its schemas takes more than {_MAX_PROVING_S:g} s: make them simpler")


def _schemas(runnable: Runnable) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the JSON schemas of an instruction or a graph, each with its place."""
    if not isinstance(runnable, GraphSpec):
        if runnable.output_schema is not None:
            yield "output_schema", runnable.output_schema
        return
    if runnable.state_schema is not None:
        from pentad.shared.instructions.state_check import values_schema

        yield "state_schema", runnable.state_schema
        if (of_values := values_schema(runnable.state_schema)) is not None:
            yield "state_schema", of_values
    for number, node in enumerate(runnable.nodes):
        if isinstance(node, LlmNode) and node.output_schema is not None:
            yield f"nodes[{number}] ({node.key}).output_schema", node.output_schema
